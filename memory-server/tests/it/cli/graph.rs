//! The graph of an agent at the terminal.

use std::process::Stdio;

use serde_json::json;

use crate::support::user::User;

fn ada<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["graph"], arguments, &["--agent", "ada"]].concat()
}

#[test]
fn memories_are_stored_linked_recalled_and_shown() {
    let user = User::new();
    user.ok(&ada(&[
        "remember",
        "the port",
        "is 8080",
        "--id",
        "p1",
        "--concept",
        "port",
        "--entity",
        "proxy",
    ]));
    user.ok(&ada(&["remember", "the port is 9090", "--id", "p2", "--entity", "proxy"]));
    let event = user.json(&ada(&["remember", "read the config", "--event", "--source", "session"]));
    let event = event["memory_id"].as_str().unwrap();
    assert!(user.ok(&ada(&["relate", "p2", "supersedes", "p1"])).contains("linked"));
    assert_eq!(user.json(&ada(&["relate", "p2", "derives_from", event]))["is_new"], true);
    assert_eq!(user.json(&ada(&["relate", "p2", "derives_from", event]))["is_new"], false);

    let hits = user.json(&ada(&["recall", "port 8080"]));
    let ids: Vec<&str> =
        hits.as_array().unwrap().iter().map(|hit| hit["node"]["memory_id"].as_str().unwrap()).collect();
    assert_eq!((ids[0], ids[2]), ("p2", "p1"));
    assert_eq!(hits[2]["is_superseded"], true);
    assert!(user.ok(&ada(&["recall", "port", "8080"])).contains("(superseded)"));

    let shown = user.json(&ada(&["show", "p1"]));
    assert_eq!(shown["neighbours"]["shown"][0]["edge"]["kind"], "SUPERSEDES");
    assert!(user.ok(&ada(&["show", "p1"])).contains("<- SUPERSEDES p2"));
    let history = user.json(&ada(&["history", "proxy"]));
    assert_eq!(history[0]["superseded_by"], json!(["p2"]));
    assert!(user.ok(&ada(&["history", "proxy"])).contains("SUPERSEDES p1"));
    assert_eq!(user.json(&ada(&["stats"]))["semantic_node_count"], 2);

    user.ok(&["graph", "remember", "elsewhere", "--agent", "bob", "--id", "b1"]);
    let tree = user.ok(&["graph", "tree"]);
    assert!(tree.contains("ada\n") && tree.contains("    SUPERSEDES p1") && tree.contains("b1"), "{tree}");
    assert!(!user.ok(&ada(&["tree", "--depth", "0"])).contains("SUPERSEDES"));
    user.refused(&["graph", "show", "p1", "--agent", "bob"], 3, "not_found");
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let user = User::new();
    user.ok(&ada(&["remember", "one", "--id", "a"]));
    user.ok(&ada(&["remember", "two", "--id", "b"]));
    user.ok(&ada(&["relate", "a", "supersedes", "b"]));
    for (arguments, code) in [
        (ada(&["remember", "again", "--id", "a"]), "conflict"),
        (ada(&["remember", "sure", "--confidence", "42"]), "invalid_argument"),
        (ada(&["relate", "b", "supersedes", "a"]), "conflict"),
        (ada(&["relate", "a", "similar_to", "missing"]), "not_found"),
        (vec!["graph", "stats", "--agent", "a/b"], "invalid_argument"),
    ] {
        let ran = user.run(&[&arguments[..], &["--json"]].concat());
        assert_ne!(ran.code, Some(0), "{arguments:?}");
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(code), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn the_backend_is_chosen_by_option_variable_and_files() {
    let user = User::new();
    let with = |variable: Option<&str>, arguments: &[&str]| {
        let mut command = user.command(arguments);
        command.env_remove("AMPLIHACK_MEMORY_BACKEND");
        if let Some(value) = variable {
            command.env("AMPLIHACK_MEMORY_BACKEND", value);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let backend = ["graph", "backend", "--json"];
    assert!(with(None, &backend).1.contains("\"by\":\"default\""));
    let (_, answer, warning) = with(Some("kuzu"), &backend);
    assert!(
        answer.contains("\"backend\":\"graph-db\"") && warning.contains("graph-db"),
        "{answer} {warning}"
    );
    assert!(with(Some("kuzu"), &["graph", "backend", "--graph-backend", "sqlite"]).1.starts_with("sqlite"));
    let (code, _, error) = with(Some("redis"), &["graph", "stats"]);
    assert!(code == Some(3) && error.contains("AMPLIHACK_MEMORY_BACKEND"), "{error}");
    let (code, ..) = with(None, &["graph", "backend", "--graph-backend", "KUZU"]);
    assert_eq!(code, Some(3));

    user.file(".amplihack/memory_graph.db", "");
    assert!(with(None, &backend).1.contains("memory_graph.db"));
    let (code, _, error) = with(None, &["graph", "stats"]);
    assert!(code != Some(0) && error.contains("no graph engine"), "{error}");
}
