//! PostgreSQL statements: any text gets a decision from every grammar, and the decision does not depend on the contents
//! of literals, comments or white space.
//!
//! A leading `!` selects the mode: a query instead of a statement that may write.

use memory_validator::{Dialect, Grammar, Mode, Policy, Stage, Stages, Validator, Verdict};

/// Tries one text.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (mode, sql) = match text.strip_prefix('!') {
        Some(rest) => (Mode::Query, rest),
        None => (Mode::Exec, text.as_ref()),
    };
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let mut policy = Policy::new(dialect);
        policy.grammar = Grammar::Portable;
        let verdict = Validator::check(sql, dialect, mode, &policy);
        told(sql, mode, &verdict);
        // Each stage alone accepts at least as much.
        let walk = Stages { gate: false, grammar: true, walk: true };
        if let Verdict::Accepted(whole) = &verdict {
            match Validator::check_stages(sql, dialect, mode, &policy, walk) {
                Verdict::Accepted(alone) => assert_eq!(whole, &alone, "{sql}"),
                Verdict::Refused(refusal) => panic!("accepted whole and refused in part: {sql}: {refusal}"),
            }
            spaced(sql, dialect, mode, &policy);
        }
    }
}

/// A refusal has a place and a reason, and an accepted query only reads.
fn told(sql: &str, mode: Mode, verdict: &Verdict) {
    match verdict {
        Verdict::Accepted(accepted) => {
            assert!(mode == Mode::Exec || accepted.kind.reads_only(), "{sql} is a query: {accepted:?}");
        }
        Verdict::Refused(refusal) => {
            assert!(refusal.position.offset <= sql.len(), "{refusal:?}");
            assert!(sql.is_char_boundary(refusal.position.offset), "{refusal:?}");
            assert!(!refusal.message.is_empty() && !refusal.rule.is_empty(), "{refusal:?}");
            assert!(refusal.construct.chars().count() <= 96, "{refusal:?}");
            assert_ne!(refusal.rule, "parser", "a parser failed on {sql}: {refusal:?}");
            assert!(matches!(refusal.stage, Stage::Gate | Stage::Grammar | Stage::Walk));
        }
    }
}

/// White space and comments around a statement change nothing.
fn spaced(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy) {
    let wider = format!(" /* DROP TABLE x; ' */\n{sql}\n-- ; DELETE FROM y '\n");
    if wider.len() > policy.limits.bytes {
        return;
    }
    match Validator::check(&wider, dialect, mode, policy) {
        Verdict::Accepted(_) => {}
        Verdict::Refused(refusal) => panic!("{sql} is refused with comments around it: {refusal}"),
    }
}
