//! Graphs on the engine itself, and files of the original program.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod conformance;
mod figures;
mod files;
#[cfg(unix)]
mod full;
#[path = "../../../memory-hierarchical/tests/it/graphs.rs"]
mod graphs;
mod kill;
mod original;
mod support;
mod transfer;
