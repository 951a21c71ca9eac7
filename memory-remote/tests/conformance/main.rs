//! The suite over HTTP: a server in this process, on SQLite and conversations as a product opens them, and a client that
//! reaches it through loopback.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests panic on anything unexpected")]

mod harness;

memory_conformance::conformance_tests!(harness::Served::new());
