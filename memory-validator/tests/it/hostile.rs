//! Texts made to break a parser: deep, long, chained. They are refused or read, and nothing aborts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::time::{Duration, Instant};

use memory_validator::{Dialect, Grammar, Mode, Policy, Stages, Validator, Verdict};
use proptest::prelude::*;

const WALK: Stages = Stages { gate: false, grammar: true, walk: true };

/// Checks it with every grammar of every dialect, with and without the gate: the caps hold in both cases.
fn survives(sql: &str) -> Vec<bool> {
    let mut accepted = Vec::new();
    for (dialect, grammar) in [
        (Dialect::Postgres, Grammar::Portable),
        (Dialect::Postgres, Grammar::Engine),
        (Dialect::Sqlite, Grammar::Portable),
    ] {
        let mut policy = Policy::new(dialect);
        policy.grammar = grammar;
        for stages in [Stages::ALL, WALK] {
            let started = Instant::now();
            let verdict = Validator::check_stages(sql, dialect, Mode::Query, &policy, stages);
            let took = started.elapsed();
            assert!(took < Duration::from_secs(20), "{took:?} for {} bytes: {:.60}", sql.len(), sql);
            if let Verdict::Refused(refusal) = &verdict {
                assert_ne!(refusal.rule, "thread", "{sql:.60}");
            }
            accepted.push(matches!(verdict, Verdict::Accepted(_)));
        }
    }
    accepted
}

#[test]
fn what_is_nested_or_chained_beyond_every_cap_is_refused() {
    for (before, piece, middle, after) in [
        ("SELECT ", "(", "1", ")"),
        ("SELECT ", "1+", "1", ""),
        ("SELECT ", "NOT ", "1", ""),
        ("SELECT ", "- ", "1", ""),
        ("SELECT ", "abs(", "1", ")"),
        ("SELECT ", "CASE WHEN ", "1", " THEN 1 END"),
        ("SELECT ", "INTERVAL ", "'1'", ""),
        ("SELECT 1", " IS NULL", "", ""),
        ("SELECT 1", "::int", "", ""),
        ("SELECT 'a'", " COLLATE \"C\"", "", ""),
        ("SELECT now()", " AT TIME ZONE 'UTC'", "", ""),
        ("SELECT 1", " IN (1)", "", ""),
        ("SELECT 1", " BETWEEN 1 AND 2", "", ""),
        ("SELECT 'a'", " LIKE 'a'", "", ""),
        ("SELECT a", "[1]", "", ""),
        ("SELECT a", ".b", "", ""),
        ("SELECT 1", " UNION SELECT 1", "", ""),
        ("SELECT * FROM a", " JOIN a", "", ""),
        ("SELECT * FROM ", "(SELECT * FROM ", "a", ")"),
        ("", "EXPLAIN ", "SELECT 1", ""),
        ("", "WITH a AS (", "SELECT 1", ") SELECT 1"),
        ("SELECT ", "ARRAY[", "1", "]"),
        ("SELECT CAST(1 AS ", "int[", "", "])"),
        ("SELECT 'a'", " GLOB 'a'", "", ""),
        ("SELECT 1 ", "ISNULL ", "", ""),
        ("/*", "/*", "", "*/"),
    ] {
        for times in [70, 30_000] {
            let sql = format!("{before}{}{middle}{}", piece.repeat(times), after.repeat(times));
            let accepted = survives(&sql);
            // `a.b.b…` is a list in the tree, and just a name that nobody has.
            if times > 70 {
                assert!(
                    accepted.iter().all(|accepted| !accepted) || piece == ".b" || piece == "[1]",
                    "{sql:.60}"
                );
            }
        }
    }
}

/// The highest trees that the caps allow, at their widest: chains inside chains.
#[test]
fn the_highest_tree_that_is_allowed_is_read_and_dropped() {
    for chain in [45, 500, 999] {
        for depth in [1, 3, 20, 63] {
            let mut sql = "1".to_owned();
            for _ in 0..depth {
                sql = format!("({sql}){}", "+1".repeat(chain));
            }
            survives(&format!("SELECT {sql}"));
        }
    }
    for times in [2_900, 3_000, 3_100] {
        survives(&format!("SELECT 1{}", " IN (1)".repeat(times.min(990))));
        survives(&format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(times.min(990))));
        survives(&format!("SELECT a{}", "[1]".repeat(times)));
    }
}

#[test]
fn a_long_list_is_no_deep_tree() {
    let rows = vec!["(1, 'x', now())"; 15_000].join(", ");
    for grammar in [Grammar::Portable, Grammar::Engine] {
        let mut policy = Policy::new(Dialect::Postgres);
        policy.grammar = grammar;
        let sql = format!("INSERT INTO notes (a, b, c) VALUES {rows}");
        let verdict = Validator::check(&sql, Dialect::Postgres, Mode::Exec, &policy);
        assert!(matches!(verdict, Verdict::Accepted(_)), "{grammar:?}: {verdict:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_decided_about(sql in "\\PC{0,200}") {
        survives(&sql);
    }

    #[test]
    fn any_row_of_tokens_is_decided_about(
        words in proptest::collection::vec(
            prop_oneof![
                Just("SELECT"), Just("FROM"), Just("("), Just(")"), Just("["), Just("]"), Just(","), Just("a"), Just("\"b\""),
                Just("'c'"), Just("$$"), Just("$1"), Just("?"), Just("--"), Just("/*"), Just("*/"), Just("\n"), Just("WITH"),
                Just("AS"), Just("INSERT INTO"), Just("VALUES"), Just("::"), Just("1"), Just("CASE"), Just("WHEN"), Just("END"),
                Just("JOIN"), Just("ON"), Just("E'\\'"), Just("U&\""), Just("CREATE TABLE"), Just("ALTER TABLE"), Just(";"),
                Just("IN"), Just("NOT"), Just("+"), Just("<"), Just("INTERVAL"), Just("ARRAY"), Just("OVER"), Just("."),
            ],
            0..60,
        )
    ) {
        survives(&words.join(" "));
    }

    #[test]
    fn what_stands_in_a_literal_never_matters(text in "[^\\\\]{0,80}", tag in "[a-z]{1,4}") {
        let quoted = text.replace('\0', "").replace('\'', "''");
        for grammar in [Grammar::Portable, Grammar::Engine] {
            let mut policy = Policy::new(Dialect::Postgres);
            policy.grammar = grammar;
            let mut literals = vec![format!("'{quoted}'"), format!("E'{quoted}'")];
            if !text.contains(&format!("${tag}$")) && !text.contains('\0') && !text.ends_with('$') {
                literals.push(format!("${tag}${text}${tag}$"));
            }
            for literal in literals {
                let sql = format!("SELECT {literal} AS a, upper({literal}) FROM notes WHERE body <> {literal}");
                let verdict = Validator::check(&sql, Dialect::Postgres, Mode::Query, &policy);
                prop_assert!(matches!(verdict, Verdict::Accepted(_)), "{:?} {}: {:?}", grammar, sql, verdict);
            }
        }
    }
}
