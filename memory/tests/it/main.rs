//! Integration tests of the facade: one module per part, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, also outside the functions marked as tests"
)]
#![allow(clippy::duplicate_mod, reason = "the same drift scenarios run on SQLite and on PostgreSQL")]
#![allow(missing_docs, reason = "tests are documented by their names")]

mod audit;
mod close;
mod definitions;
mod drift;
mod embedders;
mod fallback;
mod gc;
mod open;
mod readme;
mod schemas;
mod snapshot;
mod tool;
