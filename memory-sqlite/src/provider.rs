//! The provider: opening, closing, capabilities, health.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, Clock, DriftPolicy, Embedder, EmbeddingOwner, EraseTarget, Erased, EvictOutcome,
    Health, HealthStatus, Moment, Provider, Reclaimed, Result, Scope, ScopeId, ScopeUsesPage, ScopeUsesQuery,
    SqlDialect, SqlFacet, TenantId, Timestamp, Tombstone, TombstoneId, TombstonesOf,
};

use crate::config::SqliteConfig;
use crate::erase;
use crate::error::engine;
use crate::sql::Engine;
use crate::store::Store;
use crate::writer::Cost;

/// Memory in one SQLite file, which several processes may share, or in memory alone.
///
/// Dropping it writes the access counts held and ends its threads; [`close`](Self::close) does so without holding
/// up an executor.
#[derive(Debug)]
pub struct SqliteProvider {
    pub(crate) store: Arc<Store>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) sql: Arc<Engine>,
}

impl SqliteProvider {
    /// Opens the database of this path, or creates it: the file with mode 0600, missing folders with 0700.
    ///
    /// Blocks for some milliseconds; where another process holds the file, for up to the busy timeout.
    ///
    /// # Errors
    /// `corrupt` for a file that is no SQLite database, another program's, a newer version's, or damaged; it is not
    /// touched. `invalid_argument` for a symbolic link, a folder, or a configuration out of range. `read_only`,
    /// `unavailable` as the file system has it.
    pub fn open(path: impl AsRef<Path>, config: SqliteConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        Store::open(Some(path.as_ref()), config, clock).and_then(Self::over)
    }

    /// Opens an empty database in memory, which ends with the provider.
    ///
    /// # Errors
    /// `invalid_argument` for a configuration out of range.
    pub fn open_in_memory(config: SqliteConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        Store::open(None, config, clock).and_then(Self::over)
    }

    fn over(store: Arc<Store>) -> Result<Self> {
        match Engine::new(&store, store.database()) {
            Ok(sql) => {
                let provider = Self { store, embedder: None, sql };
                provider.finish_what_was_left();
                Ok(provider)
            }
            Err(error) => {
                store.close();
                Err(error)
            }
        }
    }

    /// Where a process died in an eviction or a run's end: does what it left. Nobody sees half of it in any case.
    fn finish_what_was_left(&self) {
        let found = self.store.readers.inline(crate::leave::leaving);
        if matches!(found, Some(Ok(scopes)) if !scopes.is_empty())
            && let Err(error) = crate::block::block_on(self.sql.complete_all())
        {
            tracing::warn!(%error, "what an eviction or the end of a run left is finished later");
        }
    }

    /// Embeds what is written from now on, and searches by meaning. Call it right after opening.
    ///
    /// Without an embedder the provider advertises no vectors; those that the file holds stay with their entries,
    /// leave with them, and are exported and imported.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Reclaims the room of what has expired by now, and of dropped scopes. Nothing that can be read changes.
    /// Returns how many expired entries there were.
    ///
    /// # Errors
    /// `unavailable`; what was reclaimed before stays so.
    pub async fn sweep(&self) -> Result<u64> {
        self.aside(|store| store.sweep()).await
    }

    /// Writes the access counts that are held in memory.
    ///
    /// # Errors
    /// `unavailable`; the counts stay held.
    pub async fn flush(&self) -> Result<()> {
        self.aside(|store| store.flush()).await
    }

    /// Writes what is held and ends the threads; every later call is `unavailable`. Closing again succeeds.
    ///
    /// # Errors
    /// `unavailable` where no thread can be started to do it.
    pub async fn close(&self) -> Result<()> {
        let sql = Arc::clone(&self.sql);
        self.aside(move |store| {
            sql.close();
            store.close();
            Ok(())
        })
        .await
    }

    /// Does what waits on a thread of its own.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = Arc::clone(&self.store);
        crate::moment::aside(move || {
            let done = work(&store);
            // Who was answered may drop the provider, which then closes the files.
            drop(store);
            done
        })
        .await
    }
}

impl Drop for SqliteProvider {
    fn drop(&mut self) {
        self.sql.close();
        self.store.close();
    }
}

#[async_trait]
impl Provider for SqliteProvider {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        capabilities.kv = true;
        capabilities.lexical_search = true;
        capabilities.stats = true;
        capabilities.compare_and_set = true;
        capabilities.quotas = true;
        capabilities.drift = vec![DriftPolicy::Row, DriftPolicy::Strict];
        capabilities.atomic_import = true;
        capabilities.tenants = true;
        capabilities.moment = self.store.is_file();
        capabilities.erase = true;
        capabilities.eviction = true;
        capabilities.run_fence = self.store.config.run_fence_ms > 0;
        if self.embedder.is_some() {
            capabilities.vector_search = true;
            capabilities.embedding = EmbeddingOwner::Embedder;
        }
        capabilities.sql = true;
        capabilities.sql_dialect = Some(SqlDialect::Sqlite);
        capabilities.sql_transactions = true;
        capabilities.sql_entries = true;
        capabilities.sql_vectors = self.embedder.is_some();
        capabilities.shared_schemas = !self.sql.config.shared.is_empty();
        capabilities.max_value_bytes = self.store.config.max_value_bytes;
        capabilities
    }

    fn backend(&self) -> Option<&dyn Backend> {
        Some(self)
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        Some(self)
    }

    async fn health(&self) -> Result<Health> {
        if self.store.is_displaced() {
            return Ok(Health::new(
                HealthStatus::Down,
                "the database file was moved, deleted or replaced while it was open; open it again",
            ));
        }
        let read = self
            .store
            .workers
            .run(|connection| {
                connection
                    .query_row("SELECT count(*) FROM sequence", [], |row| row.get::<_, i64>(0))
                    .map_err(engine)
            })
            .await;
        Ok(match read {
            Ok(_) => Health::new(HealthStatus::Ok, "the database reads"),
            Err(error) => Health::new(HealthStatus::Down, error.message().to_owned()),
        })
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.sql.end_run(tenant, root_run).await
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        self.sql.scope_uses(tenant, query).await
    }

    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        self.sql.evict(scope, unused_since).await
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        let unfinished = self.sql.complete_all().await?;
        let mut reclaimed = self.aside(Store::reclaim_all).await?;
        reclaimed.unfinished = unfinished;
        Ok(reclaimed)
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        let from = after.cloned();
        let of_entries = self
            .store
            .workers
            .run(move |connection| {
                crate::read::tenants(connection, from.as_ref(), limit).map_err(memory_core::Error::from)
            })
            .await?;
        let mut tenants: std::collections::BTreeSet<TenantId> = of_entries.into_iter().collect();
        tenants.extend(self.sql.tenants(after).await?);
        Ok(tenants.into_iter().take(limit).collect())
    }

    async fn moment(&self) -> Result<Arc<dyn Moment>> {
        Ok(Arc::new(crate::moment::Moment::begin(&self.store).await?))
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        let of_entries = target.clone();
        let mut erased = self.aside(move |store| erase::entries(store, &of_entries)).await?;
        erased.databases = match target {
            EraseTarget::Tenant(tenant) => self.sql.drop_tenant(tenant).await?,
            EraseTarget::Scope(scope) => {
                let dropped = self.sql.drop_scope(scope).await?;
                self.sql.discard_left(&scope.tenant).await?;
                u64::from(dropped)
            }
            _ => 0,
        };
        let of_names = target.clone();
        self.aside(move |store| erase::names(store, &of_names)).await?;
        erased.remains = self.aside(erase::scrub).await?;
        Ok(erased)
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        let (of, after) = (of.clone(), after.copied());
        let read = move |connection: &rusqlite::Connection| {
            erase::list(connection, &of, after, limit).map_err(memory_core::Error::from)
        };
        self.store.workers.run(read).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        let tombstones = tombstones.to_vec();
        let bury = move |batch: &mut crate::batch::Batch<'_>| erase::bury(batch, &tombstones);
        self.store.writer.submit(Cost::slow(0), bury).await
    }
}
