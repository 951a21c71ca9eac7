//! `snapshot`, `restore` and `migrate`.

use memory_fakes::postgres::{Database, SERVER};
use serde_json::json;

use crate::support::user::{User, has};

/// A store with two tenants, entries and a SQL database.
fn filled() -> User {
    let user = User::new();
    user.ok(&["set", "tea", "{\n\"kind\":\"oolong\"}"]);
    user.ok(&["set", "plan", "1", "--agent", "planner"]);
    user.ok(&["set", "k", "2", "--tenant", "zeta", "--user", "ada"]);
    user.ok(&["sql", "CREATE TABLE people (name TEXT)"]);
    user.ok(&["sql", "INSERT INTO people VALUES ('Ada')"]);
    user.ok(&["set", "scratch", "1", "--run", "r1"]);
    user
}

const OTHER: &str = "sqlite:other.db";

#[test]
fn a_snapshot_is_one_private_file_that_restores_elsewhere() {
    let user = filled();
    let report = user.json(&["snapshot", "today"]);
    has(&report, json!({"scopes": 3, "entries": 3, "databases": 1, "skipped": 0, "file": "today"}));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = user.home().join("today").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let dry = user.json(&["restore", "today", "--url", OTHER, "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["entries"]["restored"]), (&json!(true), &json!(3)));
    assert!(!user.home().join("other.db").exists(), "a dry run writes nothing");
    let report = user.json(&["restore", "today", "--url", OTHER]);
    assert_eq!((&report["records"], &report["databases"]["restored"]), (&json!(3), &json!(1)));
    assert_eq!(user.ok(&["get", "tea", "--url", OTHER]), user.ok(&["get", "tea"]));
    assert_eq!(user.json(&["sql", "SELECT name FROM people", "--url", OTHER])["rows"], json!([["Ada"]]));
    assert_eq!(user.ok(&["get", "k", "--tenant", "zeta", "--user", "ada", "--url", OTHER]), "2\n");
    let again = user.json(&["restore", "today", "--url", OTHER]);
    assert_eq!((&again["records"], &again["entries"]["unchanged"]), (&json!(0), &json!(3)));
}

#[test]
fn an_existing_file_is_kept_unless_overwrite_is_given() {
    let user = filled();
    user.ok(&["snapshot", "today"]);
    let before = std::fs::read(user.home().join("today")).unwrap();
    user.refused(&["snapshot", "today"], 4, "conflict");
    assert_eq!(std::fs::read(user.home().join("today")).unwrap(), before);
    user.ok(&["set", "more", "1"]);
    assert_eq!(user.json(&["snapshot", "today", "--overwrite"])["entries"], 4);
    let listed = user.run(&["snapshot", "--list", "--json"]).lines();
    assert_eq!(listed.len(), 2, "both are noted");
    assert!(listed.iter().all(|line| line["path"].as_str().unwrap().ends_with("/today")));
    user.refused(&["snapshot", "no/such/folder/x"], 5, "unavailable");
    user.refused(&["snapshot", "."], 3, "invalid_argument");
}

#[test]
fn scopes_over_the_cap_are_listed_and_set_the_exit_code() {
    let user = filled();
    user.ok(&["set", "long", &format!("{:?}", "x".repeat(5_000)), "--user", "big"]);
    let ran = user.run(&["snapshot", "today", "--max-scope-bytes", "3000", "--json"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    // The database's pages count, too.
    let skipped = ran.document()["skipped_scopes"].clone();
    has(
        &skipped[0],
        json!({"scope": {"tenant": "default", "kind": "user", "id": "big"}, "code": "too_large"}),
    );
    let words = user.run(&["snapshot", "again", "--max-scope-bytes", "3000"]);
    assert!(words.stdout.contains("default/user/big"), "{words:?}");
}

#[test]
fn a_tenant_or_a_scope_alone_is_written_and_restored() {
    let user = filled();
    assert_eq!(user.json(&["snapshot", "zeta", "--tenant", "zeta"])["scopes"], 1);
    assert_eq!(user.json(&["snapshot", "planner", "--agent", "planner"])["scopes"], 1);
    user.ok(&["snapshot", "all"]);
    let report = user.json(&["restore", "all", "--url", OTHER, "--agent", "planner"]);
    has(&report, json!({"scopes": 1, "records": 1}));
    let report = user.json(&["restore", "all", "--url", OTHER, "--tenant", "zeta"]);
    assert_eq!(report["records"], 1);
}

#[test]
fn differing_scopes_are_refused_kept_or_replaced() {
    let user = filled();
    user.ok(&["snapshot", "today"]);
    user.ok(&["set", "tea", "\"green\""]);
    let error = user.refused(&["restore", "today"], 4, "conflict");
    assert_eq!(error["details"]["scopes"], 1);
    assert_eq!(user.ok(&["get", "tea"]), "\"green\"\n");
    let report = user.json(&["restore", "today", "--on-existing", "skip"]);
    assert_eq!((&report["entries"]["kept"], &report["kept_scopes"][0]["id"]), (&json!(1), &json!("default")));
    assert!(user.ok(&["restore", "today", "--on-existing", "skip"]).contains("  default/user/default\n"));
    assert_eq!(user.ok(&["get", "tea"]), "\"green\"\n");
    assert_eq!(user.json(&["restore", "today", "--on-existing", "replace"])["entries"]["replaced"], 1);
    assert_eq!(user.ok(&["get", "tea"]), "{\n\"kind\":\"oolong\"}\n");
}

#[test]
fn a_damaged_or_foreign_file_is_refused_with_its_line() {
    let user = filled();
    user.ok(&["snapshot", "today"]);
    let whole = std::fs::read_to_string(user.home().join("today")).unwrap();
    user.file("changed", whole.replace("oolong", "Oolong"));
    let error = user.refused(&["restore", "changed", "--url", OTHER], 6, "corrupt");
    assert!(error["details"]["line"].as_u64().unwrap() > 1);
    assert_eq!(error["details"]["scope"]["id"], "default");
    user.file("cut", &whole[..whole.len() - 10]);
    user.refused(&["restore", "cut", "--url", OTHER], 6, "corrupt");
    user.ok(&["export", "--out", "export.jsonl"]);
    user.refused(&["restore", "export.jsonl"], 6, "corrupt");
    user.refused(&["restore", "no-such-file"], 74, "not_found");
    user.refused(&["restore", "."], 3, "invalid_argument");
    assert_eq!(user.ok(&["list", "--url", OTHER]).lines().count(), 1, "nothing was written");
}

#[test]
fn a_store_moves_to_another_and_is_compared() {
    let user = filled();
    let default = format!("sqlite:{}", user.home().join(".local/share/memory/memory.db").display());
    let dry = user.json(&["migrate", &default, OTHER, "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["entries"]["restored"]), (&json!(true), &json!(3)));
    let report = user.json(&["migrate", &default, OTHER]);
    has(&report, json!({"records": 3, "verified": 4}));
    let again = user.json(&["migrate", &default, OTHER]);
    assert_eq!((&again["records"], &again["entries"]["unchanged"]), (&json!(0), &json!(3)));
    user.ok(&["set", "tea", "1", "--url", OTHER]);
    user.refused(&["migrate", &default, OTHER], 4, "conflict");
    user.refused(&["migrate", &default, OTHER, "--url", OTHER], 3, "invalid_argument");
    // The store named by the environment is ignored.
    let mut command = user.command(&["migrate", &default, OTHER, "--on-existing", "replace"]);
    let moved = command.env("MEMORY_URL", "sqlite:third.db").output().unwrap();
    assert!(moved.status.success(), "{moved:?}");
    assert!(!user.home().join("third.db").exists());
}

#[test]
fn scopes_only_in_the_target_are_listed_and_removed_on_request() {
    let user = filled();
    let default = format!("sqlite:{}", user.home().join(".local/share/memory/memory.db").display());
    user.ok(&["migrate", &default, OTHER]);
    user.ok(&["delete", "plan", "--agent", "planner"]);
    let arguments = ["migrate", &default, OTHER, "--on-existing", "replace"];
    let ran = user.run(&[&arguments[..], &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = ran.document();
    has(&report, json!({"only_in_target": 1, "deleted_extra": 0}));
    assert_eq!(report["only_in_target_scopes"][0]["id"], "planner");
    let words = user.run(&arguments).stdout;
    assert!(words.contains("default/agent/planner") && words.contains("--delete-extra"), "{words}");
    user.ok(&[&arguments[..], &["--delete-extra"]].concat());
    assert_eq!(user.run(&["get", "plan", "--agent", "planner", "--url", OTHER]).code, Some(1));
    assert_eq!(user.json(&arguments)["only_in_target"], 0);
}

#[test]
fn a_source_is_never_created_and_a_dry_run_creates_no_target() {
    let user = filled();
    let default = format!("sqlite:{}", user.home().join(".local/share/memory/memory.db").display());
    let missing = ["--url", "sqlite:missing.db"];
    let made = || user.home().join("missing.db").exists();
    for command in
        [&["snapshot", "s"][..], &["export"], &["scopes"], &["drift", "status"], &["sql", "--dump", "d"]]
    {
        user.refused(&[command, &missing].concat(), 3, "not_found");
        assert!(!made(), "{command:?}");
    }
    let error = user.refused(&["migrate", "sqlite:missing.db", OTHER], 3, "not_found");
    assert!(error["message"].as_str().unwrap().contains("source"), "{error}");
    user.json(&["migrate", &default, "sqlite:missing.db", "--dry-run"]);
    user.ok(&["snapshot", "today"]);
    user.json(&["restore", "today", "--dry-run", "--url", "sqlite:missing.db"]);
    assert!(!made() && !user.home().join("other.db").exists());
    user.file("broken.db", "no database at all, but long enough to be taken for one by its length");
    let error = user.refused(&["migrate", &default, "sqlite:broken.db"], 6, "corrupt");
    assert!(error["message"].as_str().unwrap().starts_with("the target"), "{error}");
}

/// Also if the target does not exist yet, and will serve no SQL.
#[test]
fn a_dry_run_says_what_the_run_does_to_another_kind_of_store() {
    let user = filled();
    user.ok(&["snapshot", "today"]);
    let default = format!("sqlite:{}", user.home().join(".local/share/memory/memory.db").display());
    for command in ["migrate", "restore"] {
        let Some(database) = Database::on_own_runtime(SERVER) else { return };
        let url = database.url();
        let arguments = match command {
            "migrate" => vec![command, &default, &url, "--json"],
            _ => vec![command, "today", "--url", &url, "--json"],
        };
        let [dry, run] = [true, false].map(|dry| {
            let ran = user.run(&[&arguments[..], if dry { &["--dry-run"][..] } else { &[] }].concat());
            let report = ran.document();
            let facets = [report["entries"]["restored"].clone(), report["databases"]["restored"].clone()];
            (ran.code, facets, report["not_carried"].clone())
        });
        assert_eq!(dry, run, "{command}");
        assert_eq!((dry.0, &dry.1), (Some(7), &[json!(3), json!(0)]), "{command}");
    }
}

#[test]
fn a_snapshot_of_an_empty_scope_says_so() {
    let user = filled();
    let ran = user.run(&["snapshot", "nothing", "--user", "absent"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("default/user/absent is empty"), "{ran:?}");
}

/// The error names the ledger, not the snapshot.
#[test]
fn the_file_that_cannot_be_written_is_named() {
    let user = filled();
    std::fs::create_dir(user.home().join(".local/share/memory/memory.db.snapshots")).unwrap();
    let error = user.refused(&["snapshot", "today"], 5, "unavailable");
    assert!(error["message"].as_str().unwrap().contains("memory.db.snapshots"), "{error}");
    let error = user.refused(&["snapshot", "--list"], 6, "corrupt");
    assert!(error["message"].as_str().unwrap().contains("memory.db.snapshots"), "{error}");
}
