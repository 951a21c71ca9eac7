//! What the conformance suite cannot see: several processes, crashes, full disks, hostile files, and caches in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "tests stop at anything unexpected"
)]

#[path = "../conformance/harness.rs"]
mod harness;

mod closing;
mod conformance_mutants;
mod figures;
mod file;
mod histories;
mod kill;
mod kv;
mod lifecycle;
mod processes;
mod search;
mod soak_dedup;
mod soak_mixed;
mod space;
mod sql;
mod support;
