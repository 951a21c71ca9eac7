//! The provider: opening, closing, capabilities, health.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, Clock, Embedder, EmbeddingOwner, Health, HealthStatus, Provider, Result, Scope,
    ScopeId, ScopeKind, SqlDialect, SqlFacet, TenantId,
};
use tokio::task::AbortHandle;

use crate::config::PostgresConfig;
use crate::error::Effect;
use crate::kv;
use crate::kv::embed::Timed;
use crate::kv::sweep;
use crate::search::index;
use crate::sql::{Engine, Exposure};
use crate::store::{Store, Time};

/// How long an embedder may take for one call.
const EMBED_TIMEOUT: Duration = Duration::from_secs(30);

/// Memory in a PostgreSQL database, which any number of processes may share.
#[derive(Debug)]
pub struct PostgresProvider {
    pub(crate) store: Arc<Store>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    /// `None`: no database for agents' SQL is configured.
    pub(crate) sql: Option<Arc<Engine>>,
    background: AbortHandle,
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
        let background = tokio::spawn(sweep::run(Arc::downgrade(&store))).abort_handle();
        Ok(Self { store, embedder: None, sql, background })
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
        self.embedder = Some(Arc::new(Timed::new(embedder, EMBED_TIMEOUT)));
        self
    }

    /// Reclaims the room of what has expired by now, and of dropped scopes. Nothing that can be read changes.
    /// Returns how many expired entries there were.
    ///
    /// # Errors
    /// `unavailable`; what was reclaimed before stays so.
    pub async fn sweep(&self) -> Result<u64> {
        sweep::sweep(&self.store).await
    }

    /// Makes the indexes of vectors that pay by now, as otherwise happens in the background, and removes those of scopes
    /// that are gone. Returns how many were made.
    ///
    /// # Errors
    /// `forbidden` where the database user does not own the table; `unavailable`. What was made stays.
    pub async fn index_vectors(&self) -> Result<u64> {
        index::maintain(&self.store).await
    }

    /// Writes the access counts that are held in memory.
    ///
    /// # Errors
    /// `unavailable`; the counts stay held.
    pub async fn flush(&self) -> Result<()> {
        sweep::accesses(&self.store).await
    }

    /// Writes what is held and ends the connections; every later call is `unavailable`. Closing again succeeds.
    ///
    /// # Errors
    /// `unavailable` where the access counts held could not be written; the connections are ended all the same.
    pub async fn close(&self) -> Result<()> {
        if let Some(engine) = &self.sql {
            engine.close();
        }
        self.background.abort();
        let written = match self.store.accesses.keys() {
            0 => Ok(()),
            _ => self.flush().await,
        };
        self.store.connections.close();
        written
    }
}

impl Drop for PostgresProvider {
    /// What is held is written in the background, where the runtime lives on; [`close`](Self::close) waits for it.
    fn drop(&mut self) {
        if let Some(engine) = &self.sql {
            engine.close();
        }
        self.background.abort();
        let store = Arc::clone(&self.store);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if store.accesses.keys() > 0 => {
                runtime.spawn(async move {
                    let _ = sweep::accesses(&store).await;
                    store.connections.close();
                });
            }
            _ => store.connections.close(),
        }
    }
}

#[async_trait]
impl Provider for PostgresProvider {
    fn name(&self) -> &str {
        "postgres"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        capabilities.kv = true;
        capabilities.lexical_search = true;
        capabilities.stats = true;
        capabilities.compare_and_set = true;
        capabilities.quotas = true;
        capabilities.atomic_import = true;
        capabilities.tenants = true;
        if self.embedder.is_some() && self.store.vector.is_some() {
            capabilities.vector_search = true;
            capabilities.embedding = EmbeddingOwner::Embedder;
        }
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

    fn backend(&self) -> Option<&dyn Backend> {
        Some(self)
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
        let of_sql = match &self.sql {
            Some(engine) => engine.end_run(tenant, root_run).await,
            None => Ok(()),
        };
        let of_entries =
            self.drop_scope(&Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone())).await.map(drop);
        of_sql.and(of_entries)
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        let mut tenants: BTreeSet<TenantId> =
            kv::read::tenants(&self.store, after, limit).await?.into_iter().collect();
        if let Some(engine) = &self.sql {
            tenants.extend(engine.tenants(after, limit).await?);
        }
        Ok(tenants.into_iter().take(limit).collect())
    }
}
