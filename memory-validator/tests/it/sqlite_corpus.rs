//! The validator's own verdicts on the corpora of SQLite statements.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Line, corpus};
use memory_validator::{Dialect, Policy, Refusal, Stage, Stages, Validator, Verdict};

const GATE: Stages = Stages { gate: true, grammar: false, walk: false };
const TREE: Stages = Stages { gate: false, grammar: true, walk: true };

/// Attacks that the text alone does not show, and what stops them instead.
const BEYOND: &[(&str, &str)] = &[
    ("sl-deferred_use-", "the attack is in a definition that is stored already: the authorizer sees its use"),
    ("sl-shadow_write-", "a shadow table is known by the tables there are: DEFENSIVE stops the write"),
];

fn verdict(line: &Line, stages: Stages) -> Option<Refusal> {
    let policy = Policy::new(Dialect::Sqlite);
    match Validator::check_stages(&line.sql, Dialect::Sqlite, line.mode, &policy, stages) {
        Verdict::Accepted(_) => None,
        Verdict::Refused(refusal) => Some(refusal),
    }
}

#[test]
fn every_attack_that_its_text_shows_is_refused() {
    let Some(lines) = corpus("sqlite_attacks.jsonl") else { return };
    let mut missed = Vec::new();
    for line in &lines {
        let must = matches!(line.expect.as_str(), "refuse" | "readonly");
        let beyond = BEYOND.iter().any(|(prefix, _)| line.id.starts_with(prefix));
        let refusal = verdict(line, Stages::ALL);
        if must && !beyond && refusal.is_none() {
            missed.push(format!("{}: {}", line.id, short(&line.sql)));
        }
        if line.expect == "readonly" {
            assert!(refusal.as_ref().is_some_and(|refusal| refusal.writes), "{}: {refusal:?}", line.id);
        }
        if let Some(refusal) = refusal {
            assert!(!refusal.message.is_empty(), "{}: {refusal:?}", line.id);
        }
    }
    assert!(missed.is_empty(), "accepted:\n{}", missed.join("\n"));
}

#[test]
fn each_part_stops_by_itself_what_could_leave_the_scope() {
    let Some(lines) = corpus("sqlite_attacks.jsonl") else { return };
    let mut table: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut missed = Vec::new();
    let both: BTreeSet<&str> = [
        "attach",
        "vacuum",
        "pragma",
        "pragma_tvf",
        "load_extension",
        "functions",
        "vtab",
        "txn",
        "schema_write",
        "multi",
        "deferred",
        "differential",
        "write_in_query",
    ]
    .into();
    for line in lines.iter().filter(|line| matches!(line.expect.as_str(), "refuse" | "readonly")) {
        let row = table.entry(line.category.as_str()).or_default();
        row[0] += 1;
        let gate = verdict(line, GATE);
        let tree = verdict(line, TREE);
        let gate = gate.is_some_and(|refusal| refusal.stage == Stage::Gate);
        let by = |stage: Stage| tree.as_ref().is_some_and(|refusal| refusal.stage == stage);
        row[1] += usize::from(gate);
        row[2] += usize::from(by(Stage::Grammar));
        row[3] += usize::from(by(Stage::Walk));
        let tree = by(Stage::Grammar) || by(Stage::Walk);
        if both.contains(line.category.as_str()) && !(gate && tree) {
            missed.push(format!("{} gate {gate} tree {tree}: {}", line.id, short(&line.sql)));
        }
    }
    println!("{:<18}{:>6}{:>6}{:>9}{:>6}", "refused of", "all", "gate", "grammar", "walk");
    for (category, [all, gate, grammar, walk]) in &table {
        println!("{category:<18}{all:>6}{gate:>6}{grammar:>9}{walk:>6}");
    }
    assert!(missed.is_empty(), "by one part only:\n{}", missed.join("\n"));
}

#[test]
fn every_legitimate_statement_is_accepted() {
    let Some(lines) = corpus("sqlite_legit.jsonl") else { return };
    let missed: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            verdict(line, Stages::ALL).map(|refusal| format!("{}: {refusal}\n  {}", line.id, line.sql))
        })
        .collect();
    println!("{} of {} accepted", lines.len() - missed.len(), lines.len());
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn nearly_every_public_statement_is_accepted() {
    let Some(lines) = corpus("sqlite_public_sample.jsonl.gz") else { return };
    let mut rules: BTreeMap<(Stage, &str), Vec<String>> = BTreeMap::new();
    for line in &lines {
        if let Some(refusal) = verdict(line, Stages::ALL) {
            rules
                .entry((refusal.stage, refusal.rule))
                .or_default()
                .push(format!("{refusal} | {}", short(&line.sql)));
        }
    }
    let refused: usize = rules.values().map(Vec::len).sum();
    println!("{} of {} accepted", lines.len() - refused, lines.len());
    for ((stage, rule), statements) in &rules {
        println!("{} {rule}: {}", stage.name(), statements.len());
        for statement in statements.iter().take(12) {
            println!("    {statement}");
        }
    }
    assert!(refused * 100 < lines.len() * 2, "{refused} refused");
}

fn short(sql: &str) -> String {
    sql.chars().take(160).collect()
}
