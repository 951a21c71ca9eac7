//! The command `memory`, as its users run it: tests start the real binary in a folder of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod cli;
mod forget;
mod kill;
#[cfg(target_os = "linux")]
mod scale;
mod serve;
mod sql_workers;
mod support;

/// The binary under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_memory");
