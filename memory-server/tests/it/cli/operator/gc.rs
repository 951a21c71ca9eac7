//! `gc`.

use serde_json::json;

use crate::support::user::{User, has};

/// So little slack that writes of an earlier process count as idle.
const STORE: &str = "sqlite:memory.db?use_granularity_ms=1";

/// Two scopes of one tenant, one of them with a SQL database too, and one of another tenant.
fn filled() -> User {
    let user = User::new();
    user.ok(&["set", "tea", "\"oolong\"", "--url", STORE]);
    user.ok(&["sql", "CREATE TABLE people (name TEXT)", "--url", STORE]);
    user.ok(&["set", "plan", "1", "--agent", "planner", "--url", STORE]);
    user.ok(&["set", "k", "2", "--tenant", "zeta", "--user", "ada", "--url", STORE]);
    user
}

#[test]
fn a_dry_run_lists_what_a_sweep_drops() {
    let user = filled();
    let gc = ["gc", "--idle", "1ms", "--url", STORE];
    let dry = user.json(&[&gc[..], &["--dry-run"]].concat());
    has(&dry, json!({"dry_run": true, "evicted": 3, "scopes": 3}));
    assert_eq!(dry["victims"][0]["reason"], "idle");
    assert_eq!(
        user.json(&[&gc[..], &["--dry-run"]].concat())["victims"],
        dry["victims"],
        "looking is no use"
    );
    let text = user.ok(&[&gc[..], &["--dry-run"]].concat());
    assert!(text.contains("3 of 3 scopes would be dropped") && text.contains("LAST USED"), "{text}");
    let done = user.json(&gc);
    has(&done, json!({"evicted": 3, "failed": 0}));
    assert!(done["reclaimed"].is_object(), "{done}");
    assert_eq!(user.json(&["scopes", "--url", STORE])["scopes"], json!([]));
    assert_eq!(user.json(&gc)["scopes"], 0);
}

#[test]
fn without_a_policy_nothing_is_dropped_and_a_tenant_limits_the_sweep() {
    let user = filled();
    let ran = user.run(&["gc", "--url", STORE]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("--idle"), "{ran:?}");
    let done = user.json(&["gc", "--idle", "1ms", "--tenant", "zeta", "--url", STORE]);
    has(&done, json!({"scopes": 1, "evicted": 1}));
    assert_eq!(user.ok(&["get", "tea", "--url", STORE]).trim(), "\"oolong\"");
}

#[test]
fn exceeding_the_limit_sets_the_exit_code() {
    let user = filled();
    let kept = user.run(&["gc", "--max-bytes", "0", "--min-idle", "1d", "--url", STORE, "--json"]);
    assert_eq!(kept.code, Some(7), "{kept:?}");
    assert!(kept.document()["over"].as_u64().unwrap() > 0);
    let done = user.json(&["gc", "--max-bytes", "0", "--min-idle", "1ms", "--url", STORE]);
    has(&done, json!({"evicted": 3, "over": 0}));
    assert_eq!(
        done["victims"][0]["scope"]["id"], "default",
        "the one with the database is the largest: {done}"
    );
}

#[test]
fn the_last_snapshot_restores_a_dropped_scope_and_is_in_the_audit() {
    let user = filled();
    user.file(
        "memory.toml",
        format!(
            "[backends.local]\nurl = \"{STORE}\"\n[audit]\nfile = \"audit.jsonl\"\n\
             [gc]\nidle_ms = 1\nsnapshot_to = \"last\"\n"
        ),
    );
    let done = user.json(&["gc", "--config", "memory.toml"]);
    has(&done, json!({"evicted": 3, "snapshots": 3}));
    let listed = user.run(&["snapshot", "--list", "--json", "--config", "memory.toml"]);
    assert_eq!(listed.lines().len(), 3, "{listed:?}");
    let audit = std::fs::read_to_string(user.home().join("audit.jsonl")).unwrap();
    let records: Vec<serde_json::Value> =
        audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 3);
    for record in &records {
        has(record, json!({"kind": "eviction", "op": "gc.evict", "outcome": "ok", "reason": "idle"}));
        let snapshot = std::path::Path::new(record["snapshot"].as_str().unwrap());
        assert!(snapshot.is_absolute() && snapshot.is_file(), "whoever reads the audit finds it: {record}");
    }
    for victim in done["victims"].as_array().unwrap() {
        user.ok(&["restore", victim["snapshot"].as_str().unwrap(), "--config", "memory.toml"]);
    }
    assert_eq!(user.ok(&["get", "tea", "--config", "memory.toml"]).trim(), "\"oolong\"");
}

#[test]
fn a_scope_on_the_command_line_is_refused_and_nothing_is_dropped() {
    let user = filled();
    for named in [&["--user", "ada"][..], &["--agent", "planner"], &["--run", "r"], &["--scope", "user:ada"]]
    {
        let gc = ["gc", "--idle", "1ms", "--tenant", "zeta", "--url", STORE];
        let ran = user.run(&[&gc[..], named].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("--tenant") && ran.stderr.contains("memory forget"), "{ran:?}");
        let resumed = user.run(&[&["forget", "--resume", "--url", STORE][..], named].concat());
        assert_eq!(resumed.code, Some(2), "{resumed:?}");
    }
    assert_eq!(user.json(&["gc", "--idle", "1ms", "--dry-run", "--url", STORE])["evicted"], 3);
}
