//! Tokens as the engine would read them.

use std::borrow::Cow;

use super::names::{postgres_name, sqlite_name};
use crate::policy::Dialect;
use crate::verdict::{Position, Refusal};

/// The kind of a token in the engine's lexer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A bare identifier or a keyword.
    Word,
    /// An identifier in quotes.
    Quoted,
    /// A text literal.
    Text,
    /// A literal of bytes or bits.
    Blob,
    /// A number.
    Number,
    /// A place for an argument.
    Parameter,
    /// An operator.
    Operator,
    /// `(`, and `[` unless it is a quote.
    Open,
    /// `)`, and `]` unless it is a quote.
    Close,
    /// `,`
    Comma,
    /// `.`
    Dot,
    /// `;`
    Semicolon,
    /// Something the engine cannot read.
    Illegal,
}

/// The role of a bare word in the shape of a statement. Every other token has [`Role::None`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Not a keyword.
    None,
    /// A keyword that may also be a name.
    Soft,
    /// A keyword that is never a name.
    Hard,
    /// A keyword that is an operator of expressions: `AND`, `LIKE`, `NOT`.
    Operator,
    /// The same, if it may also be a name: `LIKE`, `MATCH`.
    SoftOperator,
    /// A keyword that joins queries or tables: `UNION`, `JOIN`.
    Compound,
    /// A keyword that starts a clause and so ends any expression: `SELECT`, `WHERE`.
    Clause,
    /// `CASE`
    Case,
    /// `END`
    End,
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its role, for a bare word.
    pub(crate) role: Role,
    /// Its first byte.
    pub(crate) start: u32,
    /// The byte after its last.
    pub(crate) end: u32,
}

impl Token {
    /// Whether it can be a name: a word other than a hard keyword, or a quoted identifier.
    pub(crate) fn may_name(self) -> bool {
        match self.kind {
            Kind::Quoted => true,
            Kind::Word => matches!(self.role, Role::None | Role::Soft | Role::SoftOperator | Role::End),
            _ => false,
        }
    }
}

/// A tokenized text, without spaces and comments.
#[derive(Clone, Debug)]
pub(crate) struct Lexed<'a> {
    /// The text.
    pub(crate) sql: &'a str,
    /// The dialect.
    pub(crate) dialect: Dialect,
    /// Its tokens.
    pub(crate) tokens: Vec<Token>,
    /// A cap exceeded while tokenizing: no later stage may see the text, even if stages are switched off.
    pub(crate) over: Option<Refusal>,
    /// The first thing the gate refuses about a token or between two tokens.
    pub(crate) fault: Option<Refusal>,
}

impl<'a> Lexed<'a> {
    /// The text of a token.
    pub(crate) fn text(&self, token: Token) -> &'a str {
        let range =
            usize::try_from(token.start).unwrap_or(usize::MAX)..usize::try_from(token.end).unwrap_or(0);
        self.sql.get(range).unwrap_or_default()
    }

    /// A token as named in a refusal: short, and never the contents of a value.
    pub(crate) fn construct(&self, token: Token) -> String {
        match token.kind {
            Kind::Text | Kind::Blob | Kind::Number | Kind::Illegal => "value".to_owned(),
            _ => self.text(token).chars().take(32).collect(),
        }
    }

    /// Where a token begins.
    pub(crate) fn position(&self, token: Token) -> Position {
        Position::of(self.sql, usize::try_from(token.start).unwrap_or(usize::MAX))
    }

    /// The token at an index.
    pub(crate) fn at(&self, index: usize) -> Option<Token> {
        self.tokens.get(index).copied()
    }

    /// Whether the token at an index is this bare word (given in lower case).
    pub(crate) fn is_word(&self, index: usize, word: &str) -> bool {
        self.at(index)
            .is_some_and(|token| token.kind == Kind::Word && self.text(token).eq_ignore_ascii_case(word))
    }

    /// Whether the token at an index is one of these bare words (given in lower case).
    pub(crate) fn is_one_of(&self, index: usize, words: &[&str]) -> bool {
        self.at(index).is_some_and(|token| {
            let text = if token.kind == Kind::Word { self.text(token) } else { return false };
            words.iter().any(|word| text.eq_ignore_ascii_case(word))
        })
    }

    /// Whether the token at an index is of a kind.
    pub(crate) fn is(&self, index: usize, kind: Kind) -> bool {
        self.at(index).is_some_and(|token| token.kind == kind)
    }

    /// The name that a token spells, without quotes and folded as the engine folds it.
    pub(crate) fn name(&self, token: Token) -> Cow<'a, str> {
        let text = self.text(token);
        match self.dialect {
            Dialect::Sqlite => sqlite_name(text),
            Dialect::Postgres => postgres_name(text),
        }
    }
}
