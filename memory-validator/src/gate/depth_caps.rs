//! Caps on the shape of a text, so that no parser recurses, builds or drops too deep a tree. One pass over the tokens,
//! with memory that grows with the capped depth.

use super::token::{Kind, Lexed, Role, Token};
use crate::policy::Limits;
use crate::verdict::{Refusal, Stage};

/// Adjacent names and literals, as in a type name. Parsers join such names, with quadratic work.
const NAMES_IN_A_ROW: usize = 64;

/// The most that the stack of parsers and walks can take, whatever the policy says.
const DEEPEST: usize = 256;
const LONGEST: usize = 1_000;

/// What is counted inside a bracket.
#[derive(Clone, Copy, Default)]
struct Level {
    case: bool,
    operators: usize,
    compounds: usize,
}

/// Refuses what is nested too deeply or chained too long.
pub(crate) fn check(lexed: &Lexed<'_>, limits: &Limits) -> Result<(), Refusal> {
    let limits =
        &Limits { depth: limits.depth.min(DEEPEST), chain: limits.chain.min(LONGEST), ..limits.clone() };
    let mut outer: Vec<Level> = Vec::new();
    let mut here = Level::default();
    let mut row = 0usize;
    let mut before: Option<Token> = None;
    for token in lexed.tokens.iter().copied() {
        row = match token.kind {
            Kind::Quoted | Kind::Text => row + 1,
            Kind::Word if token.may_name() => row + 1,
            _ => 0,
        };
        if row > NAMES_IN_A_ROW {
            return Err(long(lexed, token, "more than 64 names in a row"));
        }
        match token.kind {
            Kind::Open => open(lexed, token, &mut outer, &mut here, limits, false)?,
            Kind::Close => close(&mut outer, &mut here),
            Kind::Comma => here.operators = 0,
            Kind::Semicolon => (here.operators, here.compounds) = (0, 0),
            Kind::Operator => here.operators += 1,
            Kind::Word => match token.role {
                Role::Operator | Role::SoftOperator => here.operators += 1,
                Role::Compound => (here.operators, here.compounds) = (0, here.compounds + 1),
                Role::Clause => here.operators = 0,
                Role::Case => open(lexed, token, &mut outer, &mut here, limits, true)?,
                Role::End if here.case && ends_value(before) => {
                    here = outer.pop().unwrap_or_default();
                }
                Role::End | Role::None | Role::Soft | Role::Hard => {}
            },
            _ => {}
        }
        if here.operators > limits.chain {
            return Err(long(lexed, token, &format!("more than {} operators in a row", limits.chain)));
        }
        if here.compounds > limits.chain {
            return Err(long(
                lexed,
                token,
                &format!("more than {} queries or tables are joined", limits.chain),
            ));
        }
        before = Some(token);
    }
    Ok(())
}

/// Whether a `CASE` may end after this token: not where a value must follow, so that `END` is a name.
fn ends_value(before: Option<Token>) -> bool {
    before.is_some_and(|token| match token.kind {
        Kind::Operator | Kind::Open | Kind::Comma | Kind::Dot | Kind::Semicolon => false,
        Kind::Word => matches!(token.role, Role::None | Role::Soft | Role::Hard | Role::End),
        _ => true,
    })
}

fn open(
    lexed: &Lexed<'_>,
    token: Token,
    outer: &mut Vec<Level>,
    here: &mut Level,
    limits: &Limits,
    case: bool,
) -> Result<(), Refusal> {
    if outer.len() >= limits.depth {
        return Err(Refusal::new(Stage::Gate, "too_deep", lexed.position(token), lexed.construct(token))
            .because(format!("brackets and `CASE` are nested more than {} deep", limits.depth))
            .instead("name the inner parts with `WITH` and refer to them"));
    }
    outer.push(*here);
    *here = Level { case, ..Level::default() };
    Ok(())
}

/// Closes a bracket, and every `CASE` left open inside it.
fn close(outer: &mut Vec<Level>, here: &mut Level) {
    while here.case {
        *here = outer.pop().unwrap_or_default();
    }
    *here = outer.pop().unwrap_or_default();
}

fn long(lexed: &Lexed<'_>, token: Token, why: &str) -> Refusal {
    Refusal::new(Stage::Gate, "too_long", lexed.position(token), lexed.construct(token))
        .because(why)
        .instead("use a list (`IN (…)`, rows of `VALUES`), a table of values, or several statements")
}
