//! `import` as a whole: repeated, interrupted, broken, and into which scope.

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

/// Regression: `--on-different` applied only to what was stored before, so the distance between two records decided
/// what was kept.
#[test]
fn two_files_with_one_key_are_decided_like_a_file_and_what_is_stored() {
    let user = User::new();
    user.file("a/README.md", "A\n");
    user.file("b/README.md", "B\n");
    let import = |options: &[&str]| user.run(&[&["import", "a", "b", "--json"], options].concat());
    let planned = import(&["--on-different", "replace", "--dry-run"]).document();
    assert_eq!(counts(&planned), [1, 0, 1, 0]);
    let stopped = import(&["--on-different", "fail"]);
    assert_eq!(stopped.code, Some(4), "{stopped:?}");
    assert!(stopped.stderr.contains("/memories/README.md"), "{stopped:?}");
    assert_eq!(user.run(&["get", "/memories/README.md"]).code, Some(1));

    let kept = import(&[]);
    assert_eq!((kept.code, counts(&kept.document())), (Some(7), [1, 0, 0, 1]), "{kept:?}");
    let named = &kept.document()["kept_first"];
    assert_eq!((&named[0]["file"], named.as_array().unwrap().len()), (&json!("b/README.md"), 1), "{named}");
    let read = || user.json(&["get", "/memories/README.md"])["value"].clone();
    assert_eq!(read(), "A\n");
    let skipped = import(&["--on-different", "skip"]);
    assert_eq!((skipped.code, counts(&skipped.document())), (Some(0), [0, 1, 0, 1]), "{skipped:?}");
    let replaced = import(&["--on-different", "replace"]);
    assert_eq!((replaced.code, counts(&replaced.document())), (Some(0), [0, 0, 2, 0]), "{replaced:?}");
    assert_eq!(read(), "B\n");
    assert_eq!(counts(&import(&["--on-different", "replace"]).document()), [0, 1, 1, 0]);
    assert_eq!(read(), "B\n");
}

#[test]
fn turns_whose_session_or_id_looks_like_anothers_are_all_stored_and_what_is_kept_is_named() {
    let line = |id: &str, session: &str, text: &str| {
        format!("{{\"id\":{id},\"session\":{session},\"role\":\"user\",\"content\":\"{text}\"}}\n")
    };
    let chat = [
        line("\"m\"", "1", "tea"),
        line("\"m\"", "\"0001\"", "coffee"),
        line("\"00000004\"", "\"\"", "milk"),
        line("null", "\"\"", "water"),
    ];
    for entries in [&[][..], &["--entries"]] {
        let user = User::new();
        user.file("chat.jsonl", chat.concat());
        let import = [&["import", "chat.jsonl"], entries].concat();
        assert_eq!(counts(&user.json(&import)), [4, 0, 0, 0]);
        user.file("chat.jsonl", chat.concat().replace("coffee", "cocoa"));
        let ran = user.run(&import);
        assert_eq!(ran.code, Some(7), "{ran:?}");
        assert!(ran.stderr.contains("chat.jsonl, line 2: not stored: "), "{ran:?}");
        assert_eq!(ran.stderr.matches("not stored").count(), 1, "{ran:?}");
    }
}

#[test]
fn a_folder_of_markdown_keeps_its_paths_under_the_name_of_a_conversation() {
    let user = User::new();
    user.file("notes/a.md", "A");
    user.file("notes/deep/b.md", "B");
    user.file("notes/\u{202e}evil.md", "C");
    let ran = user.run(&["import", "notes", "--conversation", "proj", "--json"]);
    let report = ran.document();
    assert_eq!((ran.code, counts(&report)), (Some(7), [2, 0, 0, 0]), "{ran:?}");
    let why = report["problems"]["first"][0]["why"].as_str().unwrap();
    assert!(why.contains("\\u{202e}evil.md") && why.contains("mark of direction"), "{why}");
    for path in ["/memories/proj/a.md", "/memories/proj/deep/b.md"] {
        user.ok(&["get", path]);
    }
    user.run_with(&["import", "-", "--format", "markdown", "--conversation", "proj/c"], b"C");
    user.ok(&["get", "/memories/proj/c.md"]);
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
    // Each turn with its digest, and the end of the log.
    assert_eq!(user.json(&["stats"])["entries"], 6_001);
}

/// Regression: a dry run counted as new what the import refused, what came twice, and what was stored with other words.
#[test]
fn a_dry_run_reports_what_the_import_then_does() {
    let user = User::new();
    let turn = |id: &str, text: &str| json!({"role": "user", "content": text, "id": id}).to_string() + "\n";
    user.file("stored.jsonl", turn("a", "tea") + &turn("b", "milk"));
    user.ok(&["import", "stored.jsonl", "--conversation", "c"]);
    user.file(
        "chat.jsonl",
        turn("a", "coffee") + &turn("b", "milk") + &turn("n", "new") + &turn("x", &"x".repeat(1_100_000)),
    );
    user.file(
        "again.jsonl",
        turn("n", "new") + &json!({"role": "user", "content": "y", "name": "n".repeat(300)}).to_string(),
    );
    let fact = |id: &str, text: &str| json!({"id": id, "memory": text, "user_id": "c"});
    user.file("page1.json", json!({"results": [fact("1", "one"), fact("2", "two")]}).to_string());
    user.file("page2.json", json!({"results": [fact("2", "two"), fact("1", "other")]}).to_string());
    let row = |key: &str, value: &str| {
        json!({"prefix": "p", "key": key, "value": {"t": value}, "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z"})
        .to_string()
            + "\n"
    };
    user.file("rows1.jsonl", row("k", "1") + &row("k", "1") + &row("l", "1"));
    user.file("rows2.jsonl", row("k", "2") + &row("l", "1"));
    let inputs: [&[&str]; 5] = [
        &["chat.jsonl", "again.jsonl", "--conversation", "c"],
        &["chat.jsonl", "again.jsonl", "--conversation", "c", "--on-different", "replace"],
        &["chat.jsonl", "again.jsonl", "--conversation", "e", "--entries"],
        &["page1.json", "page2.json"],
        &["rows1.jsonl", "rows2.jsonl", "--on-different", "replace"],
    ];
    for input in inputs {
        for _ in 0..2 {
            let run = |dry: &[&str]| {
                let ran = user.run(&[&["import", "--json"], input, dry].concat());
                let mut report = ran.document();
                for member in ["seconds", "dry_run"] {
                    report.as_object_mut().unwrap().remove(member);
                }
                (ran.code, report)
            };
            let planned = run(&["--dry-run"]);
            assert_eq!(planned, run(&[]), "{input:?}");
        }
    }
    let fails = |dry: &[&str]| {
        user.run(
            &[
                &["import", "rows2.jsonl", "stored.jsonl", "--conversation", "e", "--on-different", "fail"],
                dry,
            ]
            .concat(),
        )
    };
    user.file("rows2.jsonl", row("k", "3"));
    let (planned, ran) = (fails(&["--dry-run"]), fails(&[]));
    assert_eq!((planned.code, ran.code), (Some(4), Some(4)), "{planned:?} {ran:?}");
}

#[test]
fn an_export_of_chatgpt_in_several_files_is_read_from_its_folder() {
    let user = User::new();
    let conversation = |id: &str| {
        let message = json!({"author": {"role": "user"}, "content": {"content_type": "text", "parts": [id]}});
        json!([{"id": id, "current_node": "n", "mapping": {"n": {"id": "n", "message": message, "children": []}}}])
            .to_string()
    };
    for (number, id) in ["a", "b"].into_iter().enumerate() {
        user.file(&format!("export/conversations-00{number}.json"), conversation(id));
    }
    user.file("export/user.json", "{}");
    let report = user.json(&["import", "export"]);
    assert_eq!((counts(&report), &report["unread"]["count"]), ([2, 0, 0, 0], &json!(1)));
}

/// Regression: an API's answer without facts was `corrupt`.
#[test]
fn a_list_of_nothing_is_imported_as_nothing() {
    let user = User::new();
    for nothing in [r#"{"results":[]}"#, "{\n  \"results\": [],\n  \"next\": null\n}\n", "[]"] {
        let ran = user.run_with(&["import", "-", "--json"], nothing.as_bytes());
        assert_eq!((ran.code, counts(&ran.document())), (Some(0), [0, 0, 0, 0]), "{nothing}: {ran:?}");
    }
}
