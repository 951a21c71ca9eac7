//! Memory of other programs: Markdown, Letta, LangGraph.

use serde_json::{Value, json};

use crate::support::user::User;

fn counts(report: &Value) -> [u64; 4] {
    ["created", "unchanged", "replaced", "kept"].map(|name| report[name].as_u64().unwrap())
}

#[test]
fn a_folder_of_markdown_becomes_files_and_a_dry_run_says_so_first() {
    let user = User::new();
    user.file("notes/people/ada.md", "---\ntitle: Ada\n---\n- [home] lives in Oslo #city\n");
    user.file("notes/README.md", "# Notes\n");
    let report = user.json(&["import", "notes", "--agent", "claude", "--dry-run"]);
    assert_eq!((&report["dry_run"], counts(&report)), (&json!(true), [2, 0, 0, 0]));
    assert!(!user.home().join(".local").exists(), "nothing is made");
    assert_eq!(counts(&user.json(&["import", "notes", "--agent", "claude"])), [2, 0, 0, 0]);
    assert_eq!(counts(&user.json(&["import", "notes", "--agent", "claude"])), [0, 2, 0, 0]);
    user.file("notes/README.md", "# Other\n");
    for (options, expected) in
        [(&["--dry-run"][..], [0, 1, 0, 1]), (&["--dry-run", "--on-different", "replace"], [0, 1, 1, 0])]
    {
        let ran = user.run(&[&["import", "notes", "--agent", "claude", "--json"], options].concat());
        let expected_code = if options.len() == 1 { 7 } else { 0 };
        assert_eq!(
            (ran.code, counts(&ran.document())),
            (Some(expected_code), expected),
            "as the run then ends"
        );
    }
    let entry = user.json(&["get", "/memories/people/ada.md", "--agent", "claude"]);
    assert_eq!(entry["metadata"], json!({"title": "Ada", "categories": "home", "tags": "city"}));
    assert_eq!(user.ok(&["get", "/memories/README.md", "--agent", "claude", "--text"]), "# Notes\n\n");
}

#[test]
fn files_of_a_folder_that_are_not_read_are_named_and_keep_their_ending_when_they_are() {
    let user = User::new();
    for file in ["notes/a.md", "notes/prefs.txt", "notes/sub/guide.xml", "notes/.hidden.txt"] {
        user.file(file, file);
    }
    let report = user.json(&["import", "notes", "--dry-run"]);
    assert_eq!(report["unread"], json!({"count": 2, "first": ["notes/prefs.txt", "notes/sub/guide.xml"]}));
    let ran = user.run(&["import", "notes"]);
    assert!(ran.stderr.contains("notes/prefs.txt and 1 more"), "{ran:?}");
    assert_eq!(ran.code, Some(0));
    user.ok(&["import", "notes/prefs.txt", "notes/a.md", "--format", "markdown"]);
    assert_eq!(user.ok(&["get", "/memories/prefs.txt", "--text"]), "notes/prefs.txt\n");
    assert_eq!(user.ok(&["get", "/memories/a.md", "--text"]), "notes/a.md\n");
}

#[test]
fn an_agent_of_letta_brings_its_blocks_and_its_conversation() {
    let user = User::new();
    let file = json!({"agent_type": "memgpt_agent", "name": "Sam",
        "core_memory": [{"label": "human", "value": "Name: Ada", "limit": 5000}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "I live in Bergen"}]}]});
    user.file("agent.af", file.to_string());
    let report = user.json(&["import", "agent.af", "--dry-run"]);
    assert_eq!(counts(&report), [2, 0, 0, 0]);
    assert_eq!(counts(&user.json(&["import", "agent.af"])), [2, 0, 0, 0]);
    for again in [&["import", "agent.af", "--dry-run"][..], &["import", "agent.af"]] {
        assert_eq!(counts(&user.json(again)), [0, 2, 0, 0]);
    }
    assert_eq!(user.ok(&["get", "letta/Sam/blocks/human", "--text"]), "Name: Ada\n");
    assert!(user.ok(&["recall", "where do I live"]).contains("Bergen"));
}

#[test]
fn a_store_of_langgraph_keeps_its_times() {
    let user = User::new();
    // Other tests of this process open stores with SQL.
    memory::sqlite::prepare_process();
    let path = user.home().join("store.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, \
             created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key)); \
             INSERT INTO store VALUES ('users.ada', 'home', '{\"city\":\"Oslo\"}', '2026-01-02 03:04:05', '2026-01-02 03:04:05'); \
             INSERT INTO store VALUES ('users.ada', 'bad', 'no json', '2026-01-02 03:04:05', '2026-01-02 03:04:05');",
        )
        .unwrap();
    let dry = user.run(&["import", "store.db", "--dry-run", "--json"]);
    assert_eq!((dry.code, counts(&dry.document())), (Some(7), [1, 0, 0, 0]));
    assert_eq!(user.run(&["import", "store.db"]).code, Some(7));
    let again = user.run(&["import", "store.db", "--json"]).document();
    assert_eq!((counts(&again), &again["formats"]), ([0, 1, 0, 0], &json!(["langgraph"])));
    let entry = user.json(&["get", "langgraph/users/ada//home"]);
    assert_eq!(
        (&entry["value"], &entry["created_at"]),
        (&json!({"city": "Oslo"}), &json!("2026-01-02T03:04:05.000Z"))
    );
    // As PostgreSQL prints the same row.
    let row = r#"{"prefix":"users.ada","key":"home","value":{"city": "Oslo"},"created_at":"2026-01-02T03:04:05+00:00","updated_at":"2026-01-02T03:04:05+00:00","expires_at":null}"#;
    let rows = user.run_with(&["import", "-", "--agent", "other", "--json"], row.as_bytes()).document();
    assert_eq!((counts(&rows), &rows["formats"]), ([1, 0, 0, 0], &json!(["langgraph"])));
    let file = std::fs::read(&path).unwrap();
    let ran = user.run_with(&["import", "-", "--json"], &file);
    assert!(ran.stderr.contains("cannot be read from standard input"), "{ran:?}");
}

#[test]
fn a_fact_of_mem0_expires_when_it_does_there() {
    let user = User::new();
    let fact =
        |id: &str, date: &str| json!({"id": id, "memory": id, "user_id": "ada", "expiration_date": date});
    let days =
        [("over", "2020-01-01"), ("later", "2099-01-01"), ("far", "9998-01-01"), ("last", "9999-12-31")];
    let facts = days.map(|(id, date)| fact(id, date));
    user.file("mem0.json", json!({ "results": facts }).to_string());
    for arguments in [&["import", "mem0.json", "--dry-run"][..], &["import", "mem0.json"]] {
        let report = user.json(arguments);
        assert_eq!((counts(&report), &report["expired"]), ([3, 0, 0, 0], &json!(1)));
    }
    let report = user.json(&["import", "mem0.json"]);
    assert_eq!((counts(&report), &report["expired"]), ([0, 3, 0, 0], &json!(1)));
    assert!(user.ok(&["import", "mem0.json", "--entries"]).contains("1 had expired"));
    let end = |key: &str| user.json(&["get", key])["expires_at"].clone();
    assert!(end("mem0/ada/later").as_str().unwrap().starts_with("2099-01-02T00:00:00"), "after the day");
    assert!(end("mem0/ada/far").as_str().unwrap() > "2120", "as late as an expiry may be");
    assert!(end("mem0/ada/last").is_null(), "never");
}
