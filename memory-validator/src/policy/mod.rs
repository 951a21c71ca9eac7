//! The policy: allowed names, and caps. Anything not listed is refused.

pub(crate) mod postgres;
mod sqlite;

use std::collections::BTreeSet;

use crate::verdict::StatementKind;

/// The SQL dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// SQLite 3.54 and later.
    Sqlite,
    /// PostgreSQL 15 to 18.
    Postgres,
}

/// The allowed effect of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Write and read.
    Exec,
    /// Only read.
    Query,
}

/// The grammar that parses the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Grammar {
    /// The engine's own if compiled in (features `sqlite-grammar`, `pg-grammar`), otherwise the portable one.
    #[default]
    Engine,
    /// The portable one (sqlparser), which refuses some legitimate statements.
    Portable,
}

/// Inclusive caps that apply before parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of text. Default 1 MiB.
    pub bytes: usize,
    /// Tokens. Default 200,000.
    pub tokens: usize,
    /// Nesting depth of brackets, `CASE` and other openers. Default 64, never over 256.
    pub depth: usize,
    /// Operators in a row without a comma or a keyword that starts a clause. Default 1,000, never over 1,000.
    pub chain: usize,
    /// Nesting depth of comments, if the dialect nests them. Default 16.
    pub comment_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 1 << 20, tokens: 200_000, depth: 64, chain: 1_000, comment_depth: 16 }
    }
}

/// What an agent may use. Names are folded as in the dialect: lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Caps.
    pub limits: Limits,
    /// Which grammar reads.
    pub grammar: Grammar,
    /// Kinds of statement.
    pub statements: BTreeSet<StatementKind>,
    /// Functions: scalar, aggregate, window.
    pub functions: BTreeSet<String>,
    /// Functions allowed in place of a table.
    pub table_functions: BTreeSet<String>,
    /// Modules of virtual tables (SQLite).
    pub modules: BTreeSet<String>,
    /// Schemas that may be named before a relation.
    pub schemas: BTreeSet<String>,
    /// Schemas, of those, that may only be read.
    pub read_only_schemas: BTreeSet<String>,
    /// Types that may be named in casts and columns; empty for any (SQLite knows no types).
    pub types: BTreeSet<String>,
    /// Relations outside the agent's own that may be read: `sqlite_schema`, `memory_entries`.
    pub readable: BTreeSet<String>,
    /// Prefixes of names that belong to the engine or the runtime: such relations are not read, written or created,
    /// except those in `readable`.
    pub reserved_prefixes: Vec<String>,
    /// Complete names of that kind: built-in relations of the engine.
    pub reserved_names: BTreeSet<String>,
}

impl Policy {
    /// The default lists of a dialect.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        let mut policy = Self {
            limits: Limits::default(),
            grammar: Grammar::default(),
            statements: BTreeSet::new(),
            functions: BTreeSet::new(),
            table_functions: BTreeSet::new(),
            modules: BTreeSet::new(),
            schemas: BTreeSet::new(),
            read_only_schemas: BTreeSet::new(),
            types: BTreeSet::new(),
            readable: BTreeSet::new(),
            reserved_prefixes: Vec::new(),
            reserved_names: BTreeSet::new(),
        };
        match dialect {
            Dialect::Sqlite => sqlite::fill(&mut policy),
            Dialect::Postgres => postgres::fill(&mut policy),
        }
        policy
    }
}

impl Policy {
    /// Whether a relation's name (folded) belongs to the engine or the runtime.
    #[must_use]
    pub fn is_reserved(&self, name: &str) -> bool {
        self.reserved_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
            || self.reserved_names.contains(name)
    }

    /// Whether a relation may be read: by its name it is the agent's own, or it is on a list.
    #[must_use]
    pub fn may_read(&self, name: &str) -> bool {
        !self.is_reserved(name) || self.readable.contains(name) || self.table_functions.contains(name)
    }

    /// Whether a schema may be named.
    #[must_use]
    pub fn knows_schema(&self, name: &str) -> bool {
        self.schemas.contains(name) || self.read_only_schemas.contains(name)
    }

    /// Allows a schema to be read, and not to be written: shared data.
    #[must_use]
    pub fn with_read_only_schema(mut self, name: &str) -> Self {
        self.read_only_schemas.insert(name.to_ascii_lowercase());
        self
    }

    /// Allows a schema to be named.
    #[must_use]
    pub fn with_schema(mut self, name: &str) -> Self {
        self.schemas.insert(name.to_ascii_lowercase());
        self
    }

    /// Allows a function in place of a table.
    #[must_use]
    pub fn with_table_function(mut self, name: &str) -> Self {
        self.table_functions.insert(name.to_ascii_lowercase());
        self
    }

    /// Allows a function.
    #[must_use]
    pub fn with_function(mut self, name: &str) -> Self {
        self.functions.insert(name.to_ascii_lowercase());
        self
    }

    /// Removes a function from the list.
    #[must_use]
    pub fn without_function(mut self, name: &str) -> Self {
        self.functions.remove(&name.to_ascii_lowercase());
        self
    }

    /// Allows a relation to be read although its name is reserved.
    #[must_use]
    pub fn with_readable(mut self, name: &str) -> Self {
        self.readable.insert(name.to_ascii_lowercase());
        self
    }

    /// Removes a kind of statement from the list.
    #[must_use]
    pub fn without_statement(mut self, kind: StatementKind) -> Self {
        self.statements.remove(&kind);
        self
    }
}
