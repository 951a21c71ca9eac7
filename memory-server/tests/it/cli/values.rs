//! `get`, `set`, `delete`, `incr`, `update`.

use serde_json::json;

use crate::support::user::{User, has};

#[test]
fn a_value_comes_back_byte_for_byte() {
    let user = User::new();
    let value = r#"{"b":9007199254740993,"a":[1.50, 1e400]}"#;
    user.ok(&["set", "k", value]);
    assert_eq!(user.ok(&["get", "k"]), format!("{value}\n"));
}

#[test]
fn plain_text_needs_the_text_option() {
    let user = User::new();
    let error = user.refused(&["set", "k", "hello"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("--text"), "{error}");
    user.ok(&["set", "k", "--text", "say \"hi\"\n"]);
    assert_eq!(user.ok(&["get", "k"]), "\"say \\\"hi\\\"\\n\"\n");
    assert_eq!(user.ok(&["get", "k", "--text"]), "say \"hi\"\n\n");
    user.ok(&["set", "n", "1"]);
    let number = user.run(&["get", "n", "--text"]);
    assert_eq!(number.code, Some(3));
    assert!(number.stderr.contains("leave out --text"), "{number:?}");
}

#[test]
fn a_value_comes_from_standard_input_or_a_file() {
    let user = User::new();
    assert_eq!(user.run_with(&["set", "a", "-"], b" [1, 2]\n").code, Some(0));
    assert_eq!(user.ok(&["get", "a"]), "[1, 2]\n");
    let file = user.file("value.json", "{\"x\": 1}\n");
    user.ok(&["set", "b", "--file", file.to_str().unwrap()]);
    assert_eq!(user.ok(&["get", "b"]), "{\"x\": 1}\n");
    assert_eq!(user.run_with(&["set", "c", "-"], b"\"\xff\"").code, Some(3));
    user.refused(&["set", "c", "--file", "absent.json"], 74, "not_found");
    assert_eq!(user.run(&["set", "c"]).code, Some(2));
    assert_eq!(user.run(&["set", "c", "1", "--file", "value.json"]).code, Some(2));
}

#[test]
fn everything_known_about_an_entry_is_shown() {
    let user = User::new();
    let set = user.json(&[
        "set",
        "k",
        "1",
        "--ttl",
        "1h",
        "--source",
        "chat",
        "--index-text",
        "one",
        "--metadata",
        "n=10",
        "--metadata",
        "t=ten",
        "--metadata",
        "b=true",
    ]);
    has(&set, json!({"created": true, "written": true}));
    let entry = user.json(&["get", "k"]);
    has(
        &entry,
        json!({"key": "k", "value": 1, "metadata": {"n": 10, "t": "ten", "b": true}, "source": "chat", "text": "one"}),
    );
    assert_eq!(entry["version"], set["version"]);
    assert_eq!(entry["expires_at"], set["expires_at"]);
    let full = user.ok(&["get", "k", "--full"]);
    for part in ["value     1", "source    chat", "metadata  t = ten", "expires   20"] {
        assert!(full.contains(part), "{full}");
    }
}

#[test]
fn a_missing_key_exits_with_no_and_is_not_an_error() {
    let user = User::new();
    user.ok(&["set", "other", "1"]);
    let missing = user.run(&["get", "k"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(1), ""));
    assert!(missing.stderr.contains("nothing is stored"));
    let missing = user.run(&["get", "k", "--json"]);
    assert_eq!((missing.code, missing.stdout.as_str(), missing.stderr.as_str()), (Some(1), "null\n", ""));
    let missing = user.run(&["delete", "k", "--json"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(1), "{\"deleted\":false}\n"));
    user.ok(&["set", "k", "1"]);
    assert_eq!(user.json(&["delete", "k"]), json!({"deleted": true}));
    assert_eq!(user.run(&["get", "k"]).code, Some(1));
}

#[test]
fn a_failed_precondition_is_a_conflict_with_the_stored_version() {
    let user = User::new();
    let first = user.json(&["set", "k", "1", "--if-absent"])["version"].clone();
    let error = user.refused(&["set", "k", "2", "--if-absent"], 4, "conflict");
    assert_eq!(error["details"]["current_version"], first);
    user.ok(&["set", "k", "2", "--if-version", &first.to_string()]);
    user.refused(&["set", "k", "3", "--if-version", &first.to_string()], 4, "conflict");
    user.refused(&["delete", "k", "--if-version", &first.to_string()], 4, "conflict");
    assert_eq!(user.ok(&["get", "k"]), "2\n");
    // A retry of a write that already happened succeeds without writing.
    let again = user.json(&["set", "k", "2", "--if-version", &first.to_string()]);
    assert_eq!(again["written"], false);
    assert_eq!(user.run(&["set", "k", "2", "--if-absent", "--if-version", "1"]).code, Some(2));
}

#[test]
fn incr_adds_subtracts_and_refuses_non_integers() {
    let user = User::new();
    assert_eq!(user.ok(&["incr", "n"]), "1\n");
    assert_eq!(user.ok(&["incr", "n", "41"]), "42\n");
    assert_eq!(user.json(&["incr", "n", "-2", "--ttl", "1h"])["value"], 40);
    assert!(user.json(&["get", "n"])["expires_at"].is_string());
    user.ok(&["set", "s", "\"x\""]);
    user.refused(&["incr", "s"], 3, "wrong_type");
    user.ok(&["set", "max", "9223372036854775807"]);
    user.refused(&["incr", "max"], 3, "invalid_argument");
    assert_eq!(user.run(&["incr", "n", "1.5"]).code, Some(2));
}

#[test]
fn a_value_is_changed_in_part() {
    let user = User::new();
    user.ok(&["set", "doc", r#"{"a": 1.50, "b": {"c": 1}}"#]);
    assert_eq!(
        user.ok(&["update", "doc", "--merge", r#"{"b":{"d":2}}"#]),
        "{\"a\": 1.50, \"b\": {\"c\": 1,\"d\":2}}\n"
    );
    assert_eq!(user.json(&["update", "tags", "--append", "1"])["appended"], true);
    assert_eq!(user.json(&["update", "tags", "--append", "1.0"])["appended"], false);
    for item in ["1", "2", "3"] {
        user.ok(&["update", "recent", "--push", item, "--limit", "2"]);
    }
    assert_eq!(user.ok(&["get", "recent"]), "[2,3]\n");
    user.refused(&["update", "tags", "--merge", "{}"], 3, "wrong_type");
    user.refused(&["update", "tags", "--append", "oops"], 3, "invalid_argument");
    for wrong in [&["update", "tags"][..], &["update", "tags", "--merge", "{}", "--push", "1"]] {
        assert_eq!(user.run(wrong).code, Some(2));
    }
}

#[test]
fn scopes_and_tenants_have_separate_entries() {
    let user = User::new();
    for (scope, value) in [
        (&["--user", "ada"][..], "1"),
        (&["--agent", "ada"], "2"),
        (&["--scope", "run:ada"], "3"),
        (&["--user", "ada", "--tenant", "acme"], "4"),
        (&[], "5"),
    ] {
        user.ok(&[&["set", "k", value], scope].concat());
        assert_eq!(user.ok(&[&["get", "k"], scope].concat()), format!("{value}\n"));
    }
    assert_eq!(user.ok(&["get", "k", "--scope", "user:ada"]), "1\n");
    assert_eq!(user.ok(&["get", "k", "--user", "default", "--tenant", "default"]), "5\n");
    assert_eq!(user.run(&["get", "k", "--user", "a", "--agent", "b"]).code, Some(2));
    for bad in ["", "*", " x", "a\nb", &"x".repeat(257)] {
        assert_eq!(user.run(&["get", "k", "--user", bad]).code, Some(3), "{bad:?}");
    }
}

#[cfg(unix)]
#[test]
fn the_default_store_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::new();
    user.ok(&["set", "k", "1"]);
    let folder = user.home().join(".local/share/memory");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("memory.db")), 0o600);
}
