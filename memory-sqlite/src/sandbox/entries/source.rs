//! `memory_entries`: what the scope remembers as key and value, as a table that can only be read.

use std::fmt::Debug;
use std::time::Instant;

use memory_core::{Entry, Result};

/// Which entries are wanted: keys from `from` on, before `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The first key, included.
    pub(crate) from: String,
    /// Where it ends, excluded; `None`: at the last key.
    pub(crate) to: Option<String>,
}

/// Where one scope's entries come from. The scope is fixed when it is made; no statement can name another.
pub(crate) trait EntrySource: Send + Sync + Debug {
    /// A reader of one moment's entries, expired ones left out, in the order of their keys' bytes.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    fn read(&self, range: &KeyRange, deadline: Instant) -> Result<Box<dyn EntryReader>>;
}

/// Entries one after another.
pub(crate) trait EntryReader: Send {
    /// The next entry.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`, `timeout`.
    fn next(&mut self) -> Result<Option<Entry>>;
}
