//! PostgreSQL statements of the shared corpus: attacks, legitimate ones, and those of public test suites.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use crate::support::{Line, corpus, section};
use memory_validator::{Dialect, Grammar, Mode, Policy, Stages, Validator, Verdict};

const STATEMENTS: &str = include_str!("../data/postgres_statements.txt");

/// The corpus's agent has its own schema.
fn policy(grammar: Grammar) -> Policy {
    let mut policy = Policy::new(Dialect::Postgres);
    policy.schemas.insert("s_a".to_owned());
    policy.grammar = grammar;
    policy
}

fn check(statement: &Line, grammar: Grammar, stages: Stages) -> Verdict {
    Validator::check_stages(&statement.sql, Dialect::Postgres, statement.mode, &policy(grammar), stages)
}

/// Attacks that one half alone lets through, and why that is right.
const BY_ONE_HALF: &[(&str, &str)] = &[
    (
        "pg-multi-015",
        "to the engine a comment and a stray operator: the gate sees no second statement, the grammar an error",
    ),
    (
        "pg-hidden_sql-021",
        "a sequence of others, named in a literal: the gate looks into it, and the engine's privileges",
    ),
];

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
        for attack in attacks.iter().filter(|attack| attack.expect == "readonly") {
            let refusal = check(attack, grammar, Stages::ALL).into_result().unwrap_err();
            assert!(refusal.writes, "{}: {refusal:?}", attack.id);
        }
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
        let mut missed = Vec::new();
        for attack in attacks.iter().filter(|attack| attack.expect == "refuse" || attack.expect == "readonly")
        {
            let count = counts.entry(&attack.category).or_default();
            count[0] += 1;
            for (place, stages) in [gate, walk, read].into_iter().enumerate() {
                let refused = !accepted(&check(attack, grammar, stages));
                count[place + 1] += usize::from(refused);
                if !refused && stages != walk && !BY_ONE_HALF.iter().any(|(id, _)| attack.id == *id) {
                    missed.push(format!("{} {stages:?} {:?}", attack.id, attack.sql));
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
        assert!(misses.len() * 100 <= statements.len(), "{grammar:?} refuses more than 1 %");
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

/// Calls that a list of names does not catch at first sight: attributes that are calls, texts that are statements,
/// names in every spelling.
#[test]
fn calls_in_disguise_are_refused() {
    for sql in &section(STATEMENTS, "calls in disguise") {
        for grammar in grammars() {
            for stages in [Stages::ALL, Stages { gate: true, grammar: false, walk: false }] {
                let verdict =
                    Validator::check_stages(sql, Dialect::Postgres, Mode::Query, &policy(grammar), stages);
                // The gate lets pass what only a tree shows.
                let structural = [
                    "WITH x AS (DELETE",
                    "EXPLAIN (ANALYZE)",
                    "SELECT d.",
                    "SELECT (d)",
                    "SELECT public",
                    "SELECT 1 OP",
                ];
                if stages == Stages::ALL || !structural.iter().any(|start| sql.starts_with(start)) {
                    assert!(!accepted(&verdict), "{grammar:?} {stages:?}: {sql}");
                }
            }
        }
    }
}

#[test]
fn kinds_and_relations_are_told() {
    use memory_validator::StatementKind as Kind;
    for (sql, kind, returning, relations) in [
        ("SELECT 1", Kind::Select, false, ""),
        ("SELECT * FROM a JOIN s_a.b USING (x)", Kind::Select, false, "a:Read s_a.b:Read"),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", Kind::Select, false, "a:Read"),
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r", Kind::Select, false, ""),
        ("INSERT INTO a SELECT * FROM b RETURNING x", Kind::Insert, true, "a:Write b:Read"),
        ("WITH n AS (SELECT 1) INSERT INTO a SELECT * FROM n", Kind::Insert, false, "a:Write"),
        ("WITH g AS (DELETE FROM a RETURNING *) SELECT * FROM g", Kind::Delete, true, "a:Write"),
        (
            "WITH g AS (DELETE FROM a RETURNING *) INSERT INTO b SELECT * FROM g",
            Kind::Insert,
            false,
            "b:Write a:Write",
        ),
        ("UPDATE a SET x = 1 FROM b WHERE a.y = b.y", Kind::Update, false, "a:Write b:Read"),
        ("DELETE FROM a USING b WHERE a.y = b.y", Kind::Delete, false, "a:Write b:Read"),
        ("TRUNCATE a, b", Kind::Truncate, false, "a:Write b:Write"),
        ("CREATE TABLE a (x int REFERENCES b(y))", Kind::CreateTable, false, "a:Define b:Read"),
        ("CREATE VIEW v AS SELECT * FROM a", Kind::CreateView, false, "v:Define a:Read"),
        ("CREATE INDEX i ON a (x)", Kind::CreateIndex, false, "a:Define"),
        ("DROP TABLE a, s_a.b", Kind::Drop, false, "a:Define s_a.b:Define"),
        ("ALTER TABLE a RENAME TO b", Kind::Alter, false, "a:Define"),
        ("COMMENT ON COLUMN a.x IS 'y'", Kind::Comment, false, "a:Define"),
        ("EXPLAIN SELECT * FROM a", Kind::Explain, false, "a:Read"),
    ] {
        for grammar in grammars() {
            let verdict = Validator::check(sql, Dialect::Postgres, Mode::Exec, &policy(grammar));
            let accepted =
                verdict.into_result().unwrap_or_else(|refusal| panic!("{grammar:?} {sql}: {refusal}"));
            assert_eq!((accepted.kind, accepted.returning), (kind, returning), "{grammar:?}: {sql}");
            let mut found: Vec<String> = accepted
                .relations
                .iter()
                .map(|relation| {
                    let schema =
                        relation.schema.as_ref().map(|schema| format!("{schema}.")).unwrap_or_default();
                    format!("{schema}{}:{:?}", relation.name, relation.access)
                })
                .collect();
            let mut expected: Vec<&str> = relations.split_whitespace().collect();
            found.sort();
            expected.sort_unstable();
            assert_eq!(found, expected, "{grammar:?}: {sql}");
        }
    }
}
