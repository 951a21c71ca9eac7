//! The provider against a fake server that answers as the real one does, faults included.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests panic on anything unexpected"
)]

mod bad_replies;
mod isolation;
mod outcomes;
#[allow(dead_code, reason = "the example is only compiled, since it needs a real server")]
mod page;
mod recorded;
#[path = "../support/mod.rs"]
mod support;
