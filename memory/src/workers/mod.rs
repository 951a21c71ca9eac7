//! SQL in processes of its own, so that no tenant's statement takes memory or processor time from another's.
//!
//! SQLite counts the memory of a process as one. [`SqlWorkers`] starts processes that each serve the SQL of a part of
//! the scopes; a statement that brings one down, or has to be ended from outside, costs the transactions of that
//! process and nothing else: it is started again with the next call. The key/value facet stays where it was.
//!
//! The process is any program that calls [`serve`] with a provider opened on the same store: the binary `memory` has
//! the command `sql-worker` for it.
//!
//! What is lost with a process is told: a statement outside a transaction whose reply never came is
//! `outcome_unknown`, a transaction is `transaction_lost`, a read is `unavailable` and may be made again.

mod child;
mod facet;
mod link;
mod wire;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::sql::SqlScopesQuery;
use memory_core::{
    Backend, Capabilities, EraseTarget, Erased, Error, EvictOutcome, Health, MemoryLayer, Moment, Provider,
    Reclaimed, Result, Scope, ScopeId, ScopeUsesPage, ScopeUsesQuery, SqlFacet, TenantId, Timestamp,
    Tombstone, TombstoneId, TombstonesOf,
};

pub use child::{limit_memory, serve};

use crate::memory::Memory;
use link::Worker;

/// How worker processes are started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How many processes: 1 to 64. Each scope belongs to one of them. Default 2.
    pub processes: usize,
    /// Most bytes of one reply; a process that exceeds it is ended. Default 64 MiB.
    pub reply_bytes: usize,
    /// What a call without a deadline may take, before the process is ended. Default 30 s, the default of statements.
    pub deadline: Duration,
    /// What a call may take beyond its deadline, before the process is ended. Default 5 s.
    pub grace: Duration,
}

impl WorkerOptions {
    /// A program and its arguments.
    #[must_use]
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            processes: 2,
            reply_bytes: 64 << 20,
            deadline: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }

    /// Sets how many processes there are.
    #[must_use]
    pub fn with_processes(mut self, processes: usize) -> Self {
        self.processes = processes;
        self
    }

    fn check(&self) -> Result<()> {
        if (1..=64).contains(&self.processes) {
            Ok(())
        } else {
            Err(Error::invalid(format!("{} worker processes; there may be 1 to 64", self.processes)))
        }
    }
}

/// The SQL facet, served by worker processes. They are started by the first call that needs them, which must run on a
/// tokio runtime, and end when this is dropped.
#[derive(Debug)]
pub struct SqlWorkers {
    workers: Vec<Worker>,
    options: Arc<WorkerOptions>,
}

impl SqlWorkers {
    /// Starts nothing yet.
    ///
    /// # Errors
    /// `invalid_argument` for a number of processes out of range.
    pub fn new(options: WorkerOptions) -> Result<Self> {
        options.check()?;
        let options = Arc::new(options);
        let workers = (0..options.processes).map(|_| Worker::new(Arc::clone(&options))).collect();
        Ok(Self { workers, options })
    }
}

/// A provider whose SQL runs elsewhere.
#[derive(Debug)]
struct InWorkers {
    memory: Memory,
    workers: SqlWorkers,
}

#[async_trait]
impl Provider for InWorkers {
    fn name(&self) -> &str {
        self.memory.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn backend(&self) -> Option<&dyn Backend> {
        self.memory.backend()
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        self.memory.layer()
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        self.memory.sql().map(|_| &self.workers as &dyn SqlFacet)
    }

    async fn health(&self) -> Result<Health> {
        self.memory.health().await
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        // First the transactions of the run, which would keep its database from being dropped.
        self.workers.end_run(tenant, root_run).await?;
        self.memory.end_run(tenant, root_run).await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        self.memory.tenants(after, limit).await
    }

    async fn moment(&self) -> Result<Arc<dyn Moment>> {
        self.memory.moment().await
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        // First in the processes, whose open transactions would keep a database from being dropped.
        match target {
            EraseTarget::Tenant(tenant) => {
                let mut query = SqlScopesQuery::default();
                loop {
                    let page = self.workers.sql_scopes(tenant, query.clone()).await?;
                    for (scope, _) in &page.scopes {
                        self.workers.drop_sql_scope(scope).await?;
                    }
                    let Some(next) = page.next else { break };
                    query.cursor = Some(next);
                }
            }
            EraseTarget::Scope(scope) => drop(self.workers.drop_sql_scope(scope).await?),
            _ => {}
        }
        self.memory.erase(target).await
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        self.memory.tombstones(of, after, limit).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        self.memory.bury(tombstones).await
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        self.memory.scope_uses(tenant, query).await
    }

    /// A transaction that a worker has open holds the scope's database, and so keeps it.
    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        self.memory.evict(scope, unused_since).await
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        self.memory.reclaim().await
    }
}

impl Memory {
    /// Runs this memory's SQL in worker processes. A store without SQL stays as it is.
    ///
    /// # Errors
    /// `invalid_argument` for a number of processes out of range.
    pub fn with_sql_workers(self, options: WorkerOptions) -> Result<Self> {
        if self.sql().is_none() {
            return Ok(self);
        }
        let model = self.embedding_model().cloned();
        let backups = self.drift_backups().map(std::path::Path::to_path_buf);
        let workers = SqlWorkers::new(options)?;
        let memory = Self::new(Arc::new(InWorkers { memory: self, workers }))?;
        let memory = match model {
            Some(model) => memory.with_embedding_model(model),
            None => memory,
        };
        Ok(match backups {
            Some(folder) => memory.with_drift_backups(folder),
            None => memory,
        })
    }
}
