//! `import` as a whole: again, interrupted, broken, into which scope.

use serde_json::{Value, json};

use crate::support::user::User;

const CHAT: &str = concat!(
    r#"{"role":"user","content":"Where is the key?","time":"2026-01-01T10:00:00Z"}"#,
    "\n",
    r#"{"role":"assistant","content":"Under the mat.","time":"2026-01-01T10:00:05Z"}"#,
    "\n",
);

fn counts(report: &Value) -> [u64; 4] {
    ["created", "unchanged", "replaced", "kept"].map(|name| report[name].as_u64().unwrap())
}

#[test]
fn a_turn_keeps_who_when_and_what_and_is_found() {
    let user = User::new();
    user.file("chat.jsonl", CHAT);
    let report = user.json(&["import", "--entries", "chat.jsonl"]);
    assert_eq!(counts(&report), [2, 0, 0, 0]);
    assert_eq!(report["formats"], json!(["jsonl"]));
    let entry = user.json(&["get", "jsonl/chat/00000002"]);
    assert_eq!(entry["value"]["text"], "Under the mat.");
    assert_eq!(
        entry["metadata"],
        json!({"conversation": "chat", "role": "assistant", "speaker": "assistant", "time": "2026-01-01T10:00:05.000Z"})
    );
    assert_eq!(entry["source"], "import:jsonl");
    let found = user.json(&["search", "mat", "--filter", r#"{"eq":["metadata.role","assistant"]}"#]);
    assert_eq!(found["hits"][0]["entry"]["key"], "jsonl/chat/00000002");
    let text = user.ok(&["import", "--entries", "chat.jsonl"]);
    assert!(text.starts_with("0 new, 2 unchanged"), "{text}");
}

#[test]
fn importing_again_changes_nothing_and_a_grown_file_adds_the_rest() {
    let user = User::new();
    user.file("chat.jsonl", CHAT);
    user.json(&["import", "chat.jsonl"]);
    let before = user.ok(&["export"]);
    assert_eq!(counts(&user.json(&["import", "chat.jsonl"])), [0, 2, 0, 0]);
    assert_eq!(user.ok(&["export"]), before, "not even a version changes");
    user.file("chat.jsonl", format!("{CHAT}{{\"role\":\"user\",\"content\":\"Thanks\"}}"));
    assert_eq!(counts(&user.json(&["import", "chat.jsonl"])), [1, 2, 0, 0]);
}

#[test]
fn differing_values_are_kept_by_default() {
    let user = User::new();
    user.file("chat.jsonl", CHAT);
    user.json(&["import", "--entries", "chat.jsonl"]);
    user.file("chat.jsonl", CHAT.replace("mat", "stone"));
    let ran = user.run(&["import", "--entries", "chat.jsonl"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.stdout.contains("1 kept") && ran.stdout.contains("--on-different"), "{ran:?}");
    user.ok(&["import", "--entries", "chat.jsonl", "--on-different", "skip"]);
    let error = user.refused(&["import", "--entries", "chat.jsonl", "--on-different", "fail"], 4, "conflict");
    assert_eq!(error["details"]["key"], "jsonl/chat/00000002");
    assert_eq!(
        counts(&user.json(&["import", "--entries", "chat.jsonl", "--conversation", "other"])),
        [2, 0, 0, 0]
    );
    assert_eq!(
        counts(&user.json(&["import", "--entries", "chat.jsonl", "--on-different", "replace"])),
        [0, 1, 1, 0]
    );
    assert!(user.ok(&["get", "jsonl/chat/00000002"]).contains("stone"));
}

#[test]
fn broken_lines_are_named_and_the_rest_is_imported() {
    let user = User::new();
    let mut chat = CHAT.as_bytes().to_vec();
    chat.extend_from_slice(b"{\"role\":\"user\",\"content\":\"cut o\n");
    chat.extend_from_slice(b"\xff\xfe\n");
    chat.extend_from_slice(
        format!("{{\"role\":\"user\",\"content\":\"{}\"}}\n", "x".repeat(2 << 20)).as_bytes(),
    );
    chat.extend_from_slice(br#"{"role":"user","content":"NUL \u0000 is not kept"}"#);
    user.file("chat.jsonl", &chat);
    let ran = user.run(&["import", "chat.jsonl", "--json"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let report = ran.document();
    assert_eq!(counts(&report), [2, 0, 0, 0]);
    assert_eq!(report["problems"]["count"], 4);
    let mut lines: Vec<u64> = report["problems"]["first"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["line"].as_u64().unwrap())
        .collect();
    lines.sort_unstable();
    assert_eq!(lines, [3, 4, 5, 6]);
    let ran = user.run(&["import", "chat.jsonl"]);
    assert!(ran.stderr.contains("chat.jsonl, line 4: the line is not UTF-8"), "{ran:?}");
    assert!(ran.stdout.contains("2 unchanged") && ran.stdout.contains("4 broken"), "{ran:?}");
}

#[test]
fn many_broken_lines_are_counted_and_the_first_named() {
    let user = User::new();
    user.file("chat.jsonl", format!("{CHAT}{}", "{\n".repeat(50)));
    let ran = user.run(&["import", "chat.jsonl", "--json"]);
    let problems = &ran.document()["problems"];
    assert_eq!((&problems["count"], problems["first"].as_array().unwrap().len()), (&json!(50), 20));
}

#[test]
fn input_comes_from_standard_input_and_from_folders() {
    let user = User::new();
    let ran = user.run_with(&["import", "--entries", "-", "--json"], CHAT.as_bytes());
    assert_eq!(counts(&ran.document()), [2, 0, 0, 0], "{ran:?}");
    assert!(user.ok(&["list"]).contains("jsonl/stdin/00000001"));
    user.file("chats/a.jsonl", CHAT);
    user.file("chats/b/c.jsonl", CHAT);
    user.file("chats/notes.txt", "not read");
    let report = user.json(&["import", "--entries", "chats", "--scope-template", "user:{conversation}"]);
    assert_eq!((&report["files"], counts(&report)), (&json!(2), [4, 0, 0, 0]));
    assert_eq!(user.json(&["stats", "--user", "b/c"])["entries"], 2);
}

#[test]
fn a_file_that_cannot_be_read_or_detected_is_refused() {
    let user = User::new();
    user.refused(&["import", "absent.jsonl"], 74, "not_found");
    user.file("empty.jsonl", "");
    user.file("notes.txt", "Dear diary");
    user.file("export.zip", b"PK\x03\x04....");
    user.ok(&["set", "k", "1"]);
    user.ok(&["snapshot", "x.snap"]);
    for (file, says) in [
        ("empty.jsonl", "empty"),
        ("notes.txt", "--format"),
        ("export.zip", "unpack"),
        ("x.snap", "memory restore"),
    ] {
        let error = user.refused(&["import", file], 6, "corrupt");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    std::fs::create_dir(user.home().join("bare")).unwrap();
    user.refused(&["import", "bare"], 3, "invalid_argument");
    user.file("chat.jsonl", CHAT);
    user.refused(&["import", "chat.jsonl", "--scope-template", "user:{who}"], 3, "invalid_argument");
    // Of several files, an undetected one does not stop the others.
    let ran = user.run(&["import", "notes.txt", "chat.jsonl", "--json"]);
    assert_eq!((ran.code, counts(&ran.document())), (Some(7), [2, 0, 0, 0]));
}

#[test]
fn two_imports_of_one_file_at_once_store_each_turn_once() {
    let user = User::new();
    let chat: String =
        (0..3_000).map(|n| format!("{{\"role\":\"user\",\"content\":\"turn {n}\"}}\n")).collect();
    user.file("chat.jsonl", chat);
    let children: Vec<_> =
        (0..2).map(|_| user.command(&["import", "chat.jsonl", "--json"]).spawn().unwrap()).collect();
    let mut created = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let [new, unchanged, replaced, kept] = counts(&report);
        assert_eq!((new + unchanged, replaced, kept), (3_000, 0, 0));
        created += new;
    }
    assert_eq!(created, 3_000);
    // Each turn with what it is known by, and the end of the log.
    assert_eq!(user.json(&["stats"])["entries"], 6_001);
}
