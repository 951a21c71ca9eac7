//! [`Provider`]: facets, operators' operations and snapshots.

use std::sync::Arc;

use async_trait::async_trait;

use super::Checked;
use super::arguments::{check_limit, check_scopes_page};
use crate::backend::{Backend, RecordStream, ScopePage, ScopesQuery};
use crate::capabilities::Capabilities;
use crate::error::{Error, Result};
use crate::interposed::Op;
use crate::layer::MemoryLayer;
use crate::lifecycle::erase::{EraseTarget, Erased, Tombstone, TombstoneId, TombstonesOf};
use crate::lifecycle::eviction::{EvictOutcome, Reclaimed, ScopeUsesPage, ScopeUsesQuery};
use crate::lifecycle::snapshot::ReadSnapshot;
use crate::limits::MAX_PAGE;
use crate::provider::{Figure, Health, Provider};
use crate::scope::{Scope, ScopeId, TenantId};
use crate::sql::SqlFacet;
use crate::time::Timestamp;

#[async_trait]
impl<P: Provider> Provider for Checked<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn backend(&self) -> Option<&dyn Backend> {
        self.capabilities.kv.then_some(self as _)
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        self.capabilities.memory_layer.then_some(self as _)
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        self.capabilities.sql.then_some(self as _)
    }

    fn figures(&self) -> Vec<Figure> {
        self.inner.figures()
    }

    async fn health(&self) -> Result<Health> {
        self.inner.health().await
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.inner.end_run(tenant, root_run).await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        self.require(self.capabilities.tenants, Op::Tenants)?;
        check_limit("limit", limit, MAX_PAGE)?;
        self.inner.tenants(after, limit).await
    }

    async fn read_snapshot(&self) -> Result<Arc<dyn ReadSnapshot>> {
        self.require(self.capabilities.read_snapshot, Op::ReadSnapshot)?;
        Ok(Arc::new(CheckedSnapshot(self.inner.read_snapshot().await?)))
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        self.require(self.capabilities.erase, Op::Erase)?;
        if let Some(key) = target.key() {
            self.check_key(key)?;
        }
        self.inner.erase(target).await
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        self.require(self.capabilities.erase, Op::Tombstones)?;
        check_limit("limit", limit, MAX_PAGE)?;
        self.inner.tombstones(of, after, limit).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        self.require(self.capabilities.erase, Op::Bury)?;
        if tombstones.len() > MAX_PAGE {
            return Err(Error::too_large("bury", tombstones.len(), MAX_PAGE, "tombstones"));
        }
        if tombstones.iter().any(|tombstone| tombstone.id.key.is_some() && tombstone.id.scope.is_none()) {
            return Err(Error::invalid("a tombstone of a key has no scope; pass a store's list unchanged"));
        }
        if tombstones.is_empty() {
            return Ok(());
        }
        self.inner.bury(tombstones).await
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        self.require(self.capabilities.eviction, Op::ScopeUses)?;
        check_limit("limit", query.limit, MAX_PAGE)?;
        self.inner.scope_uses(tenant, query).await
    }

    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        self.require(self.capabilities.eviction, Op::Evict)?;
        self.inner.evict(scope, unused_since).await
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        self.require(self.capabilities.eviction, Op::Reclaim)?;
        self.inner.reclaim().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

#[derive(Debug)]
struct CheckedSnapshot(Arc<dyn ReadSnapshot>);

#[async_trait]
impl ReadSnapshot for CheckedSnapshot {
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        check_limit("limit", limit, MAX_PAGE)?;
        self.0.tenants(after, limit).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        check_scopes_page(tenant, query.limit, query.cursor.as_ref())?;
        self.0.scopes(tenant, query).await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        self.0.export_scope(scope).await
    }
}
