//! Shared state in the terminal.

use std::path::Path;

use serde_json::json;

use crate::support::user::User;

#[test]
fn notes_are_promoted_read_reviewed_rebuilt_and_verified() {
    let user = User::new();
    for words in [
        "issue redis_timeout: Redis times out under load",
        "issue lint: the linter fails",
        "the earlier blocker is fixed",
    ] {
        user.ok(&["note", words]);
    }
    user.ok(&["note", "just", "a", "thought"]);
    let report = user.json(&["promote"]);
    assert_eq!(
        (&report["notes"], &report["committed"], &report["deferred"], &report["rejected"]),
        (&json!(4), &json!(2), &json!(1), &json!(1)),
        "{report}"
    );
    assert!(user.ok(&["shared"]).contains("redis_timeout"));
    assert_eq!(user.json(&["shared", "issues"]).as_array().unwrap().len(), 2);
    let pending = user.json(&["pending"]);
    let id = pending[0]["id"].as_str().unwrap();
    assert_eq!(pending[0]["candidates"].as_array().unwrap().len(), 2);
    assert!(user.ok(&["pending"]).contains("the earlier blocker"));
    assert_eq!(user.json(&["review", "show", id])["reason"], "its words do not tell which row is meant");
    assert_eq!(user.json(&["review", "bind", id, "redis_timeout"])["outcome"], "committed");
    assert!(user.json(&["pending"]).as_array().unwrap().is_empty());
    assert_eq!(user.json(&["shared", "issues", "--ended"])[1]["status"], "resolved");
    let why = user.json(&["shared", "issues", "--why", "redis_timeout"]);
    assert_eq!(why["events"].as_array().unwrap().len(), 2);
    assert!(user.ok(&["shared", "issues", "--why", "redis_timeout"]).contains("reviewed"));
    for row in ["redis_timeout", "issues/redis_timeout"] {
        assert_eq!(user.json(&["why", row]), why);
    }
    user.refused(&["why", "decisions/redis_timeout"], 3, "not_found");
    user.refused(&["why", "choices/redis_timeout"], 3, "invalid_argument");
    let verified = user.json(&["verify"]);
    let anchor = format!("{}:{}", verified["anchor"]["seq"], verified["anchor"]["hash"].as_str().unwrap());
    assert_eq!(user.json(&["verify", "--anchor", &anchor])["events"], 3);
    let later = anchor.replacen("3:", "4:", 1);
    user.refused(&["verify", "--anchor", &later], 6, "corrupt");
    let rebuilt = user.json(&["rebuild"]);
    assert_eq!(rebuilt["before"], rebuilt["after"]);
}

#[test]
fn a_note_and_a_row_are_forgotten_with_what_was_derived_from_them() {
    let user = User::new();
    let note = user.json(&["note", "issue disk_full: Ottilie filled the disk"]);
    let id = note["note_id"].as_str().unwrap();
    user.ok(&["note", "decision keep_logs: keep the logs of Ottilie"]);
    user.ok(&["promote"]);
    user.refused(&["forget", "--note", id], 3, "invalid_argument");
    let trial = user.json(&["forget", "--note", id, "--dry-run"]);
    assert_eq!(trial["forgotten"]["rows"], json!([["issues", "disk_full"]]));
    let done = user.json(&["forget", "--note", id, "--yes"]);
    assert_eq!(done["forgotten"], trial["forgotten"]);
    assert!(user.ok(&["forget", "--row", "decisions/keep_logs", "--yes"]).contains("decisions/keep_logs"));
    assert_eq!(user.json(&["shared"]), json!([]));
    assert_eq!(user.json(&["verify"])["erased"], 2);
    let rebuilt = user.json(&["rebuild"]);
    assert_eq!((&rebuilt["before"], &rebuilt["rows"]), (&rebuilt["after"], &json!(0)));
    user.refused(&["forget", "--row", "keep_logs", "--yes"], 2, "invalid_argument");
}

#[test]
fn a_snapshot_carries_shared_state_whole() {
    let user = User::new();
    for words in [
        "issue disk_full: the disk is full",
        "issue lint_step: the linter fails",
        "the earlier blocker is fixed",
    ] {
        user.ok(&["note", words]);
    }
    user.ok(&["promote"]);
    user.ok(&["note", "lint_step is resolved"]);
    user.ok(&["snapshot", "all.snapshot"]);
    user.ok(&["restore", "all.snapshot", "--url", "sqlite:other.db"]);
    for command in [&["shared"][..], &["pending"], &["verify"]] {
        let there = user.json(&[command, &["--url", "sqlite:other.db"]].concat());
        assert_eq!(there, user.json(command), "{command:?}");
    }
    assert_eq!(user.json(&["promote", "--url", "sqlite:other.db"])["committed"], 1);
}

#[test]
fn no_option_reaches_the_tables_behind_shared_state() {
    let user = User::new();
    user.ok(&["note", "a thought"]);
    for command in [&["sql", "SELECT text FROM notes"][..], &["list"], &["sql", "DELETE FROM events_memory"]]
    {
        user.refused(&[command, &["--scope", "host:shared"]].concat(), 3, "invalid_argument");
    }
    for scope in ["agent:shared", "user:shared", "run:shared"] {
        user.refused(&["sql", "SELECT text FROM notes", "--scope", scope], 3, "invalid_argument");
    }
    user.refused(&["shared", "--url", "sqlite:missing.db"], 3, "not_found");
}

#[test]
fn a_variable_names_the_file_where_nothing_else_does() {
    for first in [&["note", "issue disk_full: no space left"][..], &["serve", "--agent", "ada"]] {
        let user = User::new();
        let named = user.home().join("named.db");
        let run = |arguments: &[&str]| {
            let ran = user.command(arguments).env("AGENT_MEMORY_DB_PATH", &named).output().unwrap();
            assert!(ran.status.success(), "{arguments:?}: {ran:?}");
            String::from_utf8(ran.stdout).unwrap()
        };
        run(first);
        assert!(named.is_file(), "{first:?}");
        run(&["note", "issue lint_step: the linter fails"]);
        run(&["promote"]);
        run(&["graph", "remember", "the deploy fails", "--agent", "ada"]);
        for (arguments, said) in [
            (&["shared"][..], "lint_step"),
            (&["why", "lint_step"], "the linter fails"),
            (&["verify"], "verified"),
            (&["graph", "tree", "--agent", "ada"], "the deploy fails"),
            (&["graph", "backend"], "named.db"),
            (&["describe"], "named.db"),
        ] {
            assert!(run(arguments).contains(said), "{arguments:?}");
        }
        assert!(!user.home().join(".local").exists(), "nothing is in the default place");
        // Any other way of naming a store takes precedence.
        user.file("memory.toml", "[backends.own]\nurl = \"sqlite:own.db\"\n");
        for other in [&["--url", "sqlite:other.db"][..], &["--backend", "own"], &[]] {
            let mut command = user.command(&[&["shared"], other].concat());
            let ran = command.env("AGENT_MEMORY_DB_PATH", &named).output().unwrap();
            assert_eq!(ran.status.code(), Some(3), "{other:?}: {ran:?}");
        }
    }
}

#[test]
fn it_is_said_that_nothing_waits_or_that_all_of_it_needs_a_person() {
    let user = User::new();
    for words in ["issue redis_timeout: Redis times out under load", "issue lint_step: the linter fails"] {
        user.ok(&["note", words]);
    }
    user.ok(&["promote"]);
    assert!(user.ok(&["pending"]).contains("nothing waits"));
    user.ok(&["note", "the earlier blocker is fixed"]);
    user.ok(&["promote"]);
    // A row that it may have meant ends, and the one that is left proves nothing.
    user.ok(&["note", "lint_step is fixed"]);
    user.ok(&["promote"]);
    let told = user.ok(&["pending"]);
    assert!(told.contains("1 need") && told.contains("memory review list"), "{told}");
    assert!(user.json(&["pending"]).as_array().unwrap().is_empty());
    assert_eq!(user.json(&["review", "list"]).as_array().unwrap().len(), 1);
    let why = user.ok(&["shared", "issues", "--why", "lint_step"]);
    assert!(why.contains("the note names its id; applied"), "{why}");
}

/// Regression: it showed ids without what the rows say, and a long note in full in a list; the reason of a rejection
/// was not kept.
#[test]
fn what_waits_is_shown_with_what_its_rows_say_and_how_to_decide() {
    let user = User::new();
    for words in ["issue redis_timeout: Redis times out under load", "issue lint_step: the linter fails"] {
        user.ok(&["note", words]);
    }
    user.ok(&[
        "note",
        &format!("the earlier blocker is fixed\nlikely:   lint_step\n{}", "word ".repeat(200)),
    ]);
    user.ok(&["note", "issue: lint_step is gone"]);
    user.ok(&["promote"]);
    let pending = user.json(&["pending"]);
    let id = |at: usize| pending[at]["id"].as_str().unwrap();
    let list = user.ok(&["pending"]);
    assert!(list.lines().all(|line| line.chars().count() < 600), "{list}");
    let shown = user.ok(&["review", "show", id(0)]);
    for part in [
        "likely:   lint_step (open, \"the linter fails\")",
        "asks for: resolve of issues: lint_step",
        "waits:    ",
        &format!("memory review reject {}", id(0)),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // A line of the note cannot pass for one of the program's.
    assert!(!shown.contains("\nlikely:   lint_step\n"), "{shown}");
    let shown = user.ok(&["review", "show", id(1)]);
    assert!(shown.contains(&format!("memory review bind {} NEW_ID", id(1))), "{shown}");
    user.ok(&["review", "reject", id(1), "--reason", "it is no issue of its own"]);
    let rejected = user.json(&["pending", "--state", "rejected"]);
    assert_eq!(rejected[0]["reason"], "it is no issue of its own");
}

/// Regression: `recall --as-of` accepted a date but these did not, and a note of 2099 was silently kept as one of now.
#[test]
fn times_may_be_dates_and_a_note_is_never_of_the_future() {
    let user = User::new();
    let note = user.json(&["note", "issue redis_timeout: Redis times out under load", "--at", "2026-01-01"]);
    assert_eq!(note["observed_at"], "2026-01-01T00:00:00.000Z");
    user.ok(&["promote"]);
    assert_eq!(user.json(&["shared", "issues", "--as-of", "2026-01-02"]).as_array().unwrap().len(), 1);
    assert_eq!(user.json(&["shared", "issues", "--as-of", "2025-12-31"]), json!([]));
    assert_eq!(user.json(&["shared", "issues", "--known-at", "2026-01-02"]), json!([]));
    for time in ["2099-01-01T00:00:00Z", "2099-01-01"] {
        let error = user.refused(&["note", "redis_timeout is resolved", "--at", time], 3, "invalid_argument");
        assert!(error.to_string().contains("leave it out for now"), "{error}");
    }
    assert_eq!(user.json(&["promote"])["notes"], 0);
}

/// Regression: notes that doubted, denied or quoted an end closed the issue that they name.
#[test]
fn only_a_plain_statement_ends_the_row_that_it_names() {
    let user = User::new();
    user.ok(&["note", "issue issue_1: Upload fails"]);
    for words in ["I doubt issue_1 is fixed", "Bob: issue_1 is fixed", "issue_1 is fixed except on Windows"] {
        user.ok(&["note", words]);
    }
    let report = user.json(&["promote"]);
    assert_eq!((&report["committed"], &report["deferred"]), (&json!(1), &json!(3)), "{report}");
    let told = user.json(&["pending"]);
    assert!(told[0]["reason"].as_str().unwrap().contains("`ID is resolved` alone says it"), "{told}");
    user.ok(&["note", "issue_1 was fixed by the new retry logic in build 42"]);
    assert_eq!(user.json(&["promote"])["committed"], 1);
}

/// Runs statements on the tables behind shared state.
fn behind(user: &User, sql: &str) {
    memory::sqlite::prepare_process();
    let only = |folder: &Path| {
        let mut found = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        found.find(|path| path.is_dir()).unwrap()
    };
    let scope = only(&only(&user.home().join(".local/share/memory/memory.db.sql")));
    rusqlite::Connection::open(scope.join("data.db")).unwrap().execute_batch(sql).unwrap();
}

/// Regression: it folded an edited event into the tables, and reported success.
#[test]
fn a_ledger_that_does_not_hold_is_not_rebuilt() {
    let user = User::new();
    user.ok(&["note", "issue issue_1: Upload fails"]);
    user.ok(&["promote"]);
    behind(
        &user,
        "DROP TRIGGER events_memory_UPDATE; UPDATE events_memory SET source_agent = 'eve' WHERE seq = 1",
    );
    user.refused(&["verify"], 6, "corrupt");
    let error = user.refused(&["rebuild"], 6, "corrupt");
    assert!(error.to_string().contains("nothing was rebuilt; restore a snapshot that verifies"), "{error}");
    assert_eq!(user.json(&["shared", "issues"])[0]["status"], "open");
}

#[test]
fn a_note_has_the_agent_and_the_run_that_are_given() {
    let user = User::new();
    for (words, rest) in [
        ("issue disk_full: the disk is full", &["--agent", "ada", "--run", "import-7"][..]),
        ("decision disk_full: buy a disk", &["--agent", "ada"]),
    ] {
        user.ok(&[&["note", words][..], rest].concat());
    }
    user.ok(&["promote"]);
    for (row, run) in [("issues/disk_full", "import-7"), ("decisions/disk_full", "terminal")] {
        let actor = &user.json(&["why", row])["events"][0]["event"]["actor"];
        assert_eq!((&actor["agent"], &actor["run"]), (&json!("ada"), &json!(run)), "{actor}");
    }
    let error = user.refused(&["why", "disk_full"], 3, "invalid_argument");
    assert!(error.to_string().contains("issues/disk_full or decisions/disk_full"), "{error}");
    // In other commands the two name different scopes.
    user.refused(&["list", "--agent", "ada", "--run", "import-7"], 2, "invalid_argument");
}

#[test]
fn notes_that_a_killed_pipeline_holds_are_told() {
    let user = User::new();
    user.ok(&["note", "issue disk_full: the disk is full"]);
    behind(&user, "UPDATE notes SET state = 'leased', lease = 'killed', lease_until = 4000000000000");
    let report = user.json(&["promote"]);
    assert_eq!((&report["notes"], &report["held"]["notes"]), (&json!(0), &json!(1)), "{report}");
    assert!(report["held"]["until"].as_str().unwrap().starts_with("2096-"), "{report}");
    let told = user.ok(&["promote"]);
    assert!(told.contains("1 note held by another pipeline") && told.contains("2096-"), "{told}");
}

#[test]
fn a_person_reopens_an_issue_that_was_resolved_by_mistake() {
    let user = User::new();
    for words in ["issue disk_full: the disk is full", "disk_full is resolved"] {
        user.ok(&["note", words]);
        user.ok(&["promote"]);
    }
    let told = user.json(&["review", "reopen", "disk_full", "--reason", "it was another disk"]);
    assert_eq!((&told["outcome"], &told["target_id"]), (&json!("committed"), &json!("disk_full")), "{told}");
    let why = user.json(&["why", "disk_full"]);
    let last = &why["events"][2];
    assert_eq!((&why["row"]["status"], &why["row"]["rev"]), (&json!("open"), &json!(3)), "{why}");
    assert_eq!(last["words"], "reopen disk_full: it was another disk");
    assert_eq!(
        (&last["event"]["operation"], &last["event"]["actor"]["trust"]),
        (&json!("reopen"), &json!("person"))
    );
    assert!(user.ok(&["review", "reopen", "disk_full"]).contains("nothing to do: it is open"));
    user.refused(&["review", "reopen", "disk_fuller"], 3, "not_found");
    assert_eq!(user.json(&["verify"])["events"], 3);
    let rebuilt = user.json(&["rebuild"]);
    assert_eq!(rebuilt["before"], rebuilt["after"]);
}
