//! What is forgotten is in no file beside the store, and comes back from no copy.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod beside;
mod ledger;
mod modes;
mod places;
#[path = "../support/program.rs"]
mod program;
#[path = "../support/seed.rs"]
mod seed;
#[path = "../support/service.rs"]
mod service;
mod services;
#[path = "../support/store.rs"]
mod store;
mod waiting;
