//! The gate: decisions about a text before any parser sees it, from its tokens alone.
//!
//! It tokenizes the text as the engine's own lexer does, caps its shape, and checks the number of statements, the first
//! word of a statement, every name before a bracket, and every name of a relation.
//! Linear in the text, without recursion.

pub(crate) mod characters;
pub(crate) mod depth_caps;
mod keywords;
pub(crate) mod names;
pub(crate) mod postgres_lexer;
mod postgres_names;
pub(crate) mod sqlite_lexer;
#[cfg(all(test, feature = "sqlite-grammar"))]
mod sqlite_lexer_tests;
mod sqlite_list_caps;
mod sqlite_names;
mod sqlite_statement;
pub(crate) mod token;

use crate::policy::{Dialect, Limits, Mode, Policy};
use crate::verdict::{Position, Refusal, Stage};
use token::{Kind, Lexed, Token};

/// Tokenizes a text, up to the allowed length.
///
/// # Errors
/// A text over a cap, which no parser may see.
pub(crate) fn lex<'a>(sql: &'a str, dialect: Dialect, limits: &Limits) -> Result<Lexed<'a>, Refusal> {
    if sql.len() > limits.bytes || u32::try_from(sql.len()).is_err() {
        return Err(Refusal::new(Stage::Gate, "too_long", Position::of(sql, 0), "statement")
            .because(format!("the text has {} bytes, {} are allowed", sql.len(), limits.bytes))
            .instead("pass large values as arguments, or split the work into several statements"));
    }
    let mut lexed = match dialect {
        Dialect::Sqlite => sqlite_lexer::lex(sql, limits),
        Dialect::Postgres => postgres_lexer::lex(sql, limits),
    };
    if let Some(over) = lexed.over.take() {
        return Err(over);
    }
    depth_caps::check(&lexed, limits)?;
    if dialect == Dialect::Sqlite {
        sqlite_list_caps::check(&lexed)?;
    }
    Ok(lexed)
}

/// Refuses what tokens alone reveal.
pub(crate) fn check(lexed: &Lexed<'_>, mode: Mode, policy: &Policy) -> Result<(), Refusal> {
    if let Some(fault) = &lexed.fault {
        return Err(fault.clone());
    }
    if lexed.tokens.iter().all(|token| token.kind == Kind::Semicolon) {
        return Err(empty(Stage::Gate));
    }
    match lexed.dialect {
        Dialect::Sqlite => sqlite_names::check(lexed, mode, policy),
        Dialect::Postgres => postgres_names::check(lexed, mode, policy),
    }
}

/// The refusal of an empty text.
pub(crate) fn empty(stage: Stage) -> Refusal {
    Refusal::new(stage, "empty", Position::of("", 0), "statement")
        .because("the text contains no statement")
        .instead("write one statement")
}

/// The refusal of a text with a second statement, starting at a token.
pub(crate) fn second(stage: Stage, lexed: &Lexed<'_>, next: Option<Token>) -> Refusal {
    let position = next.map(|token| lexed.position(token)).unwrap_or_default();
    let construct = next.map(|token| lexed.construct(token)).unwrap_or_default();
    Refusal::new(stage, "statement_count", position, construct)
        .because("a second statement follows")
        .instead("run one statement at a time")
}

/// The refusal of a token cap.
pub(crate) fn too_many_tokens(sql: &str, offset: usize, limits: &Limits) -> Refusal {
    Refusal::new(Stage::Gate, "too_long", Position::of(sql, offset), "statement")
        .because(format!("the text has more than {} tokens", limits.tokens))
        .instead("split the work into several statements")
}
