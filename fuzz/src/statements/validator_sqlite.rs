//! SQLite statements, by the engine's own grammar: any text gets a decision, always the same, which does not depend on
//! the contents of literals, comments or white space.
//!
//! A leading `!` selects the mode: a query instead of a statement that may write.

use memory_validator::{Access, Accepted, Dialect, Mode, Policy, Stages, Validator, Verdict, lab};

/// Tries one text.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (mode, sql) = match text.strip_prefix('!') {
        Some(rest) => (Mode::Query, rest),
        None => (Mode::Exec, text.as_ref()),
    };
    let policy = Policy::new(Dialect::Sqlite);
    let verdict = decide(sql, mode, &policy);
    assert_eq!(verdict, decide(sql, mode, &policy), "{sql}");
    match verdict {
        Verdict::Accepted(accepted) => {
            sound(sql, mode, &policy, &accepted);
            parts(sql, mode, &policy, &accepted);
            for other in [spaced(sql), respelled(sql)] {
                if other.len() <= policy.limits.bytes {
                    assert_eq!(decide(&other, mode, &policy), Verdict::Accepted(accepted.clone()), "{sql}\n{other}");
                }
            }
            let values = revalued(sql);
            assert_eq!(decide(&values, mode, &policy), Verdict::Accepted(accepted), "{sql}\n{values}");
        }
        Verdict::Refused(refusal) => {
            assert!(sql.is_char_boundary(refusal.position.offset), "{refusal:?}");
            assert!(!refusal.message.is_empty() && !refusal.rule.is_empty(), "{refusal:?}");
            assert!(refusal.construct.chars().count() <= 96, "{refusal:?}");
            assert_ne!(refusal.rule, "parser", "the parser failed on {sql}");
        }
    }
}

fn decide(sql: &str, mode: Mode, policy: &Policy) -> Verdict {
    Validator::check_here(sql, Dialect::Sqlite, mode, policy)
}

/// A query only reads, and no internal object is touched that is not on the lists.
fn sound(sql: &str, mode: Mode, policy: &Policy, accepted: &Accepted) {
    assert!(mode == Mode::Exec || accepted.kind.reads_only(), "{sql} is a query: {accepted:?}");
    for relation in &accepted.relations {
        let name = relation.name.as_str();
        if relation.access == Access::Read {
            assert!(policy.may_read(name), "{sql} reads {name}");
        } else {
            assert!(!policy.is_reserved(name) && !accepted.kind.reads_only(), "{sql} changes {name}");
        }
        assert!(relation.schema.as_deref().is_none_or(|schema| policy.knows_schema(schema)), "{sql}");
    }
}

/// A subset of the stages accepts what all of them accept.
fn parts(sql: &str, mode: Mode, policy: &Policy, accepted: &Accepted) {
    let tree = Stages { gate: false, grammar: true, walk: true };
    assert_eq!(lab::check_here(sql, Dialect::Sqlite, mode, policy, tree), Verdict::Accepted(accepted.clone()), "{sql}");
    let gate = Stages { gate: true, grammar: false, walk: false };
    assert!(matches!(lab::check_here(sql, Dialect::Sqlite, mode, policy, gate), Verdict::Accepted(_)), "{sql}");
}

/// White space and comments around it.
fn spaced(sql: &str) -> String {
    format!(" /* DROP TABLE x; ' */\n{sql}\n-- ; DELETE FROM y '\n")
}

/// Bare words in upper case, with a comment after each token. Arguments of virtual tables keep their spelling.
fn respelled(sql: &str) -> String {
    if makes_virtual(sql) {
        return sql.to_owned();
    }
    let mut text = String::new();
    for (start, end, kind) in lab::tokens(sql, Dialect::Sqlite) {
        let token = &sql[start..end];
        text.push_str(&if kind == "word" { token.to_ascii_uppercase() } else { token.to_owned() });
        text.push_str("/*;*/ ");
    }
    text
}

/// Other contents in the literals after an operator, which are values.
fn revalued(sql: &str) -> String {
    if makes_virtual(sql) {
        return sql.to_owned();
    }
    let mut text = sql.as_bytes().to_vec();
    let tokens = lab::tokens(sql, Dialect::Sqlite);
    for pair in tokens.windows(2) {
        if let [(_, _, "operator"), (start, end, "text")] = pair {
            for byte in &mut text[*start..*end] {
                if byte.is_ascii() && *byte != b'\'' {
                    *byte = b';';
                }
            }
        }
    }
    String::from_utf8(text).expect("letters of ASCII for letters of ASCII")
}

fn makes_virtual(sql: &str) -> bool {
    sql.to_ascii_lowercase().contains("virtual")
}
