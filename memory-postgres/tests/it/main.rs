//! Behaviour beyond the conformance suite. Each test has a separate database on a server started by `cargo xtask test`
//! or `cargo xtask postgres`; without one it is skipped with a note.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs
)]

mod answers;
mod eviction;
#[cfg(unix)]
mod failover;
#[cfg(unix)]
mod faults;
mod forget;
#[cfg(unix)]
mod full_disk;
mod guard;
mod near_index;
mod open;
mod operator;
mod plans;
mod pooler;
mod replicas;
#[cfg(unix)]
mod sql;
#[path = "../support/mod.rs"]
mod support;
#[cfg(unix)]
mod tls;
