//! Snapshots of SQLite stores, restoring them, and moving between stores (`docs/spec/snapshot.md`).

#![cfg(feature = "sqlite")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod files;
mod forgotten;
mod hostile;
mod moving;
mod property;
mod random;
mod restoring;
mod support;
mod writing;
