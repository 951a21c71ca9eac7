//! Each format through the binary, detected from its beginning.

use serde_json::{Value, json};

use crate::support::user::{User, has};

fn keys(user: &User, scope: &[&str]) -> Vec<String> {
    let lines = user.run(&[&["list", "--all", "--json"], scope].concat()).lines();
    lines.iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn locomo_dialogues_go_to_a_scope_each() {
    let user = User::new();
    let dialogue = |id: &str| {
        json!({
            "qa": [{"question": "Who?", "evidence": ["D1:1"]}],
            "conversation": {
                "session_1": [
                    {"speaker": "Ada", "dia_id": "D1:1", "text": "Hello"},
                    {"speaker": "Bo", "dia_id": "D1:2", "text": "Look", "blip_caption": "a red kite"}
                ],
                "session_1_date_time": "1:56 pm on 8 May, 2023"
            },
            "sample_id": id
        })
    };
    user.file("dialogues.json", json!([dialogue("conv-1"), dialogue("conv-2")]).to_string());
    let report = user.json(&["import", "--entries", "dialogues.json"]);
    has(&report, json!({"formats": ["locomo"], "created": 4}));
    let scopes: Vec<&Value> =
        report["scopes"].as_array().unwrap().iter().map(|scope| &scope["scope"]["id"]).collect();
    assert_eq!(scopes, ["conv-1", "conv-2"]);
    assert_eq!(
        keys(&user, &["--user", "conv-2"]),
        ["locomo/conv-2/0001/0001/D1:1", "locomo/conv-2/0001/0002/D1:2"]
    );
    let entry = user.json(&["get", "locomo/conv-1/0001/0002/D1:2", "--user", "conv-1"]);
    assert_eq!(entry["value"]["caption"], "a red kite");
    has(&entry["metadata"], json!({"dia_id": "D1:2", "time": "2023-05-08T13:56:00.000Z"}));
    assert_eq!(
        user.json(&["import", "--entries", "dialogues.json", "--agent", "all"])["scopes"][0]["created"],
        4
    );
    assert_eq!(keys(&user, &["--agent", "all"]).len(), 4);
}

#[test]
fn a_json_array_of_messages_is_read_whatever_its_layout() {
    let user = User::new();
    let said = json!([
        {"role": "user", "content": "Where to?", "time": "2024-01-01T10:00:00Z"},
        {"role": "assistant", "content": [{"type": "text", "text": "Oslo."}]},
        {"content": "nobody said this"},
        {"speaker": "Ada", "text": "By train."}
    ]);
    user.file("line.json", said.to_string());
    user.file("pretty.json", format!("\u{feff}\n{said:#}\n"));
    for name in ["line", "pretty"] {
        let ran = user.run(&["import", "--entries", &format!("{name}.json"), "--agent", name, "--json"]);
        let report = ran.document();
        assert_eq!(
            (ran.code, &report["formats"], &report["created"]),
            (Some(7), &json!(["jsonl"]), &json!(3))
        );
        assert_eq!(report["problems"]["first"][0]["part"], "message 3", "{report}");
        let keys = keys(&user, &["--agent", name]);
        assert_eq!(keys, ["00000001", "00000002", "00000004"].map(|n| format!("jsonl/{name}/{n}")));
    }
    let again = user.run_with(
        &["import", "--entries", "-", "--conversation", "line", "--agent", "line", "--json"],
        said.to_string().as_bytes(),
    );
    assert_eq!(again.document()["unchanged"], 3, "{again:?}");
}

#[test]
fn a_folder_is_read_sixteen_levels_deep_and_what_is_deeper_is_named() {
    let user = User::new();
    let levels = |count: usize| vec!["d"; count].join("/");
    let line = "{\"role\":\"user\",\"content\":\"x\"}\n";
    user.file(&format!("chats/{}/deep.jsonl", levels(16)), line);
    assert_eq!(user.json(&["import", "chats"])["created"], 1);
    user.file(&format!("chats/{}/deeper.jsonl", levels(17)), line);
    let ran = user.run(&["import", "chats", "--json"]);
    let report = ran.document();
    assert_eq!(
        (ran.code, &report["unchanged"], &report["problems"]["count"]),
        (Some(7), &json!(1), &json!(1))
    );
    assert_eq!(report["problems"]["first"][0]["file"], format!("chats/{}", levels(17)), "{report}");
    assert!(user.ok(&["import", "--help"]).contains("16 levels deep"));
    user.file("empty/notes.txt", "x");
    let error = user.refused(&["import", "empty"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("16 levels deep"), "{error}");
}

#[test]
fn claude_code_sessions_are_read_by_what_was_said() {
    let user = User::new();
    let line = |kind: &str, uuid: &str, second: u32, content: Value| {
        json!({"type": kind, "uuid": uuid, "sessionId": "s1", "timestamp": format!("2026-01-01T00:00:{second:02}Z"),
            "cwd": "/src", "message": {"role": kind, "content": content}})
        .to_string()
    };
    let first = [
        r#"{"type":"summary","summary":"Parser","leafUuid":"x"}"#.to_owned(),
        line("user", "u1", 1, json!("Fix the parser")),
        line("assistant", "u2", 2, json!([{"type": "text", "text": "Reading."}, {"type": "tool_use", "name": "Read", "input": {"p": 1}}])),
        line("user", "u3", 3, json!([{"type": "tool_result", "content": "source"}])),
        r#"{"type":"file-history-snapshot","snapshot":{}}"#.to_owned(),
    ]
    .join("\n");
    user.file("projects/-src/s1.jsonl", &first);
    // A resumed session repeats earlier lines in another file.
    user.file(
        "projects/-src/s2.jsonl",
        format!("{first}\n{}\n{{\"type\":\"user\",", line("user", "u4", 9, json!("Thanks"))),
    );
    let ran = user.run(&["import", "--entries", "projects", "--agent", "coder", "--json"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let report = ran.document();
    has(&report, json!({"formats": ["claude-code"], "created": 3, "unchanged": 2}));
    assert_eq!(report["problems"]["first"][0]["line"], 7);
    let stored = keys(&user, &["--agent", "coder"]);
    assert_eq!(stored[1], "claude-code/s1/2026-01-01T00:00:02.000Z/u2");
    let entry = user.json(&["get", &stored[1], "--agent", "coder"]);
    assert_eq!(entry["value"]["text"], "Reading.\n[Read {\"p\":1}]");
    assert_eq!(entry["metadata"]["cwd"], "/src");
}

#[test]
fn a_chatgpt_export_yields_the_branch_last_shown() {
    let user = User::new();
    let node = |id: &str, parent: Option<&str>, role: &str, text: &str| {
        json!({"id": id, "parent": parent, "children": [], "message": {"id": id, "author": {"role": role},
            "create_time": 1_700_000_000.5, "content": {"content_type": "text", "parts": [text]}}})
    };
    let conversation = json!({
        "title": "Trip", "conversation_id": "c1", "current_node": "c",
        "mapping": {
            "root": {"id": "root", "message": null, "parent": null, "children": ["a"]},
            "a": node("a", Some("root"), "user", "Where to?"),
            "b": node("b", Some("a"), "assistant", "thrown away"),
            "c": node("c", Some("a"), "assistant", "Oslo."),
        }
    });
    user.file("conversations.json", format!("[{conversation}, {{\"id\":\"c2\"}}, {conversation}"));
    let ran = user.run(&["import", "--entries", "conversations.json", "--json"]);
    assert_eq!(ran.code, Some(7));
    let report = ran.document();
    has(&report, json!({"formats": ["chatgpt"], "created": 2}));
    let parts: Vec<&Value> =
        report["problems"]["first"].as_array().unwrap().iter().map(|problem| &problem["part"]).collect();
    assert_eq!(parts, ["conversation 2", "conversation 3"]);
    assert_eq!(keys(&user, &[]), ["chatgpt/c1/000001/a", "chatgpt/c1/000002/c"]);
    let found = user.json(&["search", "oslo"]);
    assert_eq!(found["hits"][0]["entry"]["metadata"]["title"], "Trip");
}
