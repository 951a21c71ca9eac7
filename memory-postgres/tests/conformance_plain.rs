//! A server without pgvector passes the suite: an embedder is of no use there, and vectors are refused.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "conformance/harness.rs"]
mod harness;
mod support;

use support::Database;

fn main() -> std::process::ExitCode {
    harness::main(Database::plain(), harness::Server::new)
}
