//! The provider: opening, closing, capabilities, health.

mod backend;
mod processes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, Clock, DriftPolicy, Embedder, EmbeddingOwner, EraseTarget, Erased, Error,
    ErrorKind, EvictOutcome, Figure, Health, HealthStatus, Key, Provider, ReadSnapshot, Reclaimed, Result,
    Scope, ScopeId, ScopeKind, ScopeUsesPage, ScopeUsesQuery, SqlDialect, SqlFacet, TenantId, Timestamp,
    Tombstone, TombstoneId, TombstonesOf,
};
use tokio::task::AbortHandle;

use crate::config::PostgresConfig;
use crate::kv::{access, expiry, read};
use crate::lifecycle::snapshot::SharedSnapshot;
use crate::lifecycle::{background, erase, eviction, tombstones, uses};
use crate::sql::{Engine, Exposure};
use crate::store::scope_ref::ScopeRef;
use crate::store::{Store, Time};
use crate::vector::embed::Timed;
use crate::vector::index;

/// Timeout of a call to the embedder.
const EMBED_TIMEOUT: Duration = Duration::from_secs(30);

/// Memory in a PostgreSQL database, which any number of processes may share.
#[derive(Debug)]
pub struct PostgresProvider {
    pub(crate) store: Arc<Store>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    /// `None` if no database for agents' SQL is configured.
    pub(crate) sql: Option<Arc<Engine>>,
    /// Whether other processes serve agents' SQL with these entries while this one does not: it does not know their
    /// databases, so it evicts nothing.
    beside_sql: bool,
    background: AbortHandle,
}

impl PostgresProvider {
    /// Connects to the database and creates or updates its tables, if the configuration allows it. The server's clock
    /// is used.
    ///
    /// # Errors
    /// `invalid_argument` for a configuration out of range; `unavailable`, `unauthenticated`, `forbidden`, `not_found`
    /// depending on the server; `corrupt` for tables of a newer version, which are not touched.
    pub async fn open(config: PostgresConfig) -> Result<Self> {
        Self::over(config, Time::Server).await
    }

    /// As [`open`](Self::open), with a clock that replaces the server's in every decision. All replicas of a database
    /// must use the same clock: for tests and simulations.
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
            Some(sql) => match Engine::open(sql, base_dir.as_deref(), Some(Arc::clone(&store))).await {
                Ok(engine) => Some(engine),
                Err(error) => {
                    store.connections.close();
                    return Err(error);
                }
            },
            None => None,
        };
        let beside_sql = match eviction::note_sql(&store, sql.is_some()).await {
            Ok(noted) => noted && sql.is_none(),
            Err(error) => {
                sql.iter().for_each(|engine| engine.close());
                store.connections.close();
                return Err(error);
            }
        };
        let background = tokio::spawn(background::run(Arc::downgrade(&store))).abort_handle();
        Ok(Self { store, embedder: None, sql, beside_sql, background })
    }

    /// What scopes' roles can read about each other if only the validator prevents it, because the server does not let
    /// the administrator of agents' SQL hide it. Empty if there is nothing, or no SQL is served.
    #[must_use]
    pub fn sql_exposures(&self) -> &[Exposure] {
        self.sql.as_ref().map_or(&[], |engine| engine.exposures())
    }

    /// Refuses an operation on both facets of scopes if this process does not know one of them.
    fn knows_all(&self, operation: &str) -> Result<()> {
        if !self.beside_sql {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "`{operation}` also affects agents' SQL, which other processes serve with these entries and this one is not \
                 configured for: set `sql.url` as they do; if that database is gone for good, have the owner of the \
                 tables set `sql_since` of `uses_since` to NULL, and open the store again"
            ),
        )
        .with_detail("operation", operation)
        .with_detail("provider", "postgres"))
    }

    /// Embeds later writes, and enables search by meaning, if the server has pgvector. Call it right after opening.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(Arc::new(Timed::new(embedder, EMBED_TIMEOUT)));
        self
    }

    /// Reclaims the space of expired entries and dropped scopes. Nothing visible changes. Returns the number of expired
    /// entries.
    ///
    /// # Errors
    /// `unavailable`; what was reclaimed before stays reclaimed.
    pub async fn sweep(&self) -> Result<u64> {
        expiry::sweep(&self.store).await
    }

    /// Builds the vector indexes that are worthwhile by now, as the background task otherwise does, and removes the
    /// others. Returns how many were built.
    ///
    /// # Errors
    /// `forbidden` if the database user does not own the table; `unavailable`. What was built stays.
    pub async fn index_vectors(&self) -> Result<u64> {
        index::maintain(&self.store).await
    }

    /// Writes the access counts held in memory.
    ///
    /// # Errors
    /// `unavailable`; the counts stay in memory.
    pub async fn flush(&self) -> Result<()> {
        access::flush(&self.store).await.and(uses::flush(&self.store).await)
    }
}

impl Drop for PostgresProvider {
    /// Writes the pending access counts in the background, while the runtime lives; [`close`](Provider::close) waits for
    /// it.
    fn drop(&mut self) {
        if let Some(engine) = &self.sql {
            engine.close();
        }
        self.background.abort();
        let store = Arc::clone(&self.store);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if store.accesses.keys() > 0 => {
                runtime.spawn(async move {
                    let _ = access::flush(&store).await;
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
        capabilities.read_snapshot = true;
        capabilities.erase = true;
        capabilities.eviction = !self.beside_sql;
        capabilities.run_fence = !self.beside_sql && self.store.config.run_fence_ms > 0;
        capabilities.drift = vec![DriftPolicy::Row, DriftPolicy::Strict];
        if self.embedder.is_some() && self.store.vector.is_some() {
            capabilities.vector_search = true;
            capabilities.embedding = EmbeddingOwner::Embedder;
        }
        capabilities.max_value_bytes = self.store.config.max_value_bytes;
        if let Some(engine) = &self.sql {
            capabilities.sql = true;
            capabilities.sql_dialect = Some(SqlDialect::Postgres);
            capabilities.sql_transactions = true;
            capabilities.host_tables = true;
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

    fn figures(&self) -> Vec<Figure> {
        let (open, idle, waiting) = self.store.connections.counts();
        let mut figures = vec![
            Figure::gauge("postgres_connections", "Exclusive connections that are open.", open),
            Figure::gauge("postgres_connections_idle", "Those that nobody uses.", idle),
            Figure::gauge("postgres_connections_waiting", "Calls that wait for one.", waiting),
        ];
        figures.extend(self.sql.iter().flat_map(|engine| engine.figures()));
        figures
    }

    async fn health(&self) -> Result<Health> {
        // The same read as every `get`, so that missing or changed tables are noticed.
        let (nobody, nothing) = (ScopeRef::of(&Scope::host("health", "health")?), Key::new("health")?);
        Ok(match read::stored(&self.store, &nobody, &nothing).await {
            Ok(_) => Health::new(HealthStatus::Ok, "the database can be read")
                // If they cannot be listed, that is beside the point.
                .with_processes(processes::connected(&self.store.connections).await.unwrap_or_default()),
            Err(error) => Health::new(HealthStatus::Down, error.message().to_owned()),
        })
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        let scope = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
        match &self.sql {
            Some(engine) => engine.end_run(&scope).await,
            None => eviction::end_run(&self.store, &scope, !self.beside_sql, None).await,
        }
    }

    async fn read_snapshot(&self) -> Result<Arc<dyn ReadSnapshot>> {
        Ok(Arc::new(SharedSnapshot::begin(&self.store).await?))
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        self.knows_all("scope_uses")?;
        match &self.sql {
            Some(engine) => engine.uses(tenant, &query).await,
            None => uses::list(&self.store, tenant, &query).await,
        }
    }

    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        self.knows_all("evict")?;
        match &self.sql {
            Some(engine) => engine.evict(scope, unused_since).await,
            None => eviction::evict(&self.store, scope, unused_since, None).await,
        }
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        self.knows_all("reclaim")?;
        match &self.sql {
            Some(engine) => engine.reclaim().await,
            None => eviction::reclaim(&self.store).await,
        }
    }

    /// Writes the pending access counts and closes the connections; every later call is `unavailable`.
    async fn close(&self) -> Result<()> {
        if let Some(engine) = &self.sql {
            engine.close();
        }
        self.background.abort();
        let is_idle = self.store.accesses.keys() == 0 && self.store.uses.is_empty();
        let written = if is_idle { Ok(()) } else { self.flush().await };
        self.store.connections.close();
        written
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        if !matches!(target, EraseTarget::Key { .. }) {
            self.knows_all("erase")?;
        }
        let mut erased = erase::entries(&self.store, target).await?;
        if let Some(engine) = &self.sql {
            match target {
                EraseTarget::Scope(scope) => erased.databases = u64::from(engine.drop_scope(scope).await?),
                EraseTarget::Tenant(tenant) => loop {
                    let some = engine.some_of(tenant).await?;
                    for scope in &some {
                        erased.databases += u64::from(engine.drop_scope(scope).await?);
                    }
                    if some.is_empty() {
                        break;
                    }
                },
                _ => {}
            }
        }
        erased.remains = erase::scrub(&self.store).await;
        if let Some(engine) = &self.sql {
            erased.remains.extend(engine.scrub().await);
        }
        Ok(erased)
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        tombstones::list(&self.store, of, after, limit).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        tombstones::bury(&self.store, tombstones).await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        let mut tenants: BTreeSet<TenantId> =
            read::tenants(&self.store, None, after, limit).await?.into_iter().collect();
        if let Some(engine) = &self.sql {
            tenants.extend(engine.tenants(after, limit).await?);
        }
        Ok(tenants.into_iter().take(limit).collect())
    }
}
