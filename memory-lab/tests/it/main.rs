//! The command `memory-lab`: tests start the real binary in a folder of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests panic on anything unexpected"
)]

mod compare;
mod conformance;
mod conversations;
mod corpus;
mod governed;
mod hazards;
mod mutants;
#[allow(dead_code, reason = "the tests of `memory` use more of it")]
#[path = "../../../memory-server/tests/it/support/service.rs"]
mod service;
mod stores;
// Running a program in a home folder of its own is the same for both programs.
#[allow(dead_code, reason = "the tests of `memory` use more of it")]
#[path = "../../../memory-server/tests/it/support/user.rs"]
mod user;

/// The binary under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_memory-lab");
