//! Deciding, and storing on both stores: the ledger, the seven state machines, what waits, and what a kill leaves.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod explicit;
mod faults;
mod forget;
mod guards;
mod kill;
mod ledger;
mod machines;
mod model;
mod pace;
mod pending;
mod plain;
mod properties;
mod proposals;
mod race;
mod reading;
mod requests;
mod rules;
mod space;
mod support;
mod turned;
mod undecided;
mod words;
