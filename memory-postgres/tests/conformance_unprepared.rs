//! With statements that are not prepared, as behind a pooler in transaction mode, it passes the suite.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "conformance/harness.rs"]
mod harness;
mod support;

use support::Database;

fn main() -> std::process::ExitCode {
    harness::main(Database::fresh(), |database| harness::Server::new(database).without_prepared_statements())
}
