//! An open backend.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, Checked, EmbeddingModel, EraseTarget, Erased, EvictOutcome, Health, MemoryLayer,
    Provider, ReadSnapshot, Reclaimed, Result, Scope, ScopeId, ScopeUsesPage, ScopeUsesQuery, SqlFacet,
    TenantId, Timestamp, Tombstone, TombstoneId, TombstonesOf,
};

/// An open backend, always behind [`Checked`]: arguments are validated, and operations that the backend does not
/// advertise are refused before they reach it. Cloning shares it.
///
/// It is itself a [`Provider`]; its methods are also inherent, so no trait needs to be imported.
#[derive(Clone, Debug)]
pub struct Memory {
    provider: Arc<Checked<Arc<dyn Provider>>>,
    embedding_model: Option<EmbeddingModel>,
    drift_backups: Option<PathBuf>,
}

impl Memory {
    /// Wraps your own provider.
    ///
    /// # Errors
    /// `internal` if the provider contradicts itself ([`Checked::new`]).
    pub fn new(provider: Arc<dyn Provider>) -> Result<Self> {
        Ok(Self { provider: Arc::new(Checked::new(provider)?), embedding_model: None, drift_backups: None })
    }

    /// Records the model that the provider was given.
    pub(crate) fn with_embedding_model(mut self, model: EmbeddingModel) -> Self {
        self.embedding_model = Some(model);
        self
    }

    /// Sets the folder where a scope is saved before a write to it is refused for drift. A SQLite store has one beside
    /// its file, `FILE.drift`; other stores have none by default.
    #[must_use]
    pub fn with_drift_backups(mut self, folder: impl Into<PathBuf>) -> Self {
        self.drift_backups = Some(folder.into());
        self
    }

    /// The folder where scopes are saved; `None`: they are not.
    #[must_use]
    pub fn drift_backups(&self) -> Option<&Path> {
        self.drift_backups.as_deref()
    }

    /// The model of the embedder it was opened with; `None`: no embedder, or the provider has its own.
    #[must_use]
    pub fn embedding_model(&self) -> Option<&EmbeddingModel> {
        self.embedding_model.as_ref()
    }

    /// The provider's name (`sqlite`).
    #[must_use]
    pub fn name(&self) -> &str {
        self.provider.name()
    }

    /// The provider's capabilities.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.provider.capabilities()
    }

    /// The key/value facet.
    #[must_use]
    pub fn backend(&self) -> Option<&dyn Backend> {
        self.provider.backend()
    }

    /// The conversational facet.
    #[must_use]
    pub fn layer(&self) -> Option<&dyn MemoryLayer> {
        self.provider.layer()
    }

    /// The SQL facet.
    #[must_use]
    pub fn sql(&self) -> Option<&dyn SqlFacet> {
        self.provider.sql()
    }

    /// Asks whether the backend can serve right now.
    ///
    /// # Errors
    /// If the backend could not even be asked.
    pub async fn health(&self) -> Result<Health> {
        self.provider.health().await
    }

    /// Purges a run's scope in every facet and ends everything the run left open.
    ///
    /// # Errors
    /// `unavailable`, `outcome_unknown`; call again.
    pub async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.provider.end_run(tenant, root_run).await
    }

    /// Lists the tenants that ever stored something, in byte order of their ids: at most `limit` after `after`.
    ///
    /// # Errors
    /// As [`Provider::tenants`].
    pub async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        self.provider.tenants(after, limit).await
    }

    /// Forgets a tenant, a scope or a key in this store.
    ///
    /// # Errors
    /// As [`Provider::erase`].
    pub async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        self.provider.erase(target).await
    }

    /// Lists tombstones in order of their ids: at most `limit` after `after`.
    ///
    /// # Errors
    /// As [`Provider::tombstones`].
    pub async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        self.provider.tombstones(of, after, limit).await
    }

    /// Adds tombstones of another store.
    ///
    /// # Errors
    /// As [`Provider::bury`].
    pub async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        self.provider.bury(tombstones).await
    }

    /// Lists a tenant's scopes that are not empty, with their bytes and last use.
    ///
    /// # Errors
    /// As [`Provider::scope_uses`].
    pub async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        self.provider.scope_uses(tenant, query).await
    }

    /// Removes a scope in every facet, unless it was used after `unused_since` or is in use.
    ///
    /// # Errors
    /// As [`Provider::evict`].
    pub async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        self.provider.evict(scope, unused_since).await
    }

    /// Frees the space of data that nobody can read any more.
    ///
    /// # Errors
    /// As [`Provider::reclaim`].
    pub async fn reclaim(&self) -> Result<Reclaimed> {
        self.provider.reclaim().await
    }
}

#[async_trait]
impl Provider for Memory {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn capabilities(&self) -> Capabilities {
        Self::capabilities(self)
    }

    fn backend(&self) -> Option<&dyn Backend> {
        Self::backend(self)
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        Self::layer(self)
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        Self::sql(self)
    }

    async fn health(&self) -> Result<Health> {
        Self::health(self).await
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        Self::end_run(self, tenant, root_run).await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        Self::tenants(self, after, limit).await
    }

    async fn read_snapshot(&self) -> Result<Arc<dyn ReadSnapshot>> {
        self.provider.read_snapshot().await
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        Self::erase(self, target).await
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        Self::tombstones(self, of, after, limit).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        Self::bury(self, tombstones).await
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        Self::scope_uses(self, tenant, query).await
    }

    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        Self::evict(self, scope, unused_since).await
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        Self::reclaim(self).await
    }
}
