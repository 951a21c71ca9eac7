//! Dumping a scope's database, and restoring one.

mod definitions;
mod format;
mod restore;
pub(super) mod write;
