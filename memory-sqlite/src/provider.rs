//! The provider: opening, closing, capabilities, health.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, Clock, DriftPolicy, Embedder, EmbeddingOwner, Health, HealthStatus, Provider,
    Result, Scope, ScopeId, ScopeKind, SqlDialect, SqlFacet, TenantId,
};

use crate::config::SqliteConfig;
use crate::error::engine;
use crate::sql::Engine;
use crate::store::Store;

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
            Ok(sql) => Ok(Self { store, embedder: None, sql }),
            Err(error) => {
                store.close();
                Err(error)
            }
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
        let (reply, answer) = tokio::sync::oneshot::channel();
        let store = Arc::clone(&self.store);
        std::thread::Builder::new()
            .name("memory-sqlite-aside".to_owned())
            .spawn(move || {
                let done = work(&store);
                // Who was answered may drop the provider, which then closes the files.
                drop(store);
                let _ = reply.send(done);
            })
            .map_err(|error| {
                memory_core::Error::new(
                    memory_core::ErrorKind::Unavailable,
                    "no thread can be started; try again",
                )
                .with_source(error)
            })?;
        answer.await.unwrap_or_else(|_| Err(crate::error::lost()))
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
        let of_sql = self.sql.end_run(tenant, root_run).await;
        let of_entries =
            self.drop_scope(&Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone())).await.map(drop);
        of_sql.and(of_entries)
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
}
