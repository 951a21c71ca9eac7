//! Opens databases for the suite: one for all cases of a configuration, with separate tenants per case.

use memory_conformance::{Fixture, Harness, SHARED_DATA, SqlSetup, async_trait};
use memory_core::{Provider, Result};
use memory_postgres::{PostgresConfig, PostgresProvider, Prepared};

use crate::support::Database;
use crate::support::sql::Place;

/// Entries in one database, reopened by each case.
pub(crate) struct Entries {
    /// Dropped with this value.
    _database: Database,
    config: PostgresConfig,
    embeds: bool,
}

impl Entries {
    pub(crate) fn new(database: Database) -> Self {
        // Many cases run at once, some with several handles.
        let config = database.config().with_pool_size(4);
        Self { _database: database, config, embeds: true }
    }

    /// As behind a pooler in transaction mode.
    pub(crate) fn without_prepared_statements(mut self) -> Self {
        self.config = self.config.with_prepared(Prepared::Off);
        self
    }

    /// Without vectors.
    pub(crate) fn without_embedder(mut self) -> Self {
        self.embeds = false;
        self
    }
}

#[async_trait]
impl Harness for Entries {
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

/// Entries in one database, and agents' SQL in another.
pub(crate) struct Sql {
    name: &'static str,
    place: Place,
    shares: bool,
}

impl Sql {
    pub(crate) fn new(name: &'static str, place: Place) -> Self {
        Self { name, place, shares: false }
    }

    pub(crate) fn with_shared_data(self) -> Self {
        self.place.run("CREATE SCHEMA facts");
        for statement in SHARED_DATA {
            self.place.run(&statement.replace("conformance_shared", "facts.conformance_shared"));
        }
        Self { shares: true, ..self }
    }
}

#[async_trait]
impl Harness for Sql {
    fn name(&self) -> &str {
        self.name
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let mut config = self.place.config();
        if let Some(options) = &mut config.sql {
            options.shared.extend(self.shares.then(|| "facts".to_owned()));
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
        let setup = SqlSetup::default().with_tx_idle();
        if self.shares { setup.with_shared_data() } else { setup }
    }
}
