//! The file of a snapshot: its lines, its digests, and reading it.

pub(super) mod digest;
pub(super) mod lines;
pub(super) mod records;
pub(super) mod scanner;
