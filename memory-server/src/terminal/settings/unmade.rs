//! A store that was never created.

use std::sync::Arc;

use memory::{BackendUrl, Memory, async_trait};
use memory_core::{
    Backend, Capabilities, Health, MemoryLayer, Provider, ReadSnapshot, Result, SqlDialect, SqlFacet,
    TenantId, Tombstone, TombstoneId, TombstonesOf,
};

/// Empty, but with the SQL dialect that the store will have.
#[derive(Debug)]
pub(super) struct Unmade {
    memory: Memory,
    dialect: Option<SqlDialect>,
}

impl Unmade {
    /// # Errors
    /// As [`Memory::new`].
    pub(super) fn like(url: &BackendUrl, memory: Memory) -> Result<Memory> {
        let dialect = match url.scheme() {
            "sqlite" => return Ok(memory),
            "postgres" | "postgresql" if url.parameters()?.contains_key("sql.url") => {
                Some(SqlDialect::Postgres)
            }
            _ => None,
        };
        Memory::new(Arc::new(Self { memory, dialect }))
    }
}

#[async_trait]
impl Provider for Unmade {
    fn name(&self) -> &str {
        self.memory.name()
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.memory.capabilities();
        let serves = self.dialect.is_some();
        (capabilities.sql, capabilities.sql_dialect) = (serves, self.dialect);
        capabilities.sql_transactions &= serves;
        capabilities.sql_vectors &= serves;
        capabilities.sql_entries &= serves;
        capabilities.shared_schemas &= serves;
        capabilities.host_tables &= serves;
        capabilities
    }

    fn backend(&self) -> Option<&dyn Backend> {
        self.memory.backend()
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        self.memory.layer()
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        self.memory.sql().filter(|_| self.dialect.is_some())
    }

    async fn health(&self) -> Result<Health> {
        self.memory.health().await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        self.memory.tenants(after, limit).await
    }

    async fn read_snapshot(&self) -> Result<Arc<dyn ReadSnapshot>> {
        self.memory.read_snapshot().await
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        self.memory.tombstones(of, after, limit).await
    }
}
