//! What a connection knows about the statements it ran, to decide which may run on the caller's thread.

use memory_validator::Mode;

use crate::sandbox::statement::Statement;

/// What is known about a statement seen on a connection.
#[derive(Debug)]
pub(in crate::sandbox) struct Seen {
    /// How it was run.
    pub(in crate::sandbox) mode: Mode,
    /// The relations it reads; `None` if it must always run on a worker.
    pub(in crate::sandbox) relations: Option<Vec<String>>,
    /// Whether these are known to be ordinary tables, which store their own rows.
    pub(in crate::sandbox) are_tables: bool,
    /// Whether the last run was quick.
    pub(in crate::sandbox) was_quick: bool,
}

impl Seen {
    pub(in crate::sandbox) fn of(statement: &Statement<'_>, relations: Option<Vec<String>>) -> Self {
        let relations = relations.filter(|_| statement.mode == Mode::Query && !may_hide_work(statement.sql));
        Self { mode: statement.mode, relations, are_tables: false, was_quick: false }
    }

    /// A new query that ran quickly.
    pub(in crate::sandbox) fn quick(relations: Vec<String>) -> Self {
        Self { mode: Mode::Query, relations: Some(relations), are_tables: true, was_quick: true }
    }
}

/// What a connection knows in order to run new queries inline.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct InlineState {
    /// The schema version for which the tables are known.
    pub(in crate::sandbox) version: Option<i64>,
    /// Queries in a row that exceeded a limit.
    pub(in crate::sandbox) misses: u8,
    /// How many queries to skip because of that.
    pub(in crate::sandbox) skips: u16,
}

/// Whether a text may do more work than the relations it reads suggest: counting a table's rows is one instruction,
/// however many there are, and the authorizer does not see a table joined only by column names.
pub(in crate::sandbox) fn may_hide_work(sql: &str) -> bool {
    [b"count".as_slice(), b"using", b"natural"].iter().any(|word| contains(sql, word))
}

/// Whether the text contains a lower-case word, in any case.
pub(in crate::sandbox) fn contains(text: &str, word: &[u8]) -> bool {
    text.as_bytes().windows(word.len()).any(|found| found.eq_ignore_ascii_case(word))
}
