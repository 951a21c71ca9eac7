//! Dumping a scope's database, and restoring one.

mod format;
mod full_text;
mod restore;
mod write;
