//! What the provider offers: capabilities, health, and what concerns all facets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, DriftPolicy, EmbeddingOwner, EraseTarget, Erased, Error, EvictOutcome, Figure,
    Health, HealthStatus, Provider, ReadSnapshot, Reclaimed, Result, Scope, ScopeId, ScopeUsesPage,
    ScopeUsesQuery, TenantId, Timestamp, Tombstone, TombstoneId, TombstonesOf,
};

use super::open::SqliteProvider;
use crate::commit::store::Store;
use crate::commit::threads::on_own_thread;
use crate::commit::waits::Stuck;
use crate::commit::writer::Cost;
use crate::error::engine;
use crate::kv::scopes;
use crate::lifecycle::snapshot::Snapshot;
use crate::lifecycle::upkeep::Upkeep;
use crate::lifecycle::{erase, tombstones};

/// How long `health` waits for a reader.
const PATIENCE: Duration = Duration::from_secs(5);

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
        capabilities.read_snapshot = self.store.is_file();
        capabilities.erase = true;
        capabilities.eviction = true;
        capabilities.run_fence = self.store.config.run_fence_ms > 0;
        if self.embedder.is_some() {
            capabilities.vector_search = true;
            capabilities.embedding = EmbeddingOwner::Embedder;
        }
        if self.sql.is_served {
            capabilities.sql = true;
            capabilities.sql_dialect = Some(memory_core::SqlDialect::Sqlite);
            capabilities.sql_transactions = true;
            capabilities.host_tables = true;
            capabilities.sql_entries = true;
            capabilities.sql_vectors = self.embedder.is_some();
            capabilities.shared_schemas = !self.store.config.sql.shared.is_empty();
        }
        capabilities.max_value_bytes = self.store.config.max_value_bytes;
        capabilities
    }

    fn backend(&self) -> Option<&dyn Backend> {
        Some(self)
    }

    #[cfg(feature = "sql")]
    fn sql(&self) -> Option<&dyn memory_core::SqlFacet> {
        self.sql.is_served.then_some(self as _)
    }

    fn figures(&self) -> Vec<Figure> {
        let store = &self.store;
        let (writes, reads) = (store.writer.waiting(), store.workers.waiting());
        let own = [
            Figure::gauge("sqlite_writes_waiting", "Writes that wait for the database's connection.", writes),
            Figure::gauge("sqlite_reads_waiting", "Long reads and searches that wait for a thread.", reads),
        ];
        #[cfg(feature = "sql")]
        let of_sql = self.sql.figures();
        #[cfg(not(feature = "sql"))]
        let of_sql = [];
        own.into_iter().chain(self.caches.figures()).chain(of_sql).collect()
    }

    async fn health(&self) -> Result<Health> {
        if self.store.is_displaced() {
            return Ok(Health::new(
                HealthStatus::Down,
                "the database file was moved, deleted or replaced while it was open; open it again",
            ));
        }
        let health = self.blocking(|upkeep| Ok(health(upkeep.store()))).await?;
        #[cfg(feature = "sql")]
        if health.status == HealthStatus::Ok && !self.sql.is_served {
            let message = format!("no SQL for agents: {}", crate::sandbox::heap::TOO_LATE);
            return Ok(Health::new(HealthStatus::Degraded, message));
        }
        Ok(health)
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
        let mut reclaimed = self.blocking(Upkeep::reclaim_all).await?;
        reclaimed.unfinished = unfinished;
        Ok(reclaimed)
    }

    /// Writes what is held in memory and ends the threads; every later call is `unavailable`. If it is already closing,
    /// waits for that.
    async fn close(&self) -> Result<()> {
        let closing = Arc::clone(&self.closing);
        on_own_thread(move || {
            closing.run();
            // The caller may drop the provider once it has its answer; then the files must close.
            drop(closing);
            Ok(())
        })
        .await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        let from = after.cloned();
        let of_entries = self
            .store
            .workers
            .run(move |connection| scopes::tenants(connection, from.as_ref(), limit).map_err(Error::from))
            .await?;
        let mut tenants: BTreeSet<TenantId> = of_entries.into_iter().collect();
        tenants.extend(self.sql.tenants(after).await?);
        Ok(tenants.into_iter().take(limit).collect())
    }

    async fn read_snapshot(&self) -> Result<Arc<dyn ReadSnapshot>> {
        Ok(Arc::new(Snapshot::begin(&self.store).await?))
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        #[cfg(not(feature = "sql"))]
        self.sql.check()?;
        let of_entries = target.clone();
        let caches = self.caches.clone();
        let mut erased =
            self.blocking(move |upkeep| erase::entries(upkeep.store(), &caches, &of_entries)).await?;
        // The entries are gone, so from here on an error must not say that nothing was done.
        erased.databases = self.drop_databases(target).await.map_err(erase::entries_only)?;
        let of = target.clone();
        let cleaned = self.blocking(move |upkeep| erase::clean(upkeep.store(), &of)).await;
        erased.remains = cleaned.unwrap_or_else(|error| erase::unclean(&error));
        Ok(erased)
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        let (of, after) = (of.clone(), after.copied());
        self.store.read_on_worker(move |connection| tombstones::list(connection, &of, after, limit)).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        let buried = tombstones.to_vec();
        self.store.writer.submit(Cost::slow(0), move |batch| tombstones::put_all(batch, &buried)).await
    }
}

impl SqliteProvider {
    async fn drop_databases(&self, target: &EraseTarget) -> Result<u64> {
        Ok(match target {
            EraseTarget::Tenant(tenant) => self.sql.drop_tenant(tenant).await?,
            EraseTarget::Scope(scope) => {
                let dropped = self.sql.drop_scope(scope).await?;
                self.sql.discard_left(&scope.tenant).await?;
                u64::from(dropped)
            }
            _ => 0,
        })
    }
}

/// Checks whether everything that reads and writes need can be read, and whether calls are stuck.
fn health(store: &Store) -> Health {
    let read = store.workers.answers(
        |connection| {
            // Reads from the file: what the connection has cached says nothing about the file's current state.
            let _ = connection.execute_batch("PRAGMA shrink_memory");
            let sql = "SELECT (SELECT max(digest) FROM scope), (SELECT max(space) FROM entry), \
                       (SELECT max(name) FROM sequence)";
            connection.query_row(sql, [], |_| Ok(())).map_err(engine)
        },
        PATIENCE,
    );
    let stuck: Vec<String> =
        [store.writer.stuck(), store.workers.stuck()].iter().flatten().map(Stuck::to_string).collect();
    let stuck = stuck.join("; ");
    match read {
        Some(Err(error)) => Health::new(HealthStatus::Down, error.message().to_owned()),
        None if stuck.is_empty() => Health::new(HealthStatus::Degraded, "no reader was free for 5 s"),
        Some(Ok(())) if stuck.is_empty() => Health::new(HealthStatus::Ok, "the database reads"),
        _ => Health::new(HealthStatus::Degraded, stuck),
    }
}
