//! SQLite's own grammar. Its tree lives in an arena, so that it is not dropped recursively, and the parser's stack is
//! on the heap.

use std::cell::Cell;

use sqlite3_parser::lexer::sql::{Error, Parser};
use sqlite3_parser::{Bump, FallibleIterator};

use super::sqlite_insert_rows;
use crate::gate::token::{Kind, Lexed};
use crate::gate::{empty, second};
use crate::policy::{Mode, Policy};
use crate::stages::Stages;
use crate::verdict::{Accepted, Position, Refusal, Stage, StatementKind};
use crate::walk;

/// Limit in bytes for an arena that is kept for reuse.
const KEPT: usize = 1 << 20;

thread_local! {
    static SPARE: Cell<Option<Bump>> = const { Cell::new(None) };
}

/// The arena of a statement: the thread's spare one, to avoid an allocation per statement.
struct Arena(Option<Bump>);

impl Arena {
    fn take() -> Self {
        Self(Some(SPARE.take().unwrap_or_default()))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let Some(mut bump) = self.0.take() else { return };
        bump.reset();
        if bump.allocated_bytes() <= KEPT {
            SPARE.set(Some(bump));
        }
    }
}

/// Parses and walks.
pub(crate) fn judge(
    lexed: &Lexed<'_>,
    mode: Mode,
    policy: &Policy,
    stages: Stages,
) -> Result<Accepted, Refusal> {
    // After the last token the engine sees only space and comments, including an unclosed comment, which the parser
    // does not accept.
    let end = lexed.tokens.last().map_or(0, |token| token.end);
    let text = lexed.sql.get(..usize::try_from(end).unwrap_or(0)).unwrap_or_default();
    // A refusal refers to the original text.
    if let Some(short) = sqlite_insert_rows::with_one_row(lexed, text)
        && let Ok(accepted) = read(lexed, &short, mode, policy, stages)
    {
        return Ok(accepted);
    }
    read(lexed, text, mode, policy, stages)
}

fn read(
    lexed: &Lexed<'_>,
    text: &str,
    mode: Mode,
    policy: &Policy,
    stages: Stages,
) -> Result<Accepted, Refusal> {
    let arena = Arena::take();
    let Some(bump) = arena.0.as_ref() else { return Err(empty(Stage::Grammar)) };
    let mut parser = Parser::new(bump, text.as_bytes());
    let command = match parser.next() {
        Ok(Some(command)) => command,
        Ok(None) => return Err(empty(Stage::Grammar)),
        Err(error) => return Err(syntax(lexed, &error)),
    };
    match parser.next() {
        Ok(None) => {}
        Ok(Some(_)) | Err(_) => return Err(after(lexed)),
    }
    if stages.walk {
        walk::sqlite::check(lexed, &command, mode, policy)
    } else {
        // Only reached when stages are tried alone.
        Ok(Accepted::new(walk::sqlite::kind(&command).unwrap_or(StatementKind::Select)))
    }
}

/// The refusal of text after the first statement.
fn after(lexed: &Lexed<'_>) -> Refusal {
    let semicolon = lexed.tokens.iter().position(|token| token.kind == Kind::Semicolon).unwrap_or(0);
    let next = lexed.tokens.iter().skip(semicolon).find(|token| token.kind != Kind::Semicolon).copied();
    second(Stage::Grammar, lexed, next)
}

/// The refusal of text that does not parse. It names the token where parsing stopped, unless that is a value.
fn syntax(lexed: &Lexed<'_>, error: &Error) -> Refusal {
    let (position, why) = match error {
        Error::ParserError(_, position) => (position, "SQLite's grammar does not continue here"),
        Error::UnrecognizedToken(position)
        | Error::UnterminatedLiteral(position)
        | Error::UnterminatedBracket(position)
        | Error::UnterminatedBlockComment(position)
        | Error::BadVariableName(position)
        | Error::BadNumber(position)
        | Error::ExpectedEqualsSign(position)
        | Error::MalformedBlobLiteral(position)
        | Error::MalformedHexInteger(position) => (position, "this is not a token of SQLite"),
        _ => (&None, "it does not match SQLite's grammar"),
    };
    let offset = position.as_ref().map_or(0, |at| offset(lexed.sql, at.line, at.column));
    let token =
        lexed.tokens.iter().find(|token| usize::try_from(token.end).is_ok_and(|end| end > offset)).copied();
    let construct = token.map_or_else(|| "end".to_owned(), |token| lexed.construct(token));
    let position = token.map_or_else(|| Position::of(lexed.sql, offset), |token| lexed.position(token));
    Refusal::new(Stage::Grammar, "syntax", position, construct)
        .because(why)
        .instead("check the words before it, and quote names that are keywords")
}

/// The byte offset of a line and a column in bytes, both from 1.
fn offset(sql: &str, line: usize, column: usize) -> usize {
    let start: usize = sql.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    start + column.saturating_sub(1)
}
