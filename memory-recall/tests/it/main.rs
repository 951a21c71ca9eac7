//! What conversations do beyond the conformance suite.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests panic on anything unexpected"
)]

mod bad_input;
mod extract;
mod models;
mod plan;
mod storage;
