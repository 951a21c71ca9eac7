//! `sql`: the shell on a scope's database, and dumps.

use serde_json::json;

use crate::support::user::{User, has};

#[test]
fn one_statement_runs_and_its_rows_are_printed() {
    let user = User::new();
    user.ok(&["sql", "CREATE TABLE people (name TEXT, age INTEGER, photo BLOB)"]);
    let wrote = user.json(&[
        "sql",
        "INSERT INTO people VALUES (?, ?, ?), ('Bob', NULL, NULL)",
        "--arg",
        "\"Ada\"",
        "--arg",
        "36",
        "--arg",
        r#"{"$blob":"AP8="}"#,
    ]);
    assert_eq!(wrote, json!({"rows_affected": 2}));
    let table = user.ok(&["sql", "SELECT * FROM people ORDER BY name;"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines,
        ["name   age  photo", "----  ----  -------", "Ada     36  x'00ff'", "Bob   NULL  NULL", "(2 rows)"]
    );
    let rows = user.json(&["sql", "SELECT name FROM people ORDER BY name", "--max-rows", "1"]);
    assert_eq!(rows, json!({"columns": ["name"], "rows": [["Ada"]], "truncated": true}));
    let other = user.refused(&["sql", "SELECT * FROM people", "--user", "eve"], 3, "invalid_argument");
    assert!(other["message"].as_str().unwrap().contains("no such table"), "{other}");
}

#[test]
fn the_operator_is_in_the_sandbox_too() {
    let user = User::new();
    let error = user.refused(&["sql", "ATTACH 'other.db' AS o"], 3, "statement_refused");
    assert!(!user.home().join("other.db").exists() && error["details"]["stage"] == "gate", "{error}");
    user.refused(&["sql", "SELECT 1; SELECT 2"], 3, "statement_refused");
    user.refused(&["sql", "SELECT 1", "--arg", "nonsense"], 3, "invalid_argument");
    let error = user.refused(&["sql", "SELECT", "1"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("put it in quotes"), "{error}");
}

#[test]
fn statements_come_line_by_line_with_transactions_and_dot_commands() {
    let user = User::new();
    let script = "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);\n\
                  CREATE TRIGGER tr AFTER INSERT ON t BEGIN\n UPDATE t SET b = 'x;y' WHERE a = new.a;\n END;\n\
                  BEGIN;\nINSERT INTO t (a) VALUES (1); INSERT INTO t (a) VALUES (2);\nCOMMIT;\n\
                  .begin\nDELETE FROM t;\n.rollback\n\
                  .tables\n.schema t\n.usage\nSELECT a, b\n FROM t ORDER BY a";
    let ran = user.run_with(&["sql"], script.as_bytes());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for part in [
        "transaction open",
        "committed",
        "rolled back",
        "a INTEGER, b TEXT",
        "CREATE TRIGGER tr",
        "x;y",
        "(2 rows)",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    let missing = user.run_with(&["sql"], b".schema nosuch\n");
    assert!(missing.code == Some(3) && missing.stderr.contains("no `nosuch`"), "{missing:?}");
    let broken = user.run_with(&["sql"], b"BEGIN;\nINSERT INTO t VALUES (9, '');\nnonsense;\nCOMMIT;\n");
    assert_eq!(broken.code, Some(3), "a script ends at its first failure: {broken:?}");
    assert!(broken.stderr.contains("rolled back"), "{broken:?}");
    assert_eq!(user.json(&["sql", "SELECT max(a) FROM t"])["rows"], json!([[2]]));
}

#[test]
fn a_dump_that_is_not_there_makes_no_store() {
    let user = User::new();
    user.refused(&["sql", "--restore", "absent.dump", "--url", "sqlite:new.db"], 74, "not_found");
    assert!(!user.home().join("new.db").exists());
}

#[test]
fn a_dump_restores_into_another_scope_and_a_dropped_database_is_gone() {
    let user = User::new();
    user.ok(&["sql", "CREATE TABLE t (a INTEGER, b BLOB)"]);
    user.ok(&["sql", "INSERT INTO t VALUES (9007199254740993, x'00ff')"]);
    assert_eq!(user.json(&["scopes", "--sql"])["scopes"][0]["scope"]["id"], "default");
    user.ok(&["sql", "--dump", "t.dump"]);
    let restored = user.json(&["sql", "--restore", "t.dump", "--user", "copy"]);
    has(&restored, json!({"tables": 1, "rows": 1}));
    let copied = user.json(&["sql", "SELECT a, hex(b) FROM t", "--user", "copy"]);
    assert_eq!(copied["rows"], json!([[9_007_199_254_740_993_i64, "00FF"]]));
    user.refused(&["sql", "--restore", "t.dump", "--user", "copy"], 4, "conflict");
    for gone in [true, false] {
        assert_eq!(user.json(&["sql", "--drop"]), json!({"dropped": gone}));
    }
    assert_eq!(user.json(&["sql", "SELECT count(*) FROM sqlite_schema"])["rows"], json!([[0]]));
}

#[test]
fn a_dump_names_what_it_does_not_contain() {
    let user = User::new();
    user.ok(&["sql", "CREATE VIRTUAL TABLE words USING fts5(body, content='')"]);
    user.ok(&["sql", "INSERT INTO words (rowid, body) VALUES (1, 'tea')"]);
    let ran = user.run(&["sql", "--dump", "t.dump", "--json"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["skipped"].as_array().map(Vec::len), Some(1), "{report}");
    assert!(ran.stderr.contains("not in the dump: "), "{ran:?}");
}
