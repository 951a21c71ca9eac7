//! Where a SQLite statement starts and ends, and how it starts.

use super::token::{Kind, Lexed};
use super::{empty, second};
use crate::policy::{Mode, Policy};
use crate::refusals;
use crate::verdict::{Refusal, Stage, StatementKind};

/// What the tokens reveal about a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead {
    /// The token it begins with, after `EXPLAIN [QUERY PLAN]`.
    pub(crate) begin: usize,
    /// The token after its last.
    pub(crate) end: usize,
    /// For `CREATE INDEX` and `CREATE TRIGGER`: the `ON` before the table.
    pub(crate) on: Option<usize>,
    /// Whether it is `CREATE VIRTUAL TABLE`.
    pub(crate) makes_virtual: bool,
    /// Whether it defines columns: `CREATE TABLE`, `ALTER TABLE`.
    pub(crate) has_types: bool,
}

/// The first token that is no semicolon.
fn first(lexed: &Lexed<'_>) -> usize {
    lexed.tokens.iter().position(|token| token.kind != Kind::Semicolon).unwrap_or(lexed.tokens.len())
}

/// Whether the statement lists the columns of a table.
pub(crate) fn creates_table(lexed: &Lexed<'_>) -> bool {
    let mut at = first(lexed);
    if lexed.is_word(at, "explain") {
        at += if lexed.is_word(at + 1, "query") { 3 } else { 1 };
    }
    lexed.is_word(at, "create")
        && (lexed.is_word(at + 1, "table")
            || lexed.is_one_of(at + 1, &["temp", "temporary"]) && lexed.is_word(at + 2, "table"))
}

/// Finds the statement, and refuses it by its first words.
pub(crate) fn check(lexed: &Lexed<'_>, mode: Mode, policy: &Policy) -> Result<Lead, Refusal> {
    let start = first(lexed);
    let mut begin = start;
    let explains = lexed.is_word(begin, "explain");
    if explains {
        begin += 1;
        if lexed.is_word(begin, "query") && lexed.is_word(begin + 1, "plan") {
            begin += 2;
        }
    }
    let makes_trigger = lexed.is_word(begin, "create")
        && (lexed.is_word(begin + 1, "trigger")
            || lexed.is_one_of(begin + 1, &["temp", "temporary"]) && lexed.is_word(begin + 2, "trigger"));
    let end = end(lexed, begin, makes_trigger);
    let kind = kind(lexed, begin)?;
    refusals::statement(Stage::Gate, lexed, start, kind, explains, mode, policy)?;
    if let Some(token) = lexed.at(begin + 1)
        && lexed.is_word(begin, "create")
        && lexed.is_one_of(begin + 1, &["temp", "temporary"])
    {
        return Err(refusals::temp(Stage::Gate, lexed.position(token), "TEMP"));
    }
    if let Some(next) = (end..lexed.tokens.len()).find(|at| !lexed.is(*at, Kind::Semicolon)) {
        return Err(second(Stage::Gate, lexed, lexed.at(next)));
    }
    let names_table = matches!(kind, StatementKind::CreateIndex | StatementKind::CreateTrigger);
    Ok(Lead {
        begin,
        end,
        on: names_table.then(|| (begin..end).find(|at| lexed.is_word(*at, "on"))).flatten(),
        makes_virtual: kind == StatementKind::CreateVirtualTable,
        has_types: matches!(kind, StatementKind::CreateTable | StatementKind::Alter),
    })
}

/// A statement ends at its semicolon; a trigger at the `END` after the semicolon of its last command.
fn end(lexed: &Lexed<'_>, begin: usize, makes_trigger: bool) -> usize {
    (begin..lexed.tokens.len())
        .find(|at| {
            if makes_trigger {
                *at > 0 && lexed.is(*at - 1, Kind::Semicolon) && lexed.is_word(*at, "end")
            } else {
                lexed.is(*at, Kind::Semicolon)
            }
        })
        .map_or(lexed.tokens.len(), |at| at + usize::from(makes_trigger))
}

/// The kind of the statement that starts at a token.
fn kind(lexed: &Lexed<'_>, begin: usize) -> Result<StatementKind, Refusal> {
    let Some(token) = lexed.at(begin) else { return Err(empty(Stage::Gate)) };
    let refused = || Err(refusals::kind(Stage::Gate, lexed.position(token), &lexed.construct(token)));
    if token.kind != Kind::Word {
        return refused();
    }
    let word = lexed.text(token).to_ascii_lowercase();
    Ok(match word.as_str() {
        "select" | "values" => StatementKind::Select,
        "insert" | "replace" => StatementKind::Insert,
        "update" => StatementKind::Update,
        "delete" => StatementKind::Delete,
        "alter" => StatementKind::Alter,
        "drop" => StatementKind::Drop,
        "reindex" => StatementKind::Reindex,
        "analyze" => StatementKind::Analyze,
        "create" => return created(lexed, begin),
        "with" => return after_with(lexed, begin),
        _ => return refused(),
    })
}

fn created(lexed: &Lexed<'_>, begin: usize) -> Result<StatementKind, Refusal> {
    let mut at = begin + 1;
    if lexed.is_one_of(at, &["temp", "temporary", "unique"]) {
        at += 1;
    }
    if lexed.is_word(at, "virtual") {
        return Ok(StatementKind::CreateVirtualTable);
    }
    Ok(match () {
        () if lexed.is_word(at, "table") => StatementKind::CreateTable,
        () if lexed.is_word(at, "view") => StatementKind::CreateView,
        () if lexed.is_word(at, "index") => StatementKind::CreateIndex,
        () if lexed.is_word(at, "trigger") => StatementKind::CreateTrigger,
        () => {
            let position = lexed.at(begin).map(|token| lexed.position(token)).unwrap_or_default();
            return Err(refusals::kind(Stage::Gate, position, "CREATE"));
        }
    })
}

/// After common table expressions: the first word outside brackets that follows a bracket and starts a statement.
fn after_with(lexed: &Lexed<'_>, begin: usize) -> Result<StatementKind, Refusal> {
    let mut depth = 0usize;
    for at in begin..lexed.tokens.len() {
        let Some(token) = lexed.at(at) else { break };
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Word if depth == 0 && lexed.is(at.saturating_sub(1), Kind::Close) => {
                if lexed.is_one_of(at, &["select", "values"]) {
                    return Ok(StatementKind::Select);
                }
                if lexed.is_one_of(at, &["insert", "replace"]) {
                    return Ok(StatementKind::Insert);
                }
                if lexed.is_word(at, "update") {
                    return Ok(StatementKind::Update);
                }
                if lexed.is_word(at, "delete") {
                    return Ok(StatementKind::Delete);
                }
            }
            _ => {}
        }
    }
    let position = lexed.at(begin).map(|token| lexed.position(token)).unwrap_or_default();
    Err(refusals::kind(Stage::Gate, position, "WITH"))
}
