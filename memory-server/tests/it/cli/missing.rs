//! Only commands that store something create a store.

use std::path::Path;

use memory_fakes::postgres::{Database, SERVER};

use crate::support::user::User;

const READING: &[&[&str]] = &[
    &["get", "k"],
    &["list"],
    &["list", "--all"],
    &["search", "word"],
    &["facts"],
    &["recall", "x"],
    &["event", "e"],
    &["forget", "--all"],
    &["delete", "k"],
    &["reembed"],
    &["stats"],
    &["describe"],
    &["scopes"],
    &["scopes", "--sql"],
    &["export"],
    &["export", "--out", "backup"],
    &["snapshot", "today"],
    &["snapshot", "--list"],
    &["gc"],
    &["gc", "--dry-run"],
    &["drift", "status"],
    &["drift", "diff"],
    &["drift", "repair"],
    &["forget", "--user", "ada", "--dry-run"],
    &["forget", "--user", "ada", "--yes"],
    &["sql", "SELECT 1"],
    &["sql", ".tables"],
    &["sql", "--dump", "dump"],
    &["sql", "--drop"],
];

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        folder.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_command_that_stores_nothing_creates_nothing_and_names_the_missing_file() {
    let user = User::new();
    for command in READING {
        let error = user.refused(&[command, &["--url", "sqlite:tpyo.db"][..]].concat(), 3, "not_found");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(" tpyo.db ") && message.contains("write something"),
            "{command:?}: {message}"
        );
        let error =
            user.refused(&[command, &["--url", "sqlite:no/such/tpyo.db"][..]].concat(), 3, "not_found");
        assert!(error["message"].as_str().unwrap().contains(" no/such/tpyo.db "), "{command:?}: {error}");
        // The default store, in a folder that does not exist either.
        let error = user.refused(command, 3, "not_found");
        assert!(error["message"].as_str().unwrap().contains(".local/share/memory/memory.db"), "{error}");
        assert_eq!(files(user.home()), [""; 0], "{command:?}");
    }
}

#[test]
fn a_command_that_stores_nothing_leaves_an_empty_postgres_database_empty() {
    let Some(database) = Database::on_own_runtime(SERVER) else { return };
    let (user, url) = (User::new(), database.url());
    let of = |command: &[&'static str]| [command, &["--url", url.as_str()][..]].concat();
    for command in READING.iter().filter(|command| command[..] != ["drift", "repair"]) {
        let error = user.refused(&of(command), 3, "not_found");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("has no tables") && message.contains("write something"),
            "{command:?}: {message}"
        );
    }
    user.file("turns.jsonl", r#"{"text": "hello", "speaker": "ada"}"#);
    user.ok(&of(&["import", "turns.jsonl", "--dry-run"]));
    assert!(user.ok(&of(&["doctor"])).contains("has no tables yet"));
    let untouched = user.run(&of(&["postgres", "doctor", "--json"])).document();
    let tables =
        untouched["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "tables");
    assert_eq!(tables.unwrap()["status"], "problem", "{untouched}");
    user.ok(&of(&["set", "k", "1"]));
    assert_eq!(user.ok(&of(&["get", "k"])), "1\n");
}

#[test]
fn a_missing_file_that_memory_toml_names_or_a_definition_does_is_not_created_either() {
    let user = User::new();
    let toml = "[backends.main]\nurl = \"sqlite:main.db\"\nfallback = \"spare\"\n[backends.spare]\nurl = \"sqlite:spare.db\"\n\
                [default]\nbackend = \"main\"\n[definitions]\nschemes = [\"sqlite\"]\npaths = [\".\"]\n";
    user.file("memory.toml", toml);
    for command in [&["get", "k"][..], &["backend", "test", "main"], &["get", "k", "--backend", "tpyo"]] {
        user.refused(command, 3, "not_found");
    }
    user.refused(&["backend", "show", "notes"], 3, "not_found");
    user.ok(&["backend", "list"]);
    user.ok(&["config", "check"]);
    assert_eq!(files(user.home()), ["memory.toml"]);
    user.ok(&["backend", "create", "notes", "sqlite:notes.db"]);
    let error = user.refused(&["list", "--backend", "notes"], 3, "not_found");
    assert!(error["message"].as_str().unwrap().contains("notes.db"), "{error}");
    assert_eq!(files(user.home()), ["memory.definitions.db", "memory.toml"]);
    // The store exists and its fallback was never needed.
    user.ok(&["set", "k", "1", "--url", "sqlite:main.db"]);
    assert_eq!(user.ok(&["get", "k"]), "1\n");
    assert_eq!(files(user.home()), ["main.db", "memory.definitions.db", "memory.toml"]);
}

/// Shared state and graphs that were never created read as empty.
#[test]
fn a_command_that_reads_tables_of_ours_makes_none() {
    let user = User::new();
    user.ok(&["set", "k", "1", "--url", "sqlite:m.db"]);
    let before = files(user.home());
    for command in [
        &["shared"][..],
        &["pending"],
        &["verify"],
        &["graph", "tree", "--agent", "ann"],
        &["graph", "recall", "x", "--agent", "ann"],
        &["graph", "stats"],
    ] {
        let ran = user.run(&[command, &["--url", "sqlite:m.db"]].concat());
        assert!(ran.code == Some(0) || ran.code == Some(1), "{command:?}: {ran:?}");
        assert_eq!(files(user.home()), before, "{command:?}");
    }
}

#[test]
fn a_file_in_the_place_of_the_folder_of_tables_is_no_empty_store() {
    let user = User::new();
    user.ok(&["set", "k", "1", "--url", "sqlite:a.db"]);
    user.file("a.db.sql", "");
    for command in [&["shared"][..], &["verify"], &["graph", "tree"], &["note", "a thought"]] {
        user.refused(&[command, &["--url", "sqlite:a.db"]].concat(), 6, "corrupt");
    }
}
