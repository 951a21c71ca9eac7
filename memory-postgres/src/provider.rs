//! The provider: opening, closing, capabilities, health.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Capabilities, Clock, Embedder, Health, HealthStatus, Provider, Result, ScopeId, SqlDialect, SqlFacet,
    TenantId,
};

use crate::config::PostgresConfig;
use crate::error::Effect;
use crate::sql::{Engine, Exposure};
use crate::store::{Store, Time};

/// Memory in a PostgreSQL database, which any number of processes may share.
#[derive(Debug)]
pub struct PostgresProvider {
    pub(crate) store: Arc<Store>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    /// `None`: no database for agents' SQL is configured.
    pub(crate) sql: Option<Arc<Engine>>,
}

impl PostgresProvider {
    /// Connects to the database and creates or updates its tables, where the configuration lets it. Time is the
    /// server's.
    ///
    /// # Errors
    /// `invalid_argument` for a configuration out of range; `unavailable`, `unauthenticated`, `forbidden`, `not_found` as
    /// the server answers; `corrupt` for tables of a newer version, which are not touched.
    pub async fn open(config: PostgresConfig) -> Result<Self> {
        Self::over(config, Time::Server).await
    }

    /// As [`open`](Self::open), with a clock that replaces the server's in every decision. Replicas of one database
    /// should not differ in their clocks: this is for tests and for simulations.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with_clock(config: PostgresConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::over(config, Time::Given(clock)).await
    }

    async fn over(config: PostgresConfig, time: Time) -> Result<Self> {
        let (sql, base_dir) = (config.sql.clone(), config.base_dir.clone());
        let store = Store::open(config, time).await?;
        let sql = match sql {
            Some(sql) => match Engine::open(sql, base_dir.as_deref()).await {
                Ok(engine) => Some(engine),
                Err(error) => {
                    store.connections.close();
                    return Err(error);
                }
            },
            None => None,
        };
        Ok(Self { store, embedder: None, sql })
    }

    /// What roles of scopes can read of each other, past the validator, since the server does not let the administrator of
    /// agents' SQL hide it. Empty: nothing, or no SQL is served.
    #[must_use]
    pub fn sql_exposures(&self) -> &[Exposure] {
        self.sql.as_ref().map_or(&[], |engine| engine.exposures())
    }

    /// Embeds what is written from now on, and searches by meaning, where the server has pgvector. Call it right after
    /// opening.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Ends the connections; every later call is `unavailable`. Closing again succeeds.
    ///
    /// # Errors
    /// None so far.
    pub async fn close(&self) -> Result<()> {
        if let Some(engine) = &self.sql {
            engine.close();
        }
        self.store.connections.close();
        Ok(())
    }
}

impl Drop for PostgresProvider {
    fn drop(&mut self) {
        if let Some(engine) = &self.sql {
            engine.close();
        }
        self.store.connections.close();
    }
}

#[async_trait]
impl Provider for PostgresProvider {
    fn name(&self) -> &str {
        "postgres"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        capabilities.max_value_bytes = self.store.config.max_value_bytes;
        if let Some(engine) = &self.sql {
            capabilities.sql = true;
            capabilities.sql_dialect = Some(SqlDialect::Postgres);
            capabilities.sql_transactions = true;
            capabilities.sql_vectors = self.embedder.is_some() && engine.found.vector.is_some();
            capabilities.shared_schemas = !engine.config.shared.is_empty();
        }
        capabilities
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        self.sql.is_some().then_some(self as &dyn SqlFacet)
    }

    async fn health(&self) -> Result<Health> {
        let asked = async {
            let connection = self.store.connections.read().await?;
            connection.query("SELECT pg_is_in_recovery()", &[], Effect::None).await
        };
        Ok(match asked.await {
            Ok(_) => Health::new(HealthStatus::Ok, "the database reads"),
            Err(error) => Health::new(HealthStatus::Down, error.message().to_owned()),
        })
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        match &self.sql {
            Some(engine) => engine.end_run(tenant, root_run).await,
            None => Ok(()),
        }
    }
}
