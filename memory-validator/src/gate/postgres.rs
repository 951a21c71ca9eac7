//! PostgreSQL's lexer.

use std::borrow::Cow;

use super::token::Lexed;
use crate::policy::{Dialect, Limits};
use crate::verdict::{Position, Refusal, Stage};

/// Cuts a text.
pub(crate) fn lex<'a>(sql: &'a str, limits: &Limits) -> Lexed<'a> {
    let _ = limits;
    let fault = Refusal::new(Stage::Gate, "dialect", Position::of(sql, 0), "PostgreSQL")
        .because("PostgreSQL is not served yet");
    Lexed {
        sql,
        dialect: Dialect::Postgres,
        tokens: Vec::new(),
        over: Some(fault.clone()),
        fault: Some(fault),
    }
}

/// The name that a token spells.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}
