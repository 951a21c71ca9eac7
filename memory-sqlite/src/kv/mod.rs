//! Entries: their encoding in rows, and the operations that read, write and reclaim them.

pub(crate) mod accesses;
pub(crate) mod described;
pub(crate) mod dimensions;
pub(crate) mod draft;
mod drift;
pub(crate) mod entries;
pub(crate) mod read;
pub(crate) mod row;
pub(crate) mod scopes;
pub(crate) mod segments;
pub(crate) mod state;
pub(crate) mod sweep;
pub(crate) mod write;
