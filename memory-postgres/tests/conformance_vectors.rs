//! A server with pgvector passes the suite.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "conformance/harness.rs"]
mod harness;
mod support;

use support::Database;

fn main() -> std::process::ExitCode {
    harness::main(Database::fresh(), harness::Server::new)
}
