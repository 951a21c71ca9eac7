//! A provider whose SQL runs in worker processes.

use async_trait::async_trait;
use memory_core::sql::SqlScopesQuery;
use memory_core::{
    Capabilities, EraseTarget, Health, HealthStatus, Hook, Next, Provider, Reply, Request, Result, ScopeId,
    SqlFacet, TenantId,
};

use super::facet::SqlWorkers;
use super::options::WorkerOptions;
use crate::memory::Memory;

/// The worker processes alone: SQL and nothing else.
#[derive(Debug)]
struct Workers {
    processes: SqlWorkers,
    capabilities: Capabilities,
}

#[async_trait]
impl Provider for Workers {
    fn name(&self) -> &str {
        "sql-workers"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        Some(&self.processes)
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health::new(HealthStatus::Ok, "the workers are started by the first call"))
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.processes.end_run(tenant, root_run).await
    }
}

/// Sends SQL to the workers and everything else to the store.
#[async_trait]
impl Hook for Workers {
    async fn around(&self, request: Request, next: Next<'_>) -> Result<Reply> {
        if request.op().facet() == "SqlFacet" {
            return Next::to(self).run(request).await;
        }
        // An open transaction would keep its database from being dropped, so the workers end theirs first. During an
        // eviction, an open one keeps the scope, as it does within one process.
        match &request {
            Request::EndRun { tenant, root_run } => self.end_run(tenant, root_run).await?,
            Request::Erase { target } => self.drop_databases(target).await?,
            _ => {}
        }
        next.run(request).await
    }
}

impl Workers {
    async fn drop_databases(&self, target: &EraseTarget) -> Result<()> {
        match target {
            EraseTarget::Tenant(tenant) => {
                let mut query = SqlScopesQuery::default();
                loop {
                    let page = self.processes.sql_scopes(tenant, query.clone()).await?;
                    for (scope, _) in &page.scopes {
                        self.processes.drop_sql_scope(scope).await?;
                    }
                    let Some(next) = page.next else { return Ok(()) };
                    query.cursor = Some(next);
                }
            }
            EraseTarget::Scope(scope) => self.processes.drop_sql_scope(scope).await.map(drop),
            _ => Ok(()),
        }
    }
}

impl Memory {
    /// Runs this memory's SQL in worker processes. A store without SQL is unchanged.
    ///
    /// # Errors
    /// `invalid_argument` if the number of processes is out of range.
    pub fn with_sql_workers(self, options: WorkerOptions) -> Result<Self> {
        if self.sql().is_none() {
            return Ok(self);
        }
        let workers = Workers { processes: SqlWorkers::new(options)?, capabilities: self.capabilities() };
        self.with_hook(workers)
    }
}
