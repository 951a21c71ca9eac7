//! Services that tests talk to.
//!
//! - [`http`]: a server that answers, drips, stalls or resets as told, with a clock, ids and a timer that tests control;
//! - [`mem0`] and [`mem9`]: the services as they were recorded, faults included;
//! - [`parsed`]: parsed requests, fakes behind HTTP; [`recorded`]: pairs of request and reply of the real services;
//! - [`bad_replies`]: replies that cannot be used;
//! - `postgres` (feature of that name): databases of their own on a real server;
//! - `stores` (feature of that name): SQLite and PostgreSQL, for what is built on any provider;
//! - `isolation` (feature of that name): tenants that must never see each other's facts.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "only tests use it: they stop at what they did not expect"
)]

pub mod bad_replies;
pub mod http;
#[cfg(feature = "isolation")]
pub mod isolation;
pub mod mem0;
pub mod mem9;
pub mod parsed;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod recorded;
#[cfg(feature = "stores")]
pub mod stores;

pub use crate::parsed::{Answer, Fake, ParsedRequest, key_file, run_of, sent, serve};
