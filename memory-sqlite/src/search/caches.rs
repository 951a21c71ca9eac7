//! The memory caches of searches.

use std::sync::Arc;

use memory_core::ScopeDigest;

use super::cache::IndexCache;
use crate::config::SqliteConfig;
use crate::vector::cache::MatrixCache;

/// The cached indexes and matrices of recently searched scopes.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    pub(crate) indexes: Arc<IndexCache>,
    pub(crate) matrices: Arc<MatrixCache>,
}

impl Caches {
    pub(crate) fn new(config: &SqliteConfig) -> Self {
        Self {
            indexes: Arc::new(IndexCache::new(config.search_index_bytes)),
            matrices: Arc::new(MatrixCache::new(config.vector_index_bytes)),
        }
    }

    /// Drops everything cached for a scope.
    pub(crate) fn forget(&self, digest: &ScopeDigest) {
        self.indexes.forget(digest);
        self.matrices.forget(digest);
    }
}
