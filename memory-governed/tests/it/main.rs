//! What decides: interpreting, resolving, checking.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests panic on anything unexpected"
)]

mod explicit;
mod guards;
mod model;
mod properties;
mod requests;
mod rules;
mod space;
mod words;
