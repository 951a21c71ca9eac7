//! Where `memory_entries` gets its rows: a scope's key/value entries, read-only.

use std::fmt::Debug;
use std::time::Instant;

use memory_core::{Entry, Result};

/// A range of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The first key, included.
    pub(crate) from: String,
    /// The end, excluded; `None` for up to the last key.
    pub(crate) to: Option<String>,
}

/// A source of one scope's entries. The scope is fixed on creation; no statement can name another.
pub(crate) trait EntrySource: Send + Sync + Debug {
    /// Reads the live entries of one snapshot, in byte order of their keys.
    fn read(&self, range: &KeyRange, deadline: Instant) -> Result<Box<dyn EntryReader>>;
}

/// A stream of entries.
pub(crate) trait EntryReader: Send {
    /// The next entry.
    fn next(&mut self) -> Result<Option<Entry>>;
}
