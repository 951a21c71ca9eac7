//! `corpus`: statements, most of them hostile, each in a fresh scope.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::user::{Ran, User};

const BASE: &str = "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT);\n\
                    INSERT INTO notes (body) VALUES ('one'), ('two');\n\
                    CREATE VIRTUAL TABLE words USING fts5 (body);\n\
                    CREATE TABLE _mem_meta (k TEXT, v TEXT);";

fn corpus(user: &User, lines: &[Value], more: &[&str]) -> Ran {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    user.file("corpus.jsonl", text);
    user.file("base.sql", BASE);
    let arguments = [&["corpus", "corpus.jsonl", "--base", "base.sql", "--quiet"], more].concat();
    user.run(&arguments)
}

/// One line per class of attack, with the expected outcome.
fn attacks(evil: &str) -> Vec<Value> {
    let line = |id: &str, op: &str, sql: &str, expect: &str| json!({"id": id, "category": id.split('-').next(), "op": op, "sql": sql, "expect": expect});
    vec![
        line("attach-1", "exec", &format!("ATTACH '{evil}' AS x"), "refuse"),
        line("vacuum-1", "exec", &format!("VACUUM INTO '{evil}'"), "refuse"),
        line("pragma-1", "exec", "PRAGMA writable_schema = 1", "refuse"),
        line("pragma-2", "query", "SELECT * FROM pragma_database_list", "refuse"),
        line("extension-1", "query", "SELECT load_extension('x')", "refuse"),
        line("functions-1", "query", "SELECT fts3_tokenizer('simple', x'00')", "refuse"),
        line("vtab-1", "exec", "CREATE VIRTUAL TABLE d USING dbstat", "refuse"),
        line("txn-1", "exec", "COMMIT", "refuse"),
        line("txn-2", "exec", "INSERT OR ROLLBACK INTO notes VALUES (1, '')", "refuse"),
        line("schema-1", "exec", "DELETE FROM sqlite_master", "refuse"),
        line("runtime-1", "exec", "INSERT INTO _mem_meta VALUES ('a', 'b')", "refuse"),
        line("temp-1", "exec", "CREATE TEMP TABLE notes (a)", "refuse"),
        line("multi-1", "exec", "SELECT 1; DROP TABLE notes", "refuse"),
        line("shadow-1", "exec", "UPDATE words_data SET block = x''", "refuse"),
        line("readonly-1", "query", "DELETE FROM notes RETURNING id", "readonly"),
        line(
            "resource-1",
            "query",
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
            "bounded",
        ),
        line(
            "quota-1",
            "exec",
            "CREATE TABLE q AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT randomblob(1000) FROM c",
            "bounded",
        ),
        json!({"id": "bomb-1", "category": "bomb", "op": "query", "sql": null, "expect": "bounded",
               "sql_parts": [["SELECT ", 1], ["(", 20_000], ["1", 1], [")", 20_000]]}),
        json!({"id": "stored-1", "category": "stored", "op": "exec", "sql": "INSERT INTO notes (body) VALUES ('x')", "expect": "refuse",
               "setup": ["CREATE TRIGGER t AFTER INSERT ON notes BEGIN INSERT INTO _mem_meta VALUES ('a', 'b'); END"]}),
        line("isolated-1", "exec", "CREATE TABLE \"a b\" (\"select\")", "isolated"),
    ]
}

#[test]
fn every_class_of_attack_ends_as_expected_and_is_reported() {
    let user = User::new();
    let evil = user.home().join("evil.db");
    // On a busy machine a large quota is not reached before the deadline.
    let ran = corpus(&user, &attacks(evil.to_str().unwrap()), &["--json", "--quota", "1000000"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines = ran.lines();
    let (summary, verdicts) = lines.split_last().unwrap();
    let summary = &summary["summary"];
    assert_eq!(summary["not_as_expected_ids"], json!([]), "{ran:?}");
    assert_eq!(summary["lines"], verdicts.len());
    for verdict in verdicts {
        let members: Vec<&String> = verdict.as_object().unwrap().keys().collect();
        assert_eq!(members.len(), 7, "{verdict}");
        for member in ["id", "outcome", "code", "layer", "elapsed_ms", "peak_bytes", "changed"] {
            assert!(verdict.get(member).is_some(), "{member}: {verdict}");
        }
    }
    let of = |id: &str| verdicts.iter().find(|verdict| verdict["id"] == id).unwrap();
    assert_eq!(
        (&of("attach-1")["layer"], &of("attach-1")["code"]),
        (&json!("gate"), &json!("statement_refused"))
    );
    assert_eq!(of("readonly-1")["code"], "read_only");
    assert_eq!((&of("resource-1")["layer"], &of("quota-1")["layer"]), (&json!("deadline"), &json!("quota")));
    assert_eq!(of("isolated-1")["changed"], true);
    assert!(!evil.exists());
}

#[test]
fn legitimate_statements_must_run_and_the_default_report_is_a_table() {
    let user = User::new();
    let lines = [
        json!({"id": "ok", "category": "a", "op": "query", "sql": "SELECT count(*) FROM notes WHERE id > ?", "args": [1]}),
        json!({"id": "typo", "category": "a", "op": "query", "sql": "SELECT missing FROM notes"}),
        json!({"id": "strict", "category": "b", "op": "exec", "sql": "PRAGMA user_version", "policy": "optional"}),
    ];
    let ran = corpus(&user, &lines, &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let verdict = |id: &str| ran.stdout.lines().find(|line| line.contains(&format!(" {id} "))).unwrap();
    assert!(verdict("ok").starts_with(' ') && verdict("ok").contains("ok"), "{ran:?}");
    assert!(verdict("typo").starts_with('!') && verdict("typo").contains("engine"), "{ran:?}");
    assert!(verdict("strict").starts_with(' ') && verdict("strict").contains("refused"), "{ran:?}");
    assert!(ran.stdout.contains("AS EXPECTED") && ran.stderr.contains("not as expected: typo"), "{ran:?}");
}

#[test]
fn a_single_layer_stops_its_class_of_attack() {
    let user = User::new();
    let evil = user.home().join("evil.db");
    let attach = [attacks(evil.to_str().unwrap()).swap_remove(0)];
    for layer in ["gate", "grammar", "walk", "authorizer", "config"] {
        let ran = corpus(&user, &attach, &["--json", "--only-layer", layer]);
        let verdict = &ran.lines()[0];
        assert_ne!(verdict["outcome"], "ok", "{layer}: {verdict}");
    }
    let runtime: Vec<Value> = attacks("").into_iter().filter(|line| line["id"] == "runtime-1").collect();
    let ran = corpus(&user, &runtime, &["--json", "--only-layer", "quota"]);
    let verdict = &ran.lines()[0];
    assert_eq!((&verdict["outcome"], &verdict["changed"]), (&json!("ok"), &json!(true)), "{verdict}");
    assert_eq!(ran.lines()[1]["summary"]["not_as_expected_ids"], json!(["runtime-1"]));
    let ran = corpus(&user, &attach, &["--json", "--no-validator"]);
    assert_eq!(ran.lines()[0]["layer"], "authorizer", "{ran:?}");
}

#[test]
fn an_unreadable_line_is_reported_and_the_others_run() {
    let user = User::new();
    let line = |id: &str, sql: &str| json!({"id": id, "op": "query", "sql": sql}).to_string();
    let lines = [
        line("first", "SELECT 1"),
        "{\"id\": \"cut".to_owned(),
        json!({"id": "bare", "op": "query"}).to_string(),
        line("first", "SELECT 2"),
        json!({"id": "array", "op": "query", "sql": "SELECT ?", "args": [[1]]}).to_string(),
        line("last", "SELECT 3"),
    ];
    user.file("corpus.jsonl", [lines.join("\n").as_bytes(), b"\n\xff\n"].concat());
    let ran = user.run(&["corpus", "corpus.jsonl", "--json", "--quiet"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let lines = ran.lines();
    let (summary, verdicts) = lines.split_last().unwrap();
    let ended: Vec<(&str, &str)> = verdicts
        .iter()
        .map(|verdict| (verdict["id"].as_str().unwrap(), verdict["code"].as_str().unwrap()))
        .collect();
    let unreadable = |id| (id, "unreadable");
    assert_eq!(
        ended,
        [
            ("first", "ok"),
            unreadable("line 2"),
            unreadable("bare"),
            unreadable("line 4"),
            ("array", "invalid_argument"),
            ("last", "ok"),
            unreadable("line 7"),
        ]
    );
    let summary = &summary["summary"];
    assert_eq!((&summary["lines"], &summary["unreadable"]), (&json!(7), &json!(4)));
    assert_eq!(summary["not_as_expected_ids"], json!(["line 2", "bare", "line 4", "array", "line 7"]));
    for why in ["line 2 cannot be read", "neither `sql` nor `sql_parts`", "the same id"] {
        assert!(ran.stderr.contains(why), "{why}: {}", ran.stderr);
    }
    user.file("corpus.jsonl", "hello\n");
    let ran = user.run(&["corpus", "corpus.jsonl", "--json", "--quiet"]);
    assert_eq!((ran.code, &ran.lines()[0]["code"]), (Some(7), &json!("unreadable")), "{ran:?}");
}

#[test]
fn sqlite_takes_named_arguments() {
    let user = User::new();
    let line = json!({"id": "named", "op": "query", "sql": "SELECT 1 FROM notes WHERE id > :low AND body <> @not",
        "args": {"low": 1, "@not": "one"}});
    let ran = corpus(&user, &[line], &["--json"]);
    assert_eq!((ran.code, &ran.lines()[0]["code"]), (Some(0), &json!("ok")), "{ran:?}");
}

#[test]
fn a_corpus_runs_on_the_named_backend() {
    let user = User::new();
    user.file("there/memory.toml", "[backends.mine]\nurl = \"sqlite:mine.db\"\n");
    let line = json!({"id": "a", "op": "query", "sql": "SELECT 1"});
    let ran = corpus(&user, &[line], &["--backend", "mine", "--config", "there/memory.toml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(user.home().join("there/mine.db").exists());
}

#[test]
fn a_file_without_lines_is_refused() {
    let user = User::new();
    user.file("bad.jsonl", "\n");
    user.refused(&["corpus", "bad.jsonl"], 3, "invalid_argument");
    user.refused(&["corpus", "missing.jsonl"], 74, "not_found");
    user.file("corpus.jsonl", "{\"id\":\"a\",\"op\":\"query\",\"sql\":\"SELECT 1\"}\n");
    user.file("broken.sql", "CREATE TABLE");
    let broken = ["corpus", "corpus.jsonl", "--base", "broken.sql"];
    user.refused(&broken, 3, "invalid_argument");
    user.refused(&["corpus", "corpus.jsonl", "--only-layer", "luck"], 3, "invalid_argument");
}

fn shared(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let file = shared.join("corpus/sql").join(name);
    if !file.exists() {
        println!("skipped: no corpus/sql/{name} under MEMORY_SHARED");
        return None;
    }
    Some(file)
}

#[test]
fn the_shared_corpora_end_as_they_expect() {
    for (corpus, base) in
        [("sqlite_attacks.jsonl", "sqlite_attack_base.sql"), ("sqlite_legit.jsonl", "sqlite_legit_base.sql")]
    {
        let (Some(corpus), Some(base)) = (shared(corpus), shared(base)) else { return };
        let user = User::new();
        let arguments =
            ["corpus", corpus.to_str().unwrap(), "--base", base.to_str().unwrap(), "--json", "--quiet"];
        let ran = user.run(&arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let lines = ran.lines();
        let summary = &lines.last().unwrap()["summary"];
        assert_eq!(summary["not_as_expected_ids"], json!([]), "{summary}");
        assert!(summary["lines"].as_u64().unwrap() > 100, "{summary}");
    }
}

/// `cargo xtask check` searches the product for the same text.
#[test]
fn a_build_that_can_switch_layers_off_contains_a_marker() {
    let marker = b"sandbox layers can be switched off in this build";
    let program = std::fs::read(crate::PROGRAM).unwrap();
    assert!(program.windows(marker.len()).any(|window| window == marker));
}
