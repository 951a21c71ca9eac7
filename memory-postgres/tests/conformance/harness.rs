//! How the suite opens databases: one for the whole run, in which every case has tenants of its own.
#![allow(dead_code, unreachable_pub, reason = "included by several test files, each using a part")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use memory_conformance::{Fixture, Harness, async_trait};
use memory_core::{Provider, Result};
use memory_postgres::{PostgresConfig, PostgresProvider, Prepared};

use crate::support::Database;

/// A database for all cases, opened anew by each.
pub struct Server {
    config: PostgresConfig,
    embeds: bool,
}

impl Server {
    pub fn new(database: &Database) -> Self {
        // Many cases run at the same time, some with several handles.
        let config = database.config().with_pool_size(4);
        Self { config, embeds: true }
    }

    /// As behind a pooler in transaction mode.
    pub fn without_prepared_statements(mut self) -> Self {
        self.config = self.config.with_prepared(Prepared::Off);
        self
    }

    /// Serves no vectors.
    pub fn without_embedder(mut self) -> Self {
        self.embeds = false;
        self
    }
}

#[async_trait]
impl Harness for Server {
    fn name(&self) -> &str {
        "postgres"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let provider = PostgresProvider::open_with_clock(self.config.clone(), fixture.clock.clone()).await?;
        Ok(Box::new(if self.embeds { provider.with_embedder(fixture.embedder.clone()) } else { provider }))
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        self.open(fixture.clone()).await.map(Some)
    }
}

/// Runs the suite on a database that ends with it. Without a server the suite is skipped, which is said.
pub fn main(
    database: impl Future<Output = Option<Database>>,
    harness: impl FnOnce(&Database) -> Server,
) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let Some(database) = runtime.block_on(database) else { return ExitCode::SUCCESS };
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected-failures.toml");
    memory_conformance::trials::main(Arc::new(harness(&database)), &expected)
}
