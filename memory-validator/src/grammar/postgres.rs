//! PostgreSQL's own grammar.

use super::flat_tree::Tree;
use super::tree_height;
use crate::gate;
use crate::gate::token::{Kind, Lexed};
use crate::policy::{Mode, Policy};
use crate::stages::Stages;
use crate::verdict::{Accepted, Position, Refusal, Stage, StatementKind};
use crate::walk;

/// Parses and walks.
pub(crate) fn judge(
    lexed: &Lexed<'_>,
    mode: Mode,
    policy: &Policy,
    stages: Stages,
) -> Result<Accepted, Refusal> {
    tree_height::check(lexed)?;
    let tree = {
        let parsed = pg_query::parse(lexed.sql, 0).map_err(|error| failed(lexed, &error))?;
        match parsed.protobuf.stmts.as_slice() {
            [] => return Err(gate::empty(Stage::Grammar)),
            [_] => {}
            [_, second, ..] => {
                let next = lexed
                    .tokens
                    .iter()
                    .find(|token| i64::from(token.start) >= i64::from(second.stmt_location));
                return Err(gate::second(Stage::Grammar, lexed, next.copied()));
            }
        }
        Tree::of(&parsed.protobuf).map_err(|_| unreadable(lexed))?
    };
    if stages.walk {
        walk::postgres::walk(lexed, &tree, mode, policy)
    } else {
        Ok(Accepted::new(StatementKind::Select))
    }
}

fn failed(lexed: &Lexed<'_>, error: &pg_query::Error) -> Refusal {
    match error {
        pg_query::Error::Parse(message) => syntax(lexed, message),
        pg_query::Error::Decode(_) => {
            Refusal::new(Stage::Grammar, "too_deep", Position::of(lexed.sql, 0), "statement")
                .because(
                    "its expressions or queries are nested too deeply, or it has too many operators in a row",
                )
                .instead("name the inner parts with `WITH`, or put brackets around halves of a long sum")
        }
        _ => unreadable(lexed),
    }
}

/// The message quotes the text; only the place is used.
fn syntax(lexed: &Lexed<'_>, message: &str) -> Refusal {
    let near = message.rsplit_once(" at or near \"").and_then(|(_, near)| near.strip_suffix('"'));
    let mut found = lexed.tokens.iter().filter(|token| Some(lexed.text(**token)) == near);
    let token = match (found.next(), found.next()) {
        (Some(token), None) => Some(*token),
        _ => None,
    };
    let construct = match token {
        Some(token) if matches!(token.kind, Kind::Text | Kind::Blob | Kind::Number | Kind::Illegal) => {
            "literal"
        }
        Some(token) => lexed.text(token),
        None if message.ends_with("at end of input") => "end of the text",
        None => "statement",
    };
    let position = token.map_or_else(|| Position::of(lexed.sql, 0), |token| lexed.position(token));
    Refusal::new(Stage::Grammar, "syntax", position, construct.chars().take(32).collect::<String>())
        .because("this is not valid PostgreSQL syntax")
        .instead("check the text here and before it")
}

fn unreadable(lexed: &Lexed<'_>) -> Refusal {
    Refusal::new(Stage::Grammar, "parser", Position::of(lexed.sql, 0), "statement")
        .because("its syntax tree cannot be read")
        .instead("write it in another way")
}
