//! The client against servers of a test's own.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests stop at what they did not expect"
)]

mod addresses;
mod bounds;
mod egress;
mod replies;
mod retries;
mod secrets;
mod tenancy;
mod tls;
