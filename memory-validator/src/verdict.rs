//! The decision about a statement.

use std::fmt;

/// The decision about one text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It may be passed to the engine unchanged.
    Accepted(Accepted),
    /// It must not be.
    Refused(Refusal),
}

impl Verdict {
    /// The description of an accepted statement, or the refusal as an error.
    ///
    /// # Errors
    /// The refusal.
    pub fn into_result(self) -> Result<Accepted, Refusal> {
        match self {
            Self::Accepted(accepted) => Ok(accepted),
            Self::Refused(refusal) => Err(refusal),
        }
    }
}

/// What an accepted statement is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// Its kind.
    pub kind: StatementKind,
    /// Whether it returns rows in addition to its effect (`RETURNING`).
    pub returning: bool,
    /// The relations it names, in order of first mention, without its own common table expressions.
    pub relations: Vec<Relation>,
}

impl Accepted {
    /// A description without relations.
    #[must_use]
    pub fn new(kind: StatementKind) -> Self {
        Self { kind, returning: false, relations: Vec::new() }
    }
}

/// A table or view that a statement names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Relation {
    /// The schema as folded by the engine, if given.
    pub schema: Option<String>,
    /// The name as folded by the engine, unquoted.
    pub name: String,
    /// How the statement uses it.
    pub access: Access,
}

impl Relation {
    /// A relation.
    #[must_use]
    pub fn new(schema: Option<String>, name: String, access: Access) -> Self {
        Self { schema, name, access }
    }
}

/// How a statement uses a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Reads its rows.
    Read,
    /// Inserts, updates or deletes its rows.
    Write,
    /// Creates, alters or drops it.
    Define,
}

/// The kind of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StatementKind {
    /// `SELECT`, `VALUES`, `TABLE`, with or without `WITH`.
    Select,
    /// `EXPLAIN` of an allowed statement.
    Explain,
    /// `INSERT`, `REPLACE`.
    Insert,
    /// `UPDATE`.
    Update,
    /// `DELETE`.
    Delete,
    /// `MERGE`.
    Merge,
    /// `TRUNCATE`.
    Truncate,
    /// `CREATE TABLE`, `CREATE TABLE AS`.
    CreateTable,
    /// `CREATE VIRTUAL TABLE`.
    CreateVirtualTable,
    /// `CREATE VIEW`, `CREATE MATERIALIZED VIEW`.
    CreateView,
    /// `CREATE INDEX`.
    CreateIndex,
    /// `CREATE TRIGGER`.
    CreateTrigger,
    /// `CREATE SEQUENCE`.
    CreateSequence,
    /// `CREATE TYPE` of an enumeration or a row.
    CreateType,
    /// `ALTER` of a table, view, index, sequence or type.
    Alter,
    /// `DROP` of anything that may be created.
    Drop,
    /// `REINDEX`.
    Reindex,
    /// `ANALYZE`.
    Analyze,
    /// `COMMENT ON`.
    Comment,
    /// `REFRESH MATERIALIZED VIEW`.
    Refresh,
}

impl StatementKind {
    /// Whether it only reads, as required by [`Mode::Query`](crate::Mode::Query).
    #[must_use]
    pub fn reads_only(self) -> bool {
        matches!(self, Self::Select | Self::Explain)
    }

    /// The kind of one of the host's own statements, which nobody checks, by its first word: a row read, written or
    /// removed; anything else counts as a definition. `WITH` counts as a read.
    #[must_use]
    pub fn of_own(sql: &str) -> Self {
        let word = sql.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "SELECT" | "WITH" | "VALUES" => Self::Select,
            "INSERT" => Self::Insert,
            "UPDATE" => Self::Update,
            "DELETE" => Self::Delete,
            "DROP" => Self::Drop,
            _ => Self::CreateTable,
        }
    }

    /// Whether its purpose is to free space, so that it must work at the quota.
    #[must_use]
    pub fn frees(self) -> bool {
        matches!(self, Self::Delete | Self::Drop | Self::Truncate)
    }

    /// Its name, for logs: stable, lower case, words joined by `_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Explain => "explain",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Merge => "merge",
            Self::Truncate => "truncate",
            Self::CreateTable => "create_table",
            Self::CreateVirtualTable => "create_virtual_table",
            Self::CreateView => "create_view",
            Self::CreateIndex => "create_index",
            Self::CreateTrigger => "create_trigger",
            Self::CreateSequence => "create_sequence",
            Self::CreateType => "create_type",
            Self::Alter => "alter",
            Self::Drop => "drop",
            Self::Reindex => "reindex",
            Self::Analyze => "analyze",
            Self::Comment => "comment",
            Self::Refresh => "refresh",
        }
    }
}

/// Why a text was refused.
///
/// `message` and `instead` never hold the contents of a literal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Refusal {
    /// Which stage refused.
    pub stage: Stage,
    /// The rule, stable for programs: `function`, `statement_kind`, `too_deep`, …
    pub rule: &'static str,
    /// The shortest name of the construct: `load_extension(`, `ATTACH`, `pragma_database_list`.
    pub construct: String,
    /// Where it stands.
    pub position: Position,
    /// What is wrong, as a sentence without a full stop.
    pub message: String,
    /// What to do instead; may be empty.
    pub instead: String,
    /// Whether it was refused for writing where only reading is allowed.
    pub writes: bool,
}

impl Refusal {
    /// A refusal at a place.
    #[must_use]
    pub fn new(stage: Stage, rule: &'static str, position: Position, construct: impl Into<String>) -> Self {
        Self {
            stage,
            rule,
            construct: construct.into(),
            position,
            message: String::new(),
            instead: String::new(),
            writes: false,
        }
    }

    /// Says what is wrong.
    #[must_use]
    pub fn because(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Says what to do instead.
    #[must_use]
    pub fn instead(mut self, advice: impl Into<String>) -> Self {
        self.instead = advice.into();
        self
    }

    /// Marks it as a write where only reading is allowed.
    #[must_use]
    pub fn writing(mut self) -> Self {
        self.writes = true;
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column, .. } = self.position;
        write!(f, "`{}` at line {line}, column {column}: {}", self.construct, self.message)?;
        if !self.instead.is_empty() {
            write!(f, "; {}", self.instead)?;
        }
        Ok(())
    }
}

/// A place in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Bytes before it.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
}

impl Position {
    /// The place of a byte offset; an offset beyond the text, or inside a character, is moved back.
    #[must_use]
    pub fn of(sql: &str, offset: usize) -> Self {
        let mut offset = offset.min(sql.len());
        while !sql.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = sql.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            offset,
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
        }
    }
}

/// A stage of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Sizes, tokens and names, before any parser.
    Gate,
    /// The grammar.
    Grammar,
    /// The walk over the tree.
    Walk,
}

impl Stage {
    /// Its name: `gate`, `grammar`, `walk`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Grammar => "grammar",
            Self::Walk => "walk",
        }
    }
}
