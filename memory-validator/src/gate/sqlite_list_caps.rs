//! Caps on lists of names: SQLite's grammar in Rust finds duplicates by comparing every pair.

use super::token::{Kind, Lexed, Token};
use crate::verdict::{Refusal, Stage};

/// Names in a list. SQLite allows a table 2,000 columns.
const NAMES: usize = 2_000;
/// Names in a list times bytes of the list, which bounds the bytes compared.
const WORK: usize = 200_000_000;

/// Names separated by commas, at one depth.
#[derive(Clone, Copy, Default)]
struct Run {
    names: usize,
    bytes: usize,
    after_comma: bool,
    /// Inside `IN (…)`, where values are never compared with each other.
    values: bool,
}

/// Refuses lists that are too long.
pub(crate) fn check(lexed: &Lexed<'_>) -> Result<(), Refusal> {
    let mut outer: Vec<Run> = Vec::new();
    let mut here = Run { after_comma: true, ..Run::default() };
    let mut before: Option<Token> = None;
    let creates = super::sqlite_statement::creates_table(lexed);
    let mut columns = 0usize;
    for (index, token) in lexed.tokens.iter().copied().enumerate() {
        match token.kind {
            Kind::Open => {
                let values = index > 0 && lexed.is_word(index - 1, "in");
                outer.push(here);
                here = Run { values, after_comma: true, ..Run::default() };
            }
            Kind::Close => {
                here = outer.pop().unwrap_or_default();
                here.after_comma = false;
            }
            Kind::Comma => {
                if creates && outer.len() == 1 {
                    columns += 1;
                    if columns >= NAMES || columns.saturating_mul(lexed.sql.len()) > WORK {
                        return Err(refusal(lexed, token));
                    }
                }
                if !single(before) {
                    here = Run { values: here.values, ..Run::default() };
                }
                here.after_comma = true;
            }
            Kind::Text | Kind::Quoted | Kind::Word if here.after_comma => {
                here.after_comma = false;
                here.names += 1;
                here.bytes += usize::try_from(token.end.saturating_sub(token.start)).unwrap_or(usize::MAX);
                let listed = here.names > NAMES || here.names.saturating_mul(here.bytes) > WORK;
                if listed && !(here.values && token.kind == Kind::Text) {
                    return Err(refusal(lexed, token));
                }
            }
            _ => here.after_comma = false,
        }
        before = Some(token);
    }
    Ok(())
}

/// Whether a list may go on after this token: a name, or the end of one.
fn single(before: Option<Token>) -> bool {
    before.is_some_and(|token| matches!(token.kind, Kind::Text | Kind::Quoted | Kind::Word))
}

fn refusal(lexed: &Lexed<'_>, token: Token) -> Refusal {
    Refusal::new(Stage::Gate, "too_long", lexed.position(token), "list of names")
        .because(format!("a list has more than {NAMES} names, or names that are too long"))
        .instead("pass values as arguments, or in rows of `VALUES`")
}
