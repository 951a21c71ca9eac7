//! What a migration did.

use serde::Serialize;

use super::layout::Layout;
use crate::transfer::Refusal;

/// What became of the rows of one table: `rows = stored + skipped + refused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableReport {
    /// The table in the file.
    pub table: &'static str,
    /// The rows that it has.
    pub rows: u64,
    /// Stored.
    pub stored: u64,
    /// Left alone, because they already exist.
    pub skipped: u64,
    /// Not taken; [`Migrated::refusals`] says why.
    pub refused: u64,
}

/// What a migration did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Migrated {
    /// What the file was.
    pub layout: Layout,
    /// Every table of it.
    pub tables: Vec<TableReport>,
    /// The rows that were not taken, by table and reason.
    pub refusals: Vec<Refusal>,
}

impl Migrated {
    /// Rows that were not taken.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.tables.iter().map(|table| table.refused).sum()
    }
}
