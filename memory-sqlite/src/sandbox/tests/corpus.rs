//! The corpora of attacks and legitimate statements, run against the engine's layers alone.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use memory_core::sql::SqlValue;
use serde_json::Value;

use super::TestDatabase;

fn corpus(name: &str) -> Option<String> {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let file = shared.join("corpus/sql").join(name);
    let found = std::fs::read_to_string(&file).ok();
    if found.is_none() {
        println!("skipped: no corpus/sql/{name} under MEMORY_SHARED");
    }
    found
}

struct Case {
    id: String,
    category: String,
    query: bool,
    sql: String,
    args: Vec<SqlValue>,
    setup: Vec<String>,
    expect: String,
}

fn cases(text: &str) -> Vec<Case> {
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    text.lines()
        .map(|line| {
            let case: Value = serde_json::from_str(line).unwrap();
            let parts = |parts: &Value| {
                parts.as_array().unwrap().iter().fold(String::new(), |sql, part| {
                    let times = usize::try_from(part[1].as_u64().unwrap()).unwrap();
                    sql + &part[0].as_str().unwrap().repeat(times)
                })
            };
            Case {
                id: string(&case["id"]),
                category: string(&case["category"]),
                query: case["op"] == "query",
                sql: case["sql"].as_str().map_or_else(|| parts(&case["sql_parts"]), str::to_owned),
                args: case["args"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|arg| serde_json::from_value(arg.clone()).unwrap())
                    .collect(),
                setup: case["setup"].as_array().into_iter().flatten().map(string).collect(),
                expect: string(&case["expect"]),
            }
        })
        .collect()
}

struct Outcome {
    code: &'static str,
    message: String,
    elapsed: Duration,
    peak: u64,
    changed: bool,
}

fn run(database: &TestDatabase, case: &Case) -> Outcome {
    let before = database.dump();
    let began = Instant::now();
    let ran = if case.query {
        database.run(
            &mut database.open(super::Role::Reader),
            memory_validator::Mode::Query,
            &case.sql,
            &case.args,
        )
    } else {
        database.exec(&case.sql, &case.args)
    };
    let elapsed = began.elapsed();
    let (code, message, peak) = match &ran {
        Ok(ran) => ("ok", String::new(), ran.peak_bytes),
        Err(error) => (error.kind().code(), format!("{error:?}"), 0),
    };
    Outcome { code, message, elapsed, peak, changed: database.dump() != before }
}

/// Definitions that the engine accepts and refuses to use: a stored definition is compiled when it is used. The
/// validator refuses the definition already.
const REFUSED_WHEN_USED: [&str; 3] = ["CREATE TRIGGER", "CREATE TABLE", "CREATE VIRTUAL TABLE"];

#[test]
fn every_attack_is_stopped_by_the_engine_alone() {
    let (Some(base), Some(attacks)) = (corpus("sqlite_attack_base.sql"), corpus("sqlite_attacks.jsonl"))
    else {
        return;
    };
    let (mut wrong, mut defined, mut seen) = (Vec::new(), 0, 0);
    for case in cases(&attacks) {
        seen += 1;
        let mut database = TestDatabase::new();
        database.load(&base);
        case.setup.iter().for_each(|sql| database.load(sql));
        database.quota = Some(32 << 20);
        database.timeout = Duration::from_secs(1);
        let outcome = run(&database, &case);
        println!(
            "{} {} {} {:?} {} {}",
            case.id, case.category, outcome.code, outcome.elapsed, outcome.peak, outcome.message
        );
        let refused = outcome.code != "ok" && !outcome.changed;
        let good = match case.expect.as_str() {
            "refuse" if REFUSED_WHEN_USED.iter().any(|kind| case.sql.starts_with(kind)) => {
                defined += usize::from(!refused);
                true
            }
            "refuse" | "readonly" => refused,
            _ => true,
        };
        if !good || outcome.elapsed > Duration::from_secs(2) || outcome.peak > 256 << 20 {
            let sql: String = case.sql.chars().take(200).collect();
            wrong.push(format!("{} {}: {} {:?}: {sql}", case.id, case.expect, outcome.code, outcome.elapsed));
        }
    }
    println!("{seen} attacks, of which {defined} are definitions refused only when used");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(defined * 20 <= seen, "{defined} of {seen}");
}

#[test]
fn every_legitimate_statement_runs() {
    let (Some(base), Some(legit)) = (corpus("sqlite_legit_base.sql"), corpus("sqlite_legit.jsonl")) else {
        return;
    };
    let mut wrong = Vec::new();
    for case in cases(&legit) {
        let database = TestDatabase::new();
        database.load(&base);
        if let Some(error) = case.setup.iter().find_map(|sql| database.try_load(sql).err()) {
            wrong.push(format!("{}: setup: {error}", case.id));
            continue;
        }
        let outcome = run(&database, &case);
        if outcome.code != "ok" {
            wrong.push(format!("{}: {} {}: {}", case.id, outcome.code, outcome.message, case.sql));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
