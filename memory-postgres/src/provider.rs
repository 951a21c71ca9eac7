//! The provider: opening, closing, capabilities, health.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Capabilities, Clock, Embedder, Health, HealthStatus, Provider, Result, ScopeId, TenantId};

use crate::config::PostgresConfig;
use crate::error::Effect;
use crate::store::{Store, Time};

/// Memory in a PostgreSQL database, which any number of processes may share.
#[derive(Debug)]
pub struct PostgresProvider {
    pub(crate) store: Arc<Store>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
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
        let store = Store::open(config, time).await?;
        Ok(Self { store, embedder: None })
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
        self.store.connections.close();
        Ok(())
    }
}

impl Drop for PostgresProvider {
    fn drop(&mut self) {
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
        capabilities
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

    async fn end_run(&self, _tenant: &TenantId, _root_run: &ScopeId) -> Result<()> {
        Ok(())
    }
}
