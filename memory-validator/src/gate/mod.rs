//! The gate: what is decided about a text before any parser sees it, from its tokens alone.
//!
//! It cuts the text as the engine's own lexer does, caps its shape, and checks what can be told from tokens: the
//! number of statements, the word a statement begins with, every name before a bracket, every name of a relation.
//! Linear in the text, without recursion.

pub(crate) mod characters;
pub(crate) mod depth_caps;
pub(crate) mod names;
mod postgres_keywords;
pub(crate) mod postgres_lexer;
mod postgres_names;
mod sqlite_keywords;
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

/// Cuts a text, at most as long as allowed.
///
/// # Errors
/// A text that no parser may see: it passes a cap.
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

/// Refuses what can be told from the tokens.
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

/// The refusal of a text that holds no statement.
pub(crate) fn empty(stage: Stage) -> Refusal {
    Refusal::new(stage, "empty", Position::of("", 0), "statement")
        .because("the text holds no statement")
        .instead("write one statement")
}

/// The refusal of a text with a second statement, which begins at a token.
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
