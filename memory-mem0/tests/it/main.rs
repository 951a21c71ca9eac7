//! The provider against servers with the answers and the holes of the real ones.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests stop at what they did not expect"
)]

mod bad_replies;
mod isolation;
mod outcomes;
#[allow(dead_code, reason = "the example is shown, and reaches a real server")]
mod page;
mod recorded;
#[path = "../support/mod.rs"]
mod support;
