//! What PostgreSQL's users write and sqlparser cannot read: the portable grammar still decides about it as the engine's
//! own does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use memory_validator::{Access, Dialect, Grammar, Mode, Policy, StatementKind, Validator, Verdict};

use crate::support::section;

const STATEMENTS: &str = include_str!("../data/postgres_statements.txt");

fn grammars() -> Vec<Grammar> {
    let mut grammars = vec![Grammar::Portable];
    if cfg!(feature = "pg-grammar") {
        grammars.push(Grammar::Engine);
    }
    grammars
}

fn check(sql: &str, mode: Mode, grammar: Grammar) -> Verdict {
    let mut policy = Policy::new(Dialect::Postgres);
    policy.grammar = grammar;
    Validator::check(sql, Dialect::Postgres, mode, &policy)
}

#[test]
fn definitions_in_the_engine_s_own_words_are_accepted() {
    for sql in &section(STATEMENTS, "definitions") {
        accepted(sql, Mode::Exec);
    }
}

/// One statement for each class of syntax that the manual describes and sqlparser lacks.
#[test]
fn classes_of_the_engine_s_syntax_are_accepted() {
    for line in crate::support::lines(include_str!("../data/postgres_classes.jsonl")) {
        accepted(&line.sql, line.mode);
    }
}

#[test]
fn a_refusal_after_a_phrase_read_otherwise_tells_its_place() {
    for (sql, construct, column) in [
        ("SELECT (a ISNULL), trim(both 'x' from b) FROM s_b.t", "s_b.t", 47),
        ("SELECT inet '10.0.0.1' <<= b FROM t WHERE c ISNULL AND s_b.x.y.z IS NULL FROM", "FROM", 74),
    ] {
        let refusal = check(sql, Mode::Query, Grammar::Portable).into_result().unwrap_err();
        assert_eq!((refusal.construct.as_str(), refusal.position.column), (construct, column), "{refusal}");
    }
}

#[test]
fn changes_in_the_engine_s_own_words_are_accepted() {
    for sql in &section(STATEMENTS, "changes") {
        accepted(sql, Mode::Exec);
    }
}

#[test]
fn queries_in_the_engine_s_own_words_are_accepted() {
    for sql in &section(STATEMENTS, "queries") {
        accepted(sql, Mode::Query);
    }
}

fn accepted(sql: &str, mode: Mode) {
    for grammar in grammars() {
        if let Verdict::Refused(refusal) = check(sql, mode, grammar) {
            panic!("{grammar:?}: {refusal}: {sql}");
        }
    }
}

/// Text that is skipped or read from tokens hides nothing.
#[test]
fn what_must_be_refused_is_refused_in_those_words_too() {
    for sql in &section(STATEMENTS, "refused") {
        for grammar in grammars() {
            for mode in [Mode::Exec, Mode::Query] {
                let verdict = check(sql, mode, grammar);
                assert!(matches!(verdict, Verdict::Refused(_)), "{grammar:?} {mode:?} accepts {sql}");
            }
        }
    }
}

#[test]
fn a_query_does_not_move_a_sequence_on() {
    for grammar in grammars() {
        for sql in ["SELECT nextval('s')", "SELECT setval('s', 5)"] {
            let refusal = check(sql, Mode::Query, grammar).into_result().unwrap_err();
            assert!(refusal.writes, "{grammar:?}: {refusal}");
            assert!(check(sql, Mode::Exec, grammar).into_result().is_ok(), "{grammar:?}: {sql}");
        }
        assert!(check("SELECT currval('s')", Mode::Query, grammar).into_result().is_ok());
    }
}

#[test]
fn short_statements_tell_what_they_touch() {
    for grammar in grammars() {
        for (sql, kind, relation, access) in [
            ("TABLE a", StatementKind::Select, "a", Access::Read),
            ("REFRESH MATERIALIZED VIEW \"V\"", StatementKind::Refresh, "V", Access::Define),
            ("ALTER SEQUENCE S RESTART", StatementKind::Alter, "s", Access::Define),
            ("ALTER VIEW v RENAME TO w", StatementKind::Alter, "v", Access::Define),
        ] {
            let accepted = check(sql, Mode::Exec, grammar).into_result().unwrap();
            assert_eq!(accepted.kind, kind, "{grammar:?}: {sql}");
            let first = &accepted.relations[0];
            assert_eq!((first.name.as_str(), first.access), (relation, access), "{grammar:?}: {sql}");
        }
    }
}
