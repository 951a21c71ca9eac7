//! Storing, on both stores: the ledger, the seven state machines, what waits, and what a kill leaves.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod faults;
mod kill;
mod ledger;
mod machines;
mod pace;
mod pending;
mod race;
mod reading;
mod support;
