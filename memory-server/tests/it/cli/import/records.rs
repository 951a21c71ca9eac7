//! `export`, and `import` of what it wrote.

use serde_json::json;

use crate::support::user::{User, has};

#[test]
fn an_export_comes_back_as_it_was() {
    let user = User::new();
    user.ok(&["set", "a", "9007199254740993", "--metadata", "n=1", "--source", "s", "--index-text", "t"]);
    user.ok(&["set", "b", "[1.50]", "--ttl", "30d"]);
    user.ok(&["set", "b", "[2.50]"]);
    let export = user.ok(&["export"]);
    let mut lines = export.lines();
    assert_eq!(
        lines.next().unwrap(),
        r#"{"format":"memory-export","version":1,"scope":{"tenant":"default","kind":"user","id":"default"}}"#
    );
    assert_eq!(lines.clone().count(), 2);
    assert!(lines.all(|line| line.starts_with(r#"{"entry":{"key":"#)));

    let report = user.json(&["export", "--out", "backup.jsonl"]);
    assert_eq!(report, json!({"file": "backup.jsonl", "records": 2}));
    assert_eq!(std::fs::read_to_string(user.home().join("backup.jsonl")).unwrap(), export);

    let imported = user.json(&["import", "backup.jsonl", "--user", "copy"]);
    has(&imported, json!({"formats": ["records"], "created": 2}));
    let copy = user.ok(&["export", "--user", "copy"]);
    assert_eq!(copy.lines().skip(1).collect::<Vec<_>>(), export.lines().skip(1).collect::<Vec<_>>());
    let again = user.json(&["import", "backup.jsonl", "--user", "copy"]);
    has(&again, json!({"created": 0, "kept": 0, "unchanged": 2}));
    for choice in ["fail", "replace"] {
        let again = user.json(&["import", "backup.jsonl", "--user", "copy", "--on-different", choice]);
        assert_eq!((&again["replaced"], &again["unchanged"]), (&json!(0), &json!(2)), "{choice}");
    }
    user.ok(&["set", "fresh", "1", "--user", "copy"]);
    let words = user.ok(&["import", "backup.jsonl", "--user", "copy"]);
    assert!(words.contains("2 unchanged") && !words.contains("differ"), "{words}");
}

#[cfg(unix)]
#[test]
fn an_export_is_private_and_never_half_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::new();
    user.ok(&["set", "a", "1"]);
    user.ok(&["export", "--out", "backup.jsonl"]);
    let mode = user.home().join("backup.jsonl").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    user.refused(&["export", "--out", "no/such/folder/x"], 74, "not_found");
    user.refused(&["export", "--out", "."], 3, "invalid_argument");
    let left: Vec<_> =
        std::fs::read_dir(user.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".memory-export")), "{left:?}");
}

#[test]
fn existing_records_are_kept_replaced_or_refused() {
    let user = User::new();
    user.ok(&["set", "a", "1"]);
    user.ok(&["export", "--out", "backup.jsonl"]);
    user.ok(&["set", "a", "2"]);
    assert_eq!(user.json(&["import", "backup.jsonl"])["kept"], 1);
    assert_eq!(user.ok(&["get", "a"]), "2\n");
    user.refused(&["import", "backup.jsonl", "--on-different", "fail"], 4, "conflict");
    let before = user.json(&["get", "a"])["version"].as_u64().unwrap();
    assert_eq!(user.json(&["import", "backup.jsonl", "--on-different", "replace"])["replaced"], 1);
    let entry = user.json(&["get", "a"]);
    assert_eq!(entry["value"], 1);
    assert!(entry["version"].as_u64().unwrap() > before);
}

#[test]
fn a_broken_record_is_named_and_a_foreign_file_refused() {
    let user = User::new();
    user.ok(&["set", "a", "1"]);
    let export = user.ok(&["export"]);
    user.file("torn.jsonl", export.replace('\n', "\nnot a record\n"));
    let ran = user.run(&["import", "torn.jsonl", "--user", "copy", "--json"]);
    assert_eq!(ran.code, Some(7));
    let report = ran.document();
    assert_eq!((&report["created"], &report["problems"]["count"]), (&json!(1), &json!(2)));
    assert_eq!(report["problems"]["first"][0]["line"], 2);
    user.file("newer.jsonl", export.replace("\"version\":1,\"scope\"", "\"version\":2,\"scope\""));
    let error = user.refused(&["import", "newer.jsonl"], 6, "corrupt");
    assert!(error["message"].as_str().unwrap().contains("version 2"), "{error}");
    user.file("bare.jsonl", export.lines().nth(1).unwrap());
    user.refused(&["import", "bare.jsonl", "--format", "records"], 6, "corrupt");
    let zero = export.replace("\"version\":1,\"created_at\"", "\"version\":0,\"created_at\"");
    user.file("zero.jsonl", zero);
    let error = user.refused(&["import", "zero.jsonl", "--user", "z"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("line 2"), "{error}");
}

#[test]
fn the_largest_value_that_a_store_takes_comes_back_from_its_export() {
    let user = User::new();
    let url = ["--url", "sqlite:large.db?max_value_bytes=67108864"];
    // Line feeds within the value turn its line into a string.
    let value = format!("[\n\"{}\"]", "x".repeat(17 << 20));
    user.file("value.json", &value);
    user.ok(&[&["set", "large", "--file", "value.json"][..], &url].concat());
    user.ok(&[&["export", "--out", "backup.jsonl"][..], &url].concat());
    let report = user.json(&[&["import", "backup.jsonl", "--user", "copy"][..], &url].concat());
    assert_eq!((&report["created"], &report["problems"]["count"]), (&json!(1), &json!(0)));
    assert_eq!(user.ok(&[&["get", "large", "--user", "copy"][..], &url].concat()).trim_end(), value);
}
