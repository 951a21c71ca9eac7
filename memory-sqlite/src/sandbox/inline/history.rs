//! What a connection remembers of the statements it ran, to know which may run on the caller's thread.

use memory_validator::Mode;

use crate::sandbox::statement::Statement;

/// What is known of a statement that was seen on a connection.
#[derive(Debug)]
pub(in crate::sandbox) struct Seen {
    /// What it reads; `None`: it must always run on a thread.
    pub(in crate::sandbox) relations: Option<Vec<String>>,
    /// Whether these are found to be tables that hold their rows themselves.
    pub(in crate::sandbox) are_tables: bool,
    /// Whether the last run was over at once.
    pub(in crate::sandbox) was_quick: bool,
}

impl Seen {
    pub(in crate::sandbox) fn of(statement: &Statement<'_>, relations: Option<Vec<String>>) -> Self {
        let relations = relations.filter(|_| statement.mode == Mode::Query && !may_hide_work(statement.sql));
        Self { relations, are_tables: false, was_quick: false }
    }

    /// Of a query that was new and ran at once.
    pub(in crate::sandbox) fn quick(relations: Vec<String>) -> Self {
        Self { relations: Some(relations), are_tables: true, was_quick: true }
    }
}

/// What a connection knows for running queries that are new.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct InlineState {
    /// The version of the schema for which the tables are known.
    pub(in crate::sandbox) version: Option<i64>,
    /// Queries in a row that came to a bound.
    pub(in crate::sandbox) misses: u8,
    /// How many are not tried for that.
    pub(in crate::sandbox) skips: u16,
}

/// Whether a text may do more than what it reads tells: to count the rows of a table is one instruction, however many there
/// are, and of a table that is joined by the names of columns alone nobody is told.
pub(in crate::sandbox) fn may_hide_work(sql: &str) -> bool {
    [b"count".as_slice(), b"using", b"natural"].iter().any(|word| contains(sql, word))
}

/// Whether a word in lower case stands in a text, whatever its case there.
pub(in crate::sandbox) fn contains(text: &str, word: &[u8]) -> bool {
    text.as_bytes().windows(word.len()).any(|found| found.eq_ignore_ascii_case(word))
}
