//! The suite's cases about SQL, on the server with pgvector and on the one without.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test; its tenants need names of their own at every run"
)]

#[path = "support/sql.rs"]
mod sql;
mod support;

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use memory_conformance::trials::trials;
use memory_conformance::{ExpectedFailures, Fixture, Harness, SHARED_DATA, SqlSetup, async_trait, cases};
use memory_core::{Provider, Result};
use memory_postgres::PostgresProvider;

/// One database for all cases: they differ in their tenants.
struct Server {
    name: &'static str,
    place: sql::Place,
}

#[async_trait]
impl Harness for Server {
    fn name(&self) -> &str {
        self.name
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let mut config = self.place.config();
        if let Some(options) = &mut config.sql {
            options.shared = vec!["facts".to_owned()];
            if let Some(idle) = fixture.tx_idle {
                options.tx_idle_ms = idle.as_millis().try_into().unwrap();
            }
        }
        let provider = PostgresProvider::open_with_clock(config, fixture.clock.clone()).await?;
        Ok(Box::new(provider.with_embedder(fixture.embedder.clone())))
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        self.open(fixture.clone()).await.map(Some)
    }

    fn sql_setup(&self) -> SqlSetup {
        SqlSetup::default().with_tx_idle().with_shared_data()
    }
}

fn on(variable: &str, name: &'static str) -> Vec<Trial> {
    let Some(place) = sql::Place::fresh(variable) else { return Vec::new() };
    place.run("CREATE SCHEMA facts");
    for statement in SHARED_DATA {
        place.run(&statement.replace("conformance_shared", "facts.conformance_shared"));
    }
    let harness: Arc<dyn Harness> = Arc::new(Server { name, place });
    let expected = ExpectedFailures::parse("").map_err(|error| error.to_string());
    let about_sql: HashSet<&str> =
        cases::all().iter().filter(|case| case.is_sql()).map(|case| case.id).collect();
    let ours = |trial: &Trial| about_sql.contains(trial.name());
    trials(&harness, expected, Duration::from_secs(120)).into_iter().filter(ours).collect()
}

fn main() -> ExitCode {
    let mut all = on(support::SERVER, "postgres");
    for trial in on(support::PLAIN_SERVER, "postgres without pgvector") {
        all.push(trial.with_kind("plain"));
    }
    libtest_mimic::run(&Arguments::from_args(), all).exit_code()
}
