//! A database without memory for indexes, and not synced at each commit, passes the suite.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "conformance/harness.rs"]
mod harness;

memory_conformance::conformance_tests!(
    harness::Files::new(memory_sqlite::Durability::Normal).without_indexes()
);
