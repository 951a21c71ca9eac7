//! PostgreSQL statements of the shared corpus: attacks, legitimate ones, and those of public test suites.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::BTreeMap;

use memory_validator::{Dialect, Grammar, Policy, Stages, Validator, Verdict};
use support::{Line, corpus};

/// The agent of the corpus has a schema of its own.
fn policy(grammar: Grammar) -> Policy {
    let mut policy = Policy::new(Dialect::Postgres);
    policy.schemas.insert("s_a".to_owned());
    policy.grammar = grammar;
    policy
}

fn check(statement: &Line, grammar: Grammar, stages: Stages) -> Verdict {
    Validator::check_stages(&statement.sql, Dialect::Postgres, statement.mode, &policy(grammar), stages)
}

fn grammars() -> Vec<Grammar> {
    let mut grammars = vec![Grammar::Portable];
    if cfg!(feature = "pg-grammar") {
        grammars.push(Grammar::Engine);
    }
    grammars
}

fn accepted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Accepted(_))
}

#[test]
fn every_attack_that_must_be_refused_is_refused() {
    let Some(attacks) = corpus("postgres_attacks.jsonl") else { return };
    for grammar in grammars() {
        let passed: Vec<_> = attacks
            .iter()
            .filter(|attack| attack.expect == "refuse" || attack.expect == "readonly")
            .filter(|attack| accepted(&check(attack, grammar, Stages::ALL)))
            .map(|attack| format!("{} {:?}", attack.id, attack.sql))
            .collect();
        assert!(passed.is_empty(), "{grammar:?} accepts\n{}", passed.join("\n"));
    }
}

#[test]
fn each_stage_refuses_by_itself() {
    let Some(attacks) = corpus("postgres_attacks.jsonl") else { return };
    let gate = Stages { gate: true, grammar: false, walk: false };
    let walk = Stages { gate: false, grammar: false, walk: true };
    let read = Stages { gate: false, grammar: true, walk: true };
    for grammar in grammars() {
        let mut counts: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
        for attack in attacks.iter().filter(|attack| attack.expect == "refuse" || attack.expect == "readonly")
        {
            let count = counts.entry(&attack.category).or_default();
            count[0] += 1;
            for (place, stages) in [gate, walk, read].into_iter().enumerate() {
                let refused = !accepted(&check(attack, grammar, stages));
                count[place + 1] += usize::from(refused);
                if !refused && std::env::var_os("MEMORY_VERBOSE").is_some() {
                    println!("{} passes {stages:?}: {:?}", attack.id, attack.sql);
                }
            }
        }
        println!(
            "{grammar:?}: class, attacks, refused by the gate alone, by the walk alone, by grammar and walk"
        );
        for (category, [all, gate, walk, read]) in counts {
            println!("  {category:14} {all:3} {gate:3} {walk:3} {read:3}");
        }
    }
}

#[test]
fn legitimate_statements_are_accepted() {
    let Some(statements) = corpus("postgres_legit.jsonl") else { return };
    for grammar in grammars() {
        let mut misses = Vec::new();
        for statement in &statements {
            if let Verdict::Refused(refusal) = check(statement, grammar, Stages::ALL) {
                let (stage, rule) = (refusal.stage.name(), refusal.rule);
                misses.push(format!("{} [{stage} {rule}] {refusal}\n    {:?}", statement.id, statement.sql));
            }
        }
        println!("{grammar:?} refuses {} of {}:\n{}", misses.len(), statements.len(), misses.join("\n"));
        let most = if grammar == Grammar::Engine { 1 } else { 12 };
        assert!(misses.len() * 100 <= most * statements.len(), "{grammar:?} refuses more than {most} %");
    }
}

#[test]
fn public_statements_are_decided_about() {
    let Some(statements) = corpus("postgres_public_sample.jsonl.gz") else { return };
    for grammar in grammars() {
        let mut rules: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for statement in &statements {
            if let Verdict::Refused(refusal) = check(statement, grammar, Stages::ALL) {
                if std::env::var_os("MEMORY_VERBOSE").is_some() {
                    println!("{} {} {refusal}: {:?}", refusal.stage.name(), refusal.rule, statement.sql);
                }
                *rules.entry((refusal.stage.name(), refusal.rule)).or_default() += 1;
            }
        }
        let refused: usize = rules.values().sum();
        println!(
            "{grammar:?} accepts {} of {}; refuses {rules:?}",
            statements.len() - refused,
            statements.len()
        );
    }
}
