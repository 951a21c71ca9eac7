//! [`Recall`]: the wrapper and its options.

use std::sync::Arc;

use memory_core::{Clock, Embedder, Error, IdGen, Op, Provider, Result, Scope};

use crate::cache::Cache;
use crate::counts::Counts;
use crate::rank::Weights;
use crate::store::log::Log;

/// Default limit of the memory for conversations, in bytes.
pub const DEFAULT_MEMORY_BYTES: usize = 256 << 20;

/// How conversations are ranked and kept in memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecallOptions {
    /// The weights of the signals.
    pub weights: Weights,
    /// About how many bytes all conversations in memory may take. The most recently used one stays, however large it
    /// is. Default [`DEFAULT_MEMORY_BYTES`].
    pub memory_bytes: usize,
    /// Embeds turns and questions; `None`: turns are found only by words, speakers, sessions and dates.
    pub embedder: Option<Arc<dyn Embedder>>,
}

impl Default for RecallOptions {
    fn default() -> Self {
        Self { weights: Weights::default(), memory_bytes: DEFAULT_MEMORY_BYTES, embedder: None }
    }
}

impl RecallOptions {
    memory_core::setters! {
        with_embedder(embedder: Arc<dyn Embedder> => Some(embedder));
        with_weights(weights: Weights);
        with_memory_bytes(memory_bytes: usize);
    }
}

/// A provider with conversations: adds [`MemoryLayer`](memory_core::MemoryLayer) to a provider that serves key/value
/// with compare-and-set and has no such facet, and passes on everything else.
///
/// Turns are entries of the caller's scope, under [`RESERVED_PREFIX`](crate::RESERVED_PREFIX).
#[derive(Debug)]
pub struct Recall<P> {
    pub(crate) inner: P,
    pub(crate) options: RecallOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdGen>,
    pub(crate) cache: Cache,
    pub(crate) counts: Counts,
    /// Whether the layer is ours.
    pub(crate) serves: bool,
}

impl<P: Provider> Recall<P> {
    /// Wraps a provider. The clock decides what "yesterday" means in a question, and what has expired in memory.
    #[must_use]
    pub fn new(inner: P, options: RecallOptions, clock: Arc<dyn Clock>, ids: Arc<dyn IdGen>) -> Self {
        let capabilities = inner.capabilities();
        let serves = capabilities.kv && capabilities.compare_and_set && !capabilities.memory_layer;
        let (cache, counts) = (Cache::new(options.memory_bytes), Counts::default());
        Self { inner, cache, counts, options, clock, ids, serves }
    }

    /// For a provider that already serves these conversations, to maintain them from outside.
    pub(crate) fn beside(
        inner: P,
        options: RecallOptions,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
    ) -> Self {
        let capabilities = inner.capabilities();
        let serves = capabilities.kv && capabilities.compare_and_set && capabilities.memory_layer;
        let (cache, counts) = (Cache::new(options.memory_bytes), Counts::default());
        Self { inner, cache, counts, options, clock, ids, serves }
    }

    /// The wrapped provider.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.inner
    }

    pub(crate) fn log<'a>(&'a self, scope: &'a Scope, op: Op) -> Result<Log<'a>> {
        let backend = self.inner.backend().filter(|_| self.serves);
        let backend = backend.ok_or_else(|| Error::unsupported(op.as_str(), self.inner.name()))?;
        Ok(Log::new(backend, scope))
    }

    pub(crate) fn epoch(&self) -> String {
        format!("{:032x}", self.ids.fresh())
    }
}
