//! Dumping a scope's database, and restoring one.

mod format;
mod restore;
mod write;
