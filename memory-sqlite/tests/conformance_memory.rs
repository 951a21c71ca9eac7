//! A database in memory passes the suite.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "conformance/harness.rs"]
mod harness;

memory_conformance::conformance_tests!(harness::Memory);
