//! [`Provider`]: everything but the layer passes through.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, Consistency, EraseTarget, Erased, EvictOutcome, Figure, Health, MemoryLayer,
    Provider, ReadSnapshot, Reclaimed, Result, Scope, ScopeId, ScopeUsesPage, ScopeUsesQuery, SqlFacet,
    TenantId, Timestamp, Tombstone, TombstoneId, TombstonesOf,
};

use crate::recall::Recall;

/// What the layer adds to the capabilities of a provider.
pub fn advertise(capabilities: &mut Capabilities) {
    capabilities.memory_layer = true;
    capabilities.layer_sync = capabilities.consistency == Consistency::ReadYourWrites;
    capabilities.layer_forget = true;
    capabilities.layer_verbatim = true;
    capabilities.layer_metadata = true;
    capabilities.layer_threshold = true;
    capabilities.layer_ids = true;
    capabilities.layer_idempotent = true;
    capabilities.layer_supersede = true;
    capabilities.layer_confirm = true;
    capabilities.layer_expiry = true;
    capabilities.layer_sessions = true;
}

#[async_trait]
impl<P: Provider> Provider for Recall<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        if self.serves {
            advertise(&mut capabilities);
        }
        capabilities
    }

    fn backend(&self) -> Option<&dyn Backend> {
        self.inner.backend()
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        if self.serves { Some(self) } else { self.inner.layer() }
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        self.inner.sql()
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.inner.figures();
        if self.serves {
            figures.extend(self.counts.figures());
        }
        figures
    }

    async fn health(&self) -> Result<Health> {
        self.inner.health().await
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.inner.end_run(tenant, root_run).await?;
        self.cache.drop_scope(&Scope::run(tenant.as_str(), root_run.as_str())?);
        Ok(())
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        self.inner.tenants(after, limit).await
    }

    async fn read_snapshot(&self) -> Result<Arc<dyn ReadSnapshot>> {
        self.inner.read_snapshot().await
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        // Words of erased turns must not stay in memory, whatever the call's outcome.
        let erased = self.inner.erase(target).await;
        self.cache.clear();
        erased
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        self.inner.tombstones(of, after, limit).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        self.inner.bury(tombstones).await
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        self.inner.scope_uses(tenant, query).await
    }

    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        let evicted = self.inner.evict(scope, unused_since).await;
        self.cache.drop_scope(scope);
        evicted
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        self.inner.reclaim().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
