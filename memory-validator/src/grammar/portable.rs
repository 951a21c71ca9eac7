//! The portable grammar: sqlparser, for both dialects.

use sqlparser::dialect::{Dialect as SqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token as Read, TokenWithSpan, Tokenizer};

use super::flat_tree::Tree;
use super::location::{Offsets, position};
use super::{flat_tree, postgres_phrases, postgres_statements, tree_height};
use crate::gate;
use crate::gate::token::{Kind, Lexed};
use crate::policy::{Dialect, Mode, Policy};
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
    if stages.walk
        && let Some(decided) = postgres_statements::judge(lexed, mode, policy)
    {
        return decided;
    }
    match postgres_phrases::plain(lexed) {
        None => read(lexed, mode, policy, stages),
        Some(plain) => gate::lex(&plain.text, lexed.dialect, &policy.limits)
            .and_then(|lexed| read(&lexed, mode, policy, stages))
            .map_err(|refusal| Refusal {
                position: Position::of(lexed.sql, plain.origin(refusal.position.offset)),
                ..refusal
            }),
    }
}

fn read(lexed: &Lexed<'_>, mode: Mode, policy: &Policy, stages: Stages) -> Result<Accepted, Refusal> {
    tree_height::check(lexed)?;
    let dialect: &dyn SqlDialect = match lexed.dialect {
        Dialect::Sqlite => &SQLiteDialect {},
        Dialect::Postgres => &PostgreSqlDialect {},
    };
    let tokens = Tokenizer::new(dialect, lexed.sql)
        .tokenize_with_location()
        .map_err(|error| unread(lexed, position(lexed.sql, error.location)))?;
    if stages.grammar {
        // Faults found by the gate that this grammar would not notice.
        if let Some(fault) = &lexed.fault {
            return Err(Refusal { stage: Stage::Grammar, ..fault.clone() });
        }
        agree(lexed, &tokens)?;
    }
    let tree = {
        let parsed = Parser::new(dialect).with_tokens_with_locations(tokens).parse_statements();
        let statements = parsed.map_err(|error| failed(lexed, &error))?;
        match statements.as_slice() {
            [] => return Err(gate::empty(Stage::Grammar)),
            [_] => {}
            [_, ..] => return Err(gate::second(Stage::Grammar, lexed, lexed.at(0))),
        }
        Tree::of(&statements).map_err(|error| unreadable(lexed, &error))?
    };
    if stages.walk {
        walk::portable::walk(lexed, &tree, mode, policy)
    } else {
        Ok(Accepted::new(StatementKind::Select))
    }
}

/// If two lexers disagree on token boundaries, one may see names and calls where the other sees text.
fn agree(lexed: &Lexed<'_>, tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    let ours = lexed.tokens.iter().filter(|token| {
        matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Text | Kind::Blob | Kind::Open | Kind::Close)
    });
    let mut theirs = tokens.iter().filter_map(|token| Some((class(&token.token)?, token.span.start)));
    let mut offsets = Offsets::new(lexed.sql);
    for token in ours {
        let Some((kind, place)) = theirs.next() else { return Err(differs(lexed, lexed.position(*token))) };
        let same = kind == token.kind || (kind == Kind::Text && token.kind == Kind::Blob);
        if !same || u32::try_from(offsets.offset(place)).ok() != Some(token.start) {
            return Err(differs(lexed, lexed.position(*token)));
        }
    }
    match theirs.next() {
        None => Ok(()),
        Some((_, place)) => Err(differs(lexed, position(lexed.sql, place))),
    }
}

/// The kind of a token of the portable grammar, for kinds whose places must agree.
fn class(token: &Read) -> Option<Kind> {
    match token {
        Read::Word(word) => Some(if word.quote_style.is_some() { Kind::Quoted } else { Kind::Word }),
        Read::SingleQuotedString(_)
        | Read::DollarQuotedString(_)
        | Read::EscapedStringLiteral(_)
        | Read::UnicodeStringLiteral(_)
        | Read::NationalStringLiteral(_)
        | Read::SingleQuotedByteStringLiteral(_)
        | Read::HexStringLiteral(_)
        | Read::TripleSingleQuotedString(_)
        | Read::TripleDoubleQuotedString(_)
        | Read::DoubleQuotedString(_)
        | Read::DoubleQuotedByteStringLiteral(_)
        | Read::SingleQuotedRawStringLiteral(_)
        | Read::DoubleQuotedRawStringLiteral(_) => Some(Kind::Text),
        Read::LParen | Read::LBracket => Some(Kind::Open),
        Read::RParen | Read::RBracket => Some(Kind::Close),
        _ => None,
    }
}

fn differs(lexed: &Lexed<'_>, position: Position) -> Refusal {
    Refusal::new(Stage::Grammar, "ambiguous", position, token_at(lexed, position))
        .because("this is ambiguous")
        .instead("write literals and names in their plain forms")
}

fn unread(lexed: &Lexed<'_>, position: Position) -> Refusal {
    Refusal::new(Stage::Grammar, "syntax", position, token_at(lexed, position))
        .because("the text cannot be read as SQL from here on")
        .instead("check the quotes before it")
}

fn failed(lexed: &Lexed<'_>, error: &ParserError) -> Refusal {
    let place = match error {
        ParserError::RecursionLimitExceeded => {
            return Refusal::new(Stage::Grammar, "too_deep", Position::of(lexed.sql, 0), "statement")
                .because("expressions or queries are nested too deeply")
                .instead("name the inner parts with `WITH` and refer to them");
        }
        // The message may quote the text, including literals; only the place is used.
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => place(message),
    };
    let position = place.map_or_else(|| Position::of(lexed.sql, 0), |place| position(lexed.sql, place));
    Refusal::new(Stage::Grammar, "syntax", position, token_at(lexed, position))
        .because("the grammar does not recognise this")
        .instead("check the syntax, or write it in a more common way")
}

/// `… at Line: 1, Column: 8`, at the end of a message.
fn place(message: &str) -> Option<Location> {
    let (_, place) = message.rsplit_once("Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some(Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? })
}

fn unreadable(lexed: &Lexed<'_>, error: &flat_tree::Unreadable) -> Refusal {
    Refusal::new(Stage::Grammar, "parser", Position::of(lexed.sql, 0), "statement")
        .because(format!("its syntax tree cannot be read ({error})"))
        .instead("write it in another way")
}

/// The construct named at a place: a word or an operator; never a literal.
fn token_at(lexed: &Lexed<'_>, position: Position) -> String {
    let token =
        lexed.tokens.iter().find(|token| usize::try_from(token.end).is_ok_and(|end| end > position.offset));
    match token {
        Some(token) if matches!(token.kind, Kind::Text | Kind::Blob | Kind::Number | Kind::Illegal) => {
            "literal".to_owned()
        }
        Some(token) => lexed.text(*token).chars().take(32).collect(),
        None => "end of the text".to_owned(),
    }
}
