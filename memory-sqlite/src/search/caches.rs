//! The memory caches of searches.

use std::sync::Arc;

use memory_core::{Figure, ScopeDigest};

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

    /// Counts a search that is about to use one of them or both.
    pub(crate) fn note_search(&self, digest: &ScopeDigest, by_words: bool, by_vector: bool) {
        if by_words {
            self.indexes.note_search(digest);
        }
        if by_vector {
            self.matrices.note_search(digest);
        }
    }

    pub(crate) fn figures(&self) -> [Figure; 4] {
        let ((words, unread_words), (vectors, unread_vectors)) = (self.indexes.uses(), self.matrices.uses());
        [
            Figure::counter(
                "sqlite_text_index_hits_total",
                "Searches by words whose scope was in memory.",
                words,
            ),
            Figure::counter(
                "sqlite_text_index_misses_total",
                "Searches by words whose scope was not in memory.",
                unread_words,
            ),
            Figure::counter(
                "sqlite_vector_index_hits_total",
                "Searches by vector whose scope was in memory.",
                vectors,
            ),
            Figure::counter(
                "sqlite_vector_index_misses_total",
                "Searches by vector whose scope was not in memory.",
                unread_vectors,
            ),
        ]
    }

    /// Drops everything cached for a scope.
    pub(crate) fn forget(&self, digest: &ScopeDigest) {
        self.indexes.forget(digest);
        self.matrices.forget(digest);
    }
}
