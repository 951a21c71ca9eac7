//! The command, as its users run it: each test starts the real binary in a folder of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod backends;
mod command;
mod config;
mod conformance;
mod conversations;
mod demo;
mod drift;
mod gc;
mod importing;
mod layer;
mod lists;
mod out_files;
mod output;
mod postgres;
mod records;
mod refusals;
mod search;
#[path = "../support/service.rs"]
mod service;
mod shared_data;
mod snapshot;
mod sql;
mod values;
