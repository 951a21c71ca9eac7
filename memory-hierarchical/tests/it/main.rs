//! Graphs and sessions, each test on SQLite and PostgreSQL.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod agent;
mod backend;
mod graphs;
#[cfg(feature = "sqlite")]
mod migrate;
mod recall;
mod sessions;
mod support;
#[cfg(feature = "sqlite")]
mod transfer;
