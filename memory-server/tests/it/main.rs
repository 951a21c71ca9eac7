//! The command `memory` as users run it: tests start the real binary in an empty folder.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests panic on anything unexpected"
)]

mod cli;
mod forget;
mod http;
mod kill;
#[cfg(target_os = "linux")]
mod scale;
mod serve;
mod sql_workers;
mod support;

/// The binary under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_memory");
