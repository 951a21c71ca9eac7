//! An open backend.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, Checked, Embedder, EmbeddingModel, EraseTarget, Erased, Error, ErrorKind,
    EvictOutcome, Figure, Health, Hook, Interposed, MemoryLayer, Provider, ReadSnapshot, Reclaimed, Result,
    Retry, Scope, ScopeId, ScopeUsesPage, ScopeUsesQuery, SqlFacet, TenantId, Timestamp, Tombstone,
    TombstoneId, TombstonesOf,
};

/// An open backend, always behind [`Checked`]: arguments are validated, and operations that the backend does not
/// advertise are refused before they reach it. Cloning shares it.
///
/// It is itself a [`Provider`], and dereferences to one, so you can call its methods without importing a trait.
#[derive(Clone, Debug)]
pub struct Memory {
    provider: Arc<Checked<Arc<dyn Provider>>>,
    embedding_model: Option<EmbeddingModel>,
    conversation_embedder: Option<Arc<dyn Embedder>>,
    drift_backups: Option<PathBuf>,
    /// The name of its fallback, if it is a pair of stores.
    fallback: Option<String>,
    /// The graphs of tenants and their recall indexes, shared by all runs.
    #[cfg(feature = "hierarchical")]
    graphs: Arc<crate::hierarchical::tenants::Opened>,
}

impl Memory {
    /// Wraps your own provider.
    ///
    /// # Errors
    /// `internal` if the provider contradicts itself ([`Checked::new`]).
    pub fn new(provider: Arc<dyn Provider>) -> Result<Self> {
        Ok(Self {
            provider: Arc::new(Checked::new(provider)?),
            embedding_model: None,
            conversation_embedder: None,
            drift_backups: None,
            fallback: None,
            #[cfg(feature = "hierarchical")]
            graphs: Arc::default(),
        })
    }

    /// The same, with a hook around every operation.
    ///
    /// # Errors
    /// `internal` if the hook makes the provider contradict itself ([`Checked::new`]).
    pub fn with_hook(self, hook: impl Hook + 'static) -> Result<Self> {
        let (model, embedder) = (self.embedding_model.clone(), self.conversation_embedder.clone());
        let (backups, fallback) = (self.drift_backups.clone(), self.fallback.clone());
        Ok(Self {
            embedding_model: model,
            conversation_embedder: embedder,
            drift_backups: backups,
            fallback,
            ..Self::new(Arc::new(Interposed::new(self, hook)))?
        })
    }

    /// The tenant's graphs, opened once for everyone who shares this backend.
    #[cfg(feature = "hierarchical")]
    pub(crate) async fn graphs(
        &self,
        tenant: &TenantId,
    ) -> Result<Arc<crate::hierarchical::tenants::TenantGraphs>> {
        // Not a clone of `self`, which would keep itself open.
        let provider = Arc::<Checked<Arc<dyn Provider>>>::clone(&self.provider);
        self.graphs.of(provider, tenant).await
    }

    /// Records the model that the provider was given.
    pub(crate) fn with_embedding_model(mut self, model: EmbeddingModel) -> Self {
        self.embedding_model = Some(model);
        self
    }

    /// Records the name of the fallback it is paired with.
    #[cfg(feature = "sqlite")]
    pub(crate) fn with_fallback(mut self, name: String) -> Self {
        self.fallback = Some(name);
        self
    }

    /// Refuses what a store cannot serve together with its fallback, although each could serve it alone. `operation`
    /// names it, and `instead` says what to do.
    ///
    /// # Errors
    /// `capability_unsupported` if it has a fallback.
    pub fn refuse_with_fallback(&self, operation: &str, instead: &str) -> Result<()> {
        let Some(fallback) = &self.fallback else { return Ok(()) };
        let why = format!(
            "a store does not serve `{operation}` together with its fallback `{fallback}`; {instead}"
        );
        let refused = Error::new(ErrorKind::Unsupported, why).with_retry(Retry::Never);
        Err(refused.with_detail("operation", operation).with_detail("fallback", fallback.as_str()))
    }

    /// Records the embedder for turns of conversations.
    pub(crate) fn with_conversation_embedder(mut self, embedder: Option<Arc<dyn Embedder>>) -> Self {
        self.conversation_embedder = embedder;
        self
    }

    /// The embedder for turns of conversations.
    #[cfg(feature = "recall")]
    pub(crate) fn conversation_embedder(&self) -> Option<&Arc<dyn Embedder>> {
        self.conversation_embedder.as_ref()
    }

    /// Sets the folder where a scope is saved before a write to it is refused for drift. A SQLite store has one beside
    /// its file, `FILE.drift`; other stores have none by default.
    #[must_use]
    pub fn with_drift_backups(mut self, folder: impl Into<PathBuf>) -> Self {
        self.drift_backups = Some(folder.into());
        self
    }

    /// The folder where scopes are saved; `None` if they are not saved.
    #[must_use]
    pub fn drift_backups(&self) -> Option<&Path> {
        self.drift_backups.as_deref()
    }

    /// The model of the embedder it was opened with; `None` if there is no embedder or the provider has its own.
    #[must_use]
    pub fn embedding_model(&self) -> Option<&EmbeddingModel> {
        self.embedding_model.as_ref()
    }

    /// The model for turns of conversations: that of the embedder it was opened with, or else that of the cargo feature
    /// `model`. `None` if turns are found without vectors or the provider has its own.
    #[must_use]
    pub fn conversation_model(&self) -> Option<&EmbeddingModel> {
        self.conversation_embedder.as_ref().map(|embedder| embedder.model())
    }
}

impl Deref for Memory {
    type Target = dyn Provider;

    fn deref(&self) -> &Self::Target {
        &*self.provider
    }
}

#[async_trait]
impl Provider for Memory {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn backend(&self) -> Option<&dyn Backend> {
        (**self).backend()
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        (**self).layer()
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        (**self).sql()
    }

    fn figures(&self) -> Vec<Figure> {
        (**self).figures()
    }

    async fn health(&self) -> Result<Health> {
        (**self).health().await
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        (**self).end_run(tenant, root_run).await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        (**self).tenants(after, limit).await
    }

    async fn read_snapshot(&self) -> Result<Arc<dyn ReadSnapshot>> {
        (**self).read_snapshot().await
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        (**self).erase(target).await
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        (**self).tombstones(of, after, limit).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        (**self).bury(tombstones).await
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        (**self).scope_uses(tenant, query).await
    }

    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        (**self).evict(scope, unused_since).await
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        (**self).reclaim().await
    }

    async fn close(&self) -> Result<()> {
        (**self).close().await
    }
}
