//! SQLite statements of the shared corpus, read by the portable grammar.

use std::collections::BTreeMap;

use crate::support::{Line, corpus};
use memory_validator::{Dialect, Grammar, Policy, Refusal, Stages, Validator, Verdict};

/// Attacks that depend on what is stored, or on whose a table is: no text shows them. The authorizer and DEFENSIVE stop
/// them.
const BEYOND: &[&str] = &["sl-deferred_use-", "sl-shadow_write-"];

fn verdict(line: &Line, stages: Stages) -> Option<Refusal> {
    let mut policy = Policy::new(Dialect::Sqlite);
    policy.grammar = Grammar::Portable;
    Validator::check_stages(&line.sql, Dialect::Sqlite, line.mode, &policy, stages).into_result().err()
}

#[test]
fn every_attack_that_its_text_shows_is_refused() {
    let Some(lines) = corpus("sqlite_attacks.jsonl") else { return };
    let must = lines.iter().filter(|line| matches!(line.expect.as_str(), "refuse" | "readonly"));
    let must = must.filter(|line| !BEYOND.iter().any(|prefix| line.id.starts_with(prefix)));
    let missed: Vec<_> =
        must.filter(|line| verdict(line, Stages::ALL).is_none()).map(|line| (&line.id, &line.sql)).collect();
    assert!(missed.is_empty(), "accepted: {missed:#?}");
}

#[test]
fn without_the_gate_the_grammar_and_the_walk_refuse() {
    let Some(lines) = corpus("sqlite_attacks.jsonl") else { return };
    let mut passed: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut missed = Vec::new();
    for line in lines.iter().filter(|line| matches!(line.expect.as_str(), "refuse" | "readonly")) {
        let count = passed.entry(&line.category).or_default();
        count.0 += 1;
        if verdict(line, Stages { gate: false, grammar: true, walk: true }).is_some() {
            count.1 += 1;
        } else {
            missed.push(&line.id);
        }
    }
    println!("class: (attacks, refused): {passed:?}");
    missed.retain(|id| !BEYOND.iter().any(|prefix| id.starts_with(prefix)));
    assert!(missed.is_empty(), "accepted without the gate: {missed:?}");
}

#[test]
fn most_legitimate_statements_are_accepted() {
    let Some(lines) = corpus("sqlite_legit.jsonl") else { return };
    let mut misses = 0;
    for line in &lines {
        if let Some(refusal) = verdict(line, Stages::ALL) {
            misses += 1;
            println!("{} [{} {}] {refusal}\n    {:?}", line.id, refusal.stage.name(), refusal.rule, line.sql);
        }
    }
    println!("refused: {misses} of {}", lines.len());
    // sqlparser itself cannot read 6 % of them.
    assert!(misses * 100 <= 10 * lines.len(), "{misses} of {} are refused", lines.len());
}

#[test]
fn what_both_grammars_accept_they_describe_alike() {
    let Some(lines) = corpus("sqlite_legit.jsonl") else { return };
    for line in &lines {
        let engine = Validator::check(&line.sql, Dialect::Sqlite, line.mode, &Policy::new(Dialect::Sqlite));
        let mut policy = Policy::new(Dialect::Sqlite);
        policy.grammar = Grammar::Portable;
        let portable = Validator::check(&line.sql, Dialect::Sqlite, line.mode, &policy);
        if let (Verdict::Accepted(engine), Verdict::Accepted(portable)) = (engine, portable) {
            assert_eq!(engine.kind, portable.kind, "{}", line.sql);
            assert_eq!(engine.returning, portable.returning, "{}", line.sql);
        }
    }
}
