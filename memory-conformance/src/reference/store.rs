//! The reference store: its contents, capabilities and defect.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_core::{
    Capabilities, Clock, DriftPolicy, Embedder, EmbeddingOwner, Error, ErrorKind, Op, Provider as _, Result,
    Scope, Timestamp, Tombstone, TombstoneId,
};

#[cfg(feature = "mutants")]
use super::fault::Fault;
use super::fault::Faults;
use super::layer::{self, LayerKind, Learned, ReferenceLayer};
use super::state::ScopeState;
use crate::case::Need;

/// Its name.
pub(super) const NAME: &str = "reference";

/// All scopes, ordered by tenant, kind and id.
pub(super) type Scopes = BTreeMap<Scope, ScopeState>;

/// Tombstones by target.
pub(super) type Tombstones = BTreeMap<TombstoneId, Tombstone>;

/// A provider that keeps everything in one map under one lock and scans a scope for every search. Correct by
/// inspection; for tests and as a baseline for other providers.
///
/// ```
/// use memory_conformance::{Fixture, Reference};
/// use memory_core::{Checked, Provider as _};
///
/// let fixture = Fixture::new("example");
/// let memory = Checked::new(Reference::new(fixture.clock.clone()))?;
/// assert!(memory.capabilities().lexical_search);
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reference {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) embedder: Option<Arc<dyn Embedder>>,
    pub(super) capabilities: Capabilities,
    pub(super) scopes: Arc<Mutex<Scopes>>,
    /// Ended runs with their times. Locked after `scopes`.
    pub(super) ended: Arc<Mutex<BTreeMap<Scope, Timestamp>>>,
    pub(super) tombstones: Arc<Mutex<Tombstones>>,
    pub(super) layer: Option<ReferenceLayer>,
    pub(super) learned: Arc<Mutex<Learned>>,
    /// How much space a scope's entries may take: each scope has its own disk.
    pub(super) disk_bytes: Option<u64>,
    pub(super) faults: Faults,
}

impl Reference {
    /// An empty store with this clock, without vectors.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let mut capabilities = Capabilities::none();
        capabilities.kv = true;
        capabilities.lexical_search = true;
        capabilities.stats = true;
        capabilities.compare_and_set = true;
        capabilities.quotas = true;
        capabilities.atomic_import = true;
        capabilities.tenants = true;
        capabilities.read_snapshot = true;
        capabilities.eviction = true;
        capabilities.run_fence = true;
        capabilities.erase = true;
        capabilities.drift = vec![DriftPolicy::Row, DriftPolicy::Strict];
        Self {
            clock,
            embedder: None,
            capabilities,
            scopes: Arc::default(),
            ended: Arc::default(),
            tombstones: Arc::default(),
            layer: None,
            learned: Arc::default(),
            disk_bytes: None,
            faults: Faults::default(),
        }
    }

    pub(super) fn with_disk_bytes(mut self, bytes: Option<u64>) -> Self {
        self.disk_bytes = bytes;
        self
    }

    /// Adds a conversational layer.
    #[must_use]
    pub fn with_layer(mut self, kind: LayerKind) -> Self {
        layer::advertise(kind, &mut self.capabilities);
        self.layer = Some(ReferenceLayer {
            kind,
            learned: Arc::clone(&self.learned),
            clock: Arc::clone(&self.clock),
            capabilities: self.capabilities.clone(),
            provider: NAME,
        });
        self
    }

    /// Adds an embedder and exact vector search.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self.capabilities.vector_search = true;
        self.capabilities.embedding = EmbeddingOwner::Embedder;
        self
    }

    /// Serves fewer capabilities. Without `Kv` or `Layer` that whole facet is gone.
    #[must_use]
    pub fn without(mut self, need: Need) -> Self {
        match need {
            Need::Kv => {
                self.embedder = None;
                self.capabilities = Capabilities::none();
                if let Some(layer) = &self.layer {
                    layer::advertise(layer.kind, &mut self.capabilities);
                }
            }
            Need::Lexical => self.capabilities.lexical_search = false,
            Need::Vector => {
                self.embedder = None;
                self.capabilities.vector_search = false;
                self.capabilities.embedding = EmbeddingOwner::None;
            }
            Need::Cas => self.capabilities.compare_and_set = false,
            Need::Drift => self.capabilities.drift.clear(),
            Need::Quotas => self.capabilities.quotas = false,
            Need::Stats => self.capabilities.stats = false,
            Need::AtomicImport => self.capabilities.atomic_import = false,
            Need::Tenants => (self.capabilities.tenants, self.capabilities.read_snapshot) = (false, false),
            Need::ReadSnapshot => self.capabilities.read_snapshot = false,
            Need::Eviction => self.capabilities.eviction = false,
            Need::RunFence => self.capabilities.run_fence = false,
            Need::Erase => self.capabilities.erase = false,
            // It never has SQL.
            Need::Sql
            | Need::SqlTransactions
            | Need::SqlEntries
            | Need::SqlVectors
            | Need::SharedSchemas
            | Need::HostTables => {}
            Need::Layer => {
                self.layer = None;
                self.capabilities.memory_layer = false;
                self.capabilities.layer_sync = false;
                self.capabilities.layer_events = false;
                self.capabilities.layer_forget = false;
                self.capabilities.layer_verbatim = false;
                self.capabilities.layer_metadata = false;
                self.capabilities.layer_threshold = false;
                self.capabilities.layer_ids = false;
                self.capabilities.layer_idempotent = false;
                self.capabilities.layer_supersede = false;
                self.capabilities.layer_confirm = false;
                self.capabilities.layer_expiry = false;
                self.capabilities.layer_sessions = false;
            }
            Need::LayerEvents => self.capabilities.layer_events = false,
            Need::LayerForget => self.capabilities.layer_forget = false,
            Need::LayerVerbatim => self.capabilities.layer_verbatim = false,
            Need::LayerMetadata => self.capabilities.layer_metadata = false,
            Need::LayerThreshold => self.capabilities.layer_threshold = false,
            Need::LayerIdempotent => self.capabilities.layer_idempotent = false,
            Need::LayerSupersede => self.capabilities.layer_supersede = false,
            Need::LayerConfirm => self.capabilities.layer_confirm = false,
            Need::LayerExpiry => self.capabilities.layer_expiry = false,
            Need::LayerSessions => self.capabilities.layer_sessions = false,
        }
        if let Some(layer) = &mut self.layer {
            layer.capabilities = self.capabilities.clone();
        }
        self
    }

    /// Adds a defect.
    #[cfg(feature = "mutants")]
    pub(crate) fn broken(mut self, fault: Fault) -> Self {
        self.faults = Faults::only(fault);
        self
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Scopes> {
        // A panic elsewhere leaves no partial write: every write replaces at its end.
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn require(&self, advertised: bool, op: Op) -> Result<()> {
        if advertised { Ok(()) } else { Err(Error::unsupported(op.as_str(), self.name())) }
    }

    /// The embedder; an error if there is none.
    pub(super) fn embedder(&self, op: Op) -> Result<&Arc<dyn Embedder>> {
        self.embedder.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::VectorUnsupported,
                "this store was opened without an embedder; search by words",
            )
            .with_detail("operation", op.as_str())
            .with_detail("provider", self.name())
        })
    }
}
