//! `list`, `scopes`, `stats`, `describe`.

use serde_json::{Value, json};

use crate::support::user::{User, has};

fn keys(page: &Value) -> Vec<&str> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap()).collect()
}

#[test]
fn entries_come_in_order_a_page_at_a_time() {
    let user = User::new();
    for key in ["b/2", "a", "b/1", "c", "b/10"] {
        user.ok(&["set", key, "1"]);
    }
    let first = user.json(&["list", "--limit", "2"]);
    assert_eq!(keys(&first), ["a", "b/1"]);
    let second = user.json(&["list", "--limit", "2", "--cursor", first["next"].as_str().unwrap()]);
    assert_eq!(keys(&second), ["b/10", "b/2"]);
    let prefix = user.json(&["list", "--prefix", "b/"]);
    assert_eq!((keys(&prefix).len(), &prefix["next"]), (3, &Value::Null));
    let table = user.ok(&["list", "--all", "--limit", "2"]);
    assert_eq!(table.matches("KEY").count(), 1, "{table}");
    let all = user.run(&["list", "--all", "--limit", "2", "--json"]).lines();
    assert_eq!(
        all.iter().map(|entry| entry["key"].as_str().unwrap()).collect::<Vec<_>>(),
        ["a", "b/1", "b/10", "b/2", "c"]
    );
    let table = user.run(&["list", "--limit", "2"]);
    assert!(table.stdout.starts_with("KEY") && table.stdout.lines().count() == 3, "{table:?}");
    user.ok(&["set", "z", "\"the value\"", "--index-text", "the words"]);
    let shown = user.ok(&["list", "--prefix", "z"]);
    assert!(shown.contains("the value") && !shown.contains("the words"), "{shown}");
    user.ok(&["delete", "z"]);
    assert!(table.stderr.contains("--cursor"), "{table:?}");
    user.refused(&["list", "--cursor", "nonsense"], 3, "invalid_argument");
    user.refused(&["list", "--limit", "0"], 3, "invalid_argument");
    user.refused(&["list", "--limit", "1001"], 3, "too_large");
    let filtered = user.json(&["list", "--filter", r#"{"not":{"exists":"source"}}"#, "--prefix", "b/2"]);
    assert_eq!(keys(&filtered), ["b/2"]);
    for bad in ["oops", r#"{"like":["metadata.n","x"]}"#, r#"{"eq":["value",1]}"#] {
        user.refused(&["list", "--filter", bad], 3, "invalid_argument");
    }
}

#[test]
fn scopes_and_statistics_count_what_is_there() {
    let user = User::new();
    user.ok(&["set", "k", "1", "--user", "ada"]);
    user.ok(&["set", "k", "1", "--user", "ada", "--tenant", "other"]);
    user.ok(&["set", "k", "1", "--agent", "bot", "--ttl", "1h"]);
    let scopes = user.json(&["scopes"]);
    let ids: Vec<&Value> =
        scopes["scopes"].as_array().unwrap().iter().map(|info| &info["scope"]["id"]).collect();
    assert_eq!(ids, ["bot", "ada"]);
    assert_eq!(user.json(&["scopes", "--kind", "user"])["scopes"][0]["entries"], 1);
    assert_eq!(user.run(&["scopes", "--all", "--limit", "1", "--json"]).lines().len(), 2);
    assert!(user.ok(&["scopes"]).contains("ada"));
    assert_eq!(user.run(&["scopes", "--kind", "team"]).code, Some(2));
    let stats = user.json(&["stats", "--agent", "bot"]);
    has(&stats, json!({"entries": 1, "expiring": 1}));
    assert_eq!(user.json(&["stats", "--agent", "nobody"])["entries"], 0);
    assert!(user.ok(&["stats", "--agent", "bot"]).contains("entries   1"));
}

#[test]
fn statistics_count_the_calls_in_the_audit_file() {
    let user = User::new();
    user.file(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\nbackend = \"main\"\n[audit]\nfile = \"audit.jsonl\"\n",
    );
    user.ok(&["set", "k", "1"]);
    assert!(user.json(&["stats"]).get("calls").is_none(), "there is no file yet");
    let call = |rows: u64| {
        json!({"kind": "call", "number": 1, "time": "2026-01-01T00:00:00Z", "tenant": "default", "op": "recall",
               "rows": rows, "micros": 2_000, "outcome": "ok"})
    };
    user.file("audit.jsonl", format!("{}\n{}\n", call(0), call(4)));
    let calls = user.json(&["stats"])["calls"].clone();
    has(&calls[0], json!({"op": "recall", "calls": 2, "failed": 0, "empty": 1, "median_ms": 2.0}));
    assert!(
        user.ok(&["stats"]).contains("recall: 2 since 2026-01-01T00:00:00.000Z, 0 failed, 1 found nothing")
    );
}

#[test]
fn the_store_says_what_it_serves() {
    let user = User::new();
    user.ok(&["set", "k", "1"]);
    let description = user.json(&["describe"]);
    assert_eq!(description["provider"], "sqlite");
    assert_eq!(description["health"]["status"], "ok");
    assert_eq!(description["capabilities"]["lexical_search"], true);
    assert!(description["capabilities"]["max_value_bytes"].as_u64().unwrap() >= 1 << 20);
    let text = user.ok(&["describe"]);
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    assert!(line("serves").contains("lexical_search") && line("refuses").contains("sql"), "{text}");
}
