//! The reference provider: every operation that belongs to no facet.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, EraseTarget, Erased, EvictOutcome, Health, HealthStatus, MemoryLayer, Op,
    Provider, ReadSnapshot, Reclaimed, Result, Scope, ScopeId, ScopeKind, ScopeUsesPage, ScopeUsesQuery,
    TenantId, Timestamp, Tombstone, TombstoneId, TombstonesOf,
};

use super::fault::Fault;
use super::store::{NAME, Reference};

#[async_trait]
impl Provider for Reference {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn backend(&self) -> Option<&dyn Backend> {
        self.capabilities.kv.then_some(self as _)
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        self.layer.as_ref().map(|layer| layer as _)
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health::new(HealthStatus::Ok, "in memory"))
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        let scope = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
        self.end(&scope);
        if let Some(layer) = &self.layer {
            layer.end(&scope);
        }
        Ok(())
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        self.require(self.capabilities.tenants, Op::Tenants)?;
        let scopes = self.lock();
        let written = scopes.iter().filter(|(_, state)| state.generation > 0);
        let tenants: std::collections::BTreeSet<TenantId> =
            written.map(|(scope, _)| scope.tenant.clone()).collect();
        let later = tenants.into_iter().filter(|tenant| after.is_none_or(|after| tenant > after));
        Ok(later.take(limit).collect())
    }

    async fn read_snapshot(&self) -> Result<Arc<dyn ReadSnapshot>> {
        self.require(self.capabilities.read_snapshot, Op::ReadSnapshot)?;
        Ok(self.copied())
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        self.require(self.capabilities.eviction, Op::ScopeUses)?;
        self.uses(tenant, &query)
    }

    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        self.require(self.capabilities.eviction, Op::Evict)?;
        Ok(self.judge(scope, unused_since))
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        self.require(self.capabilities.eviction, Op::Reclaim)?;
        Ok(self.reclaim_all())
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        self.require(self.capabilities.erase, Op::Erase)?;
        Ok(self.erase_target(target))
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        self.require(self.capabilities.erase, Op::Tombstones)?;
        Ok(self.tombstones_of(of, after, limit))
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        self.require(self.capabilities.erase, Op::Bury)?;
        self.put_tombstones(tombstones);
        Ok(())
    }

    /// It holds nothing back.
    async fn close(&self) -> Result<()> {
        if self.faults.has(Fault::CloseLosesCounts) {
            let mut scopes = self.lock();
            let entries = scopes.values_mut().flat_map(|state| state.entries.values_mut());
            entries.for_each(|stored| stored.entry.access_count = 0);
        }
        if self.faults.has(Fault::CloseEndsTheStore) {
            self.lock().clear();
        }
        Ok(())
    }
}
