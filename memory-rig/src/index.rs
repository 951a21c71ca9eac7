//! The entries of a scope as a vector store of rig: searching.

use memory::{Backend, Error, Hit, Memory, Provider, Scope, SearchMode, SearchQuery};
use rig_core::vector_store::request::{Filter, VectorSearchRequest};
use rig_core::vector_store::{VectorSearchIdResult, VectorSearchResult, VectorStoreError, VectorStoreIndex};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::filter::translated;

/// The entries of a scope as a vector store of rig, for `AgentBuilder::dynamic_context`, as the tool `search_vector_store`, or to
/// search with.
///
/// A document's id is the entry's key, the document its value, and the score its similarity to the query from 0 to 1, on which the
/// threshold works. How it is found (by words, vectors or both), what counts as a hit and in which order hits come is as in
/// [`Backend::search`](memory::Backend::search).
///
/// # Errors
/// Searches fail with `SamplesOutOfRange` for more samples than the provider's `max_top_k`, with `FilterError` for a filter that
/// cannot be applied, with `JsonError` for a value that is no such document, and with `DatastoreError`, which is the
/// [`memory::Error`], for anything that the provider refuses: a threshold outside 0 to 1, no samples, a query over 64 KiB.
#[derive(Clone, Debug)]
pub struct MemoryIndex {
    pub(crate) memory: Memory,
    pub(crate) scope: Scope,
    pub(crate) prefix: String,
    mode: SearchMode,
}

impl MemoryIndex {
    /// The entries of a scope. Whoever has the index can search all of it; which scope that is decides the host, not the model.
    ///
    /// # Errors
    /// `capability_unsupported` if the provider does not serve search.
    pub fn new(memory: Memory, scope: Scope) -> memory::Result<Self> {
        let capabilities = memory.capabilities();
        if memory.backend().is_none() || !(capabilities.lexical_search || capabilities.vector_search) {
            return Err(Error::unsupported("search", memory.name()));
        }
        Ok(Self { memory, scope, prefix: String::new(), mode: SearchMode::Auto })
    }

    /// Only entries whose keys begin with these bytes. Documents that are inserted get keys that do.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How entries are found. Default: by words and vectors if the provider embeds, otherwise by words.
    #[must_use]
    pub fn with_mode(mut self, mode: SearchMode) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn backend(&self) -> Result<&dyn Backend, VectorStoreError> {
        let backend = self.memory.backend();
        backend.ok_or_else(|| VectorStoreError::datastore(Error::unsupported("search", self.memory.name())))
    }

    async fn hits(
        &self,
        request: VectorSearchRequest<Filter<Value>>,
    ) -> Result<impl Iterator<Item = Hit> + use<>, VectorStoreError> {
        let max = self.memory.capabilities().max_top_k;
        let out_of_range = || VectorStoreError::SamplesOutOfRange {
            requested: request.samples(),
            max: u64::try_from(max).unwrap_or(u64::MAX),
        };
        let samples = usize::try_from(request.samples()).ok().filter(|samples| *samples <= max);
        let mut query = SearchQuery::new(request.query())
            .with_prefix(&self.prefix)
            .with_mode(self.mode)
            .with_top_k(samples.ok_or_else(out_of_range)?);
        query.threshold = request.threshold();
        query.filter = request.filter().map(translated).transpose()?;
        let results = self.backend()?.search(&self.scope, query).await;
        Ok(results.map_err(VectorStoreError::datastore)?.hits.into_iter())
    }
}

impl VectorStoreIndex for MemoryIndex {
    type Filter = Filter<Value>;

    async fn top_n<T: DeserializeOwned + Send>(
        &self,
        request: VectorSearchRequest<Filter<Value>>,
    ) -> Result<Vec<VectorSearchResult<T>>, VectorStoreError> {
        let result = |hit: Hit| {
            let document = serde_json::from_str(hit.entry.value.as_str())?;
            Ok(VectorSearchResult { score: hit.score, id: hit.entry.key.to_string(), document })
        };
        self.hits(request).await?.map(result).collect()
    }

    async fn top_n_ids(
        &self,
        request: VectorSearchRequest<Filter<Value>>,
    ) -> Result<Vec<VectorSearchIdResult>, VectorStoreError> {
        let result = |hit: Hit| VectorSearchIdResult { score: hit.score, id: hit.entry.key.to_string() };
        Ok(self.hits(request).await?.map(result).collect())
    }
}
