//! `memory serve`, as a client meets it: each test starts the real binary and speaks with it line by line.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod bad_input;
mod client;
mod configuration;
mod gc;
mod identity;
mod layer;
mod life;
mod protocol;
mod real_clients;
#[path = "../support/service.rs"]
mod service;
mod values;
