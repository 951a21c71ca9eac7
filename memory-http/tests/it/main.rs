//! The client against servers started by each test.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests panic on anything unexpected"
)]

mod addresses;
mod bounds;
mod egress;
mod replies;
mod retries;
mod secrets;
mod tenancy;
mod tls;
