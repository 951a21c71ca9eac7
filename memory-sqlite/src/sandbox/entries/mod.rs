//! `memory_entries`: the scope's key/value entries as a read-only table.

mod source;
mod store;
pub(super) mod table;

pub(crate) use source::EntrySource;
#[cfg(test)]
pub(super) use source::{EntryReader, KeyRange};
pub(crate) use store::EntryPool;
