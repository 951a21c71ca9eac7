//! Opened without an embedder it passes the suite: it refuses what vectors would serve.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "conformance/harness.rs"]
mod harness;
mod support;

use support::Database;

fn main() -> std::process::ExitCode {
    harness::main(Database::fresh(), |database| harness::Server::new(database).without_embedder())
}
