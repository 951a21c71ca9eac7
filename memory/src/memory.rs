//! An opened backend.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, Checked, EmbeddingModel, Health, MemoryLayer, Provider, Result, ScopeId, SqlFacet,
    TenantId,
};

/// An opened backend, always behind [`Checked`]: arguments are validated, and what the backend does
/// not advertise is refused before it is reached. Cloning shares it.
///
/// It is itself a [`Provider`]; its methods are also inherent, so no trait need be imported.
#[derive(Clone, Debug)]
pub struct Memory {
    provider: Arc<Checked<Arc<dyn Provider>>>,
    embedding_model: Option<EmbeddingModel>,
    drift_backups: Option<PathBuf>,
}

impl Memory {
    /// Wraps a provider of one's own.
    ///
    /// # Errors
    /// `internal` where the provider contradicts itself ([`Checked::new`]).
    pub fn new(provider: Arc<dyn Provider>) -> Result<Self> {
        Ok(Self { provider: Arc::new(Checked::new(provider)?), embedding_model: None, drift_backups: None })
    }

    /// Notes the model that the provider was given.
    pub(crate) fn with_embedding_model(mut self, model: EmbeddingModel) -> Self {
        self.embedding_model = Some(model);
        self
    }

    /// Names the folder in which a scope is saved before a write to it is refused for drift. A SQLite store has one
    /// beside its file, `FILE.drift`; others have none unless they are given one.
    #[must_use]
    pub fn with_drift_backups(mut self, folder: impl Into<PathBuf>) -> Self {
        self.drift_backups = Some(folder.into());
        self
    }

    /// The folder in which scopes are saved; `None`: they are not.
    #[must_use]
    pub fn drift_backups(&self) -> Option<&Path> {
        self.drift_backups.as_deref()
    }

    /// The model of the embedder this was opened with; `None`: without one, or the provider has its own.
    #[must_use]
    pub fn embedding_model(&self) -> Option<&EmbeddingModel> {
        self.embedding_model.as_ref()
    }

    /// The provider's name (`sqlite`).
    #[must_use]
    pub fn name(&self) -> &str {
        self.provider.name()
    }

    /// What is served.
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
    /// Where not even the question could be asked.
    pub async fn health(&self) -> Result<Health> {
        self.provider.health().await
    }

    /// Purges a run's scope in every facet and ends what the run left open.
    ///
    /// # Errors
    /// `unavailable`, `outcome_unknown`: call again.
    pub async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.provider.end_run(tenant, root_run).await
    }

    /// Lists the tenants that ever stored something, by the bytes of their ids: at most `limit` that come after `after`.
    ///
    /// # Errors
    /// As [`Provider::tenants`].
    pub async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        self.provider.tenants(after, limit).await
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
}
