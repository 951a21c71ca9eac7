//! The suite over HTTP: a server in this process, on SQLite or PostgreSQL and conversations as a product opens them, and a
//! client that reaches it through loopback. Cases on PostgreSQL are named `postgres::CASE`; without a server they are
//! skipped with a note.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests panic on anything unexpected")]

mod harness;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use memory_conformance::suite::runner::DEFAULT_TIMEOUT;
use memory_conformance::trials::{self, Configuration};
use memory_conformance::{ExpectedFailures, Harness};

use self::harness::Served;

/// Time limit of a case on PostgreSQL, where SQL creates databases.
const TIMEOUT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let sqlite: Arc<dyn Harness> = Arc::new(Served::new());
    let mut all = trials::trials(&sqlite, Ok(ExpectedFailures::default()), DEFAULT_TIMEOUT);
    if let Some(postgres) = Served::on_postgres() {
        all.extend(Configuration::new("postgres", Arc::new(postgres)).with_timeout(TIMEOUT).trials());
    }
    trials::run(all)
}
