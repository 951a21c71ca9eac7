//! A database opened without an embedder passes the suite: it refuses what vectors would serve.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "conformance/harness.rs"]
mod harness;

memory_conformance::conformance_tests!(
    harness::Files::new(memory_sqlite::Durability::Normal).without_embedder()
);
