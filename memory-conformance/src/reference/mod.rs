//! The oracle: a provider in memory that is obviously right rather than fast.

mod backend;
mod broken;
mod erase;
mod eviction;
pub(crate) mod fault;
mod layer;
mod moment;
mod search;
mod state;
mod transfer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_core::{
    Backend, Capabilities, Clock, DriftPolicy, Embedder, EmbeddingOwner, EraseTarget, Erased, Error,
    ErrorKind, EvictOutcome, Health, HealthStatus, MemoryLayer, Moment, Op, Provider, Reclaimed, Result,
    Scope, ScopeId, ScopeKind, ScopeUsesPage, ScopeUsesQuery, TenantId, Timestamp, Tombstone, TombstoneId,
    TombstonesOf,
};

use crate::case::Need;
use crate::fixture::Fixture;
use crate::harness::Harness;
use fault::{Fault, Faults};
use layer::{Learned, ReferenceLayer};
use state::ScopeState;

pub use layer::LayerKind;

/// All scopes, ordered by tenant, kind and id.
type Scopes = BTreeMap<Scope, ScopeState>;

/// A provider that keeps everything in one map under one lock and reads all of a scope for every
/// search. Right by inspection; for tests and as the measure of other providers.
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
    clock: Arc<dyn Clock>,
    embedder: Option<Arc<dyn Embedder>>,
    capabilities: Capabilities,
    scopes: Arc<Mutex<Scopes>>,
    /// Runs that have ended, and when. Taken after `scopes`.
    ended: Arc<Mutex<BTreeMap<Scope, Timestamp>>>,
    tombstones: Arc<Mutex<erase::Tombstones>>,
    layer: Option<ReferenceLayer>,
    learned: Arc<Mutex<Learned>>,
    faults: Faults,
}

impl Reference {
    /// An empty store that lives by `clock`, without vectors.
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
        capabilities.moment = true;
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
            faults: Faults::default(),
        }
    }

    /// Learns from conversations too.
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

    /// Embeds, and searches by vectors exactly.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self.capabilities.vector_search = true;
        self.capabilities.embedding = EmbeddingOwner::Embedder;
        self
    }

    /// Advertises and serves less. Without `Kv` or `Layer` nothing of that facet is left.
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
            Need::Tenants => (self.capabilities.tenants, self.capabilities.moment) = (false, false),
            Need::Moment => self.capabilities.moment = false,
            Need::Eviction => self.capabilities.eviction = false,
            Need::RunFence => self.capabilities.run_fence = false,
            Need::Erase => self.capabilities.erase = false,
            // It has no SQL to begin with.
            Need::Sql | Need::SqlTransactions | Need::SqlEntries | Need::SqlVectors | Need::SharedSchemas => {
            }
            Need::Layer => {
                self.layer = None;
                self.capabilities.memory_layer = false;
                self.capabilities.layer_sync = false;
                self.capabilities.layer_events = false;
                self.capabilities.layer_forget = false;
                self.capabilities.layer_verbatim = false;
                self.capabilities.layer_metadata = false;
                self.capabilities.layer_ids = false;
            }
            Need::LayerEvents => self.capabilities.layer_events = false,
            Need::LayerForget => self.capabilities.layer_forget = false,
            Need::LayerVerbatim => self.capabilities.layer_verbatim = false,
            Need::LayerMetadata => self.capabilities.layer_metadata = false,
        }
        if let Some(layer) = &mut self.layer {
            layer.capabilities = self.capabilities.clone();
        }
        self
    }

    /// Breaks it in one way.
    pub(crate) fn broken(mut self, fault: Fault) -> Self {
        self.faults = Faults::only(fault);
        self
    }

    fn lock(&self) -> MutexGuard<'_, Scopes> {
        // A panic elsewhere leaves no half write: every write replaces at its end.
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn require(&self, advertised: bool, op: Op) -> Result<()> {
        if advertised { Ok(()) } else { Err(Error::unsupported(op.as_str(), self.name())) }
    }

    /// The embedder; refused where there is none.
    fn embedder(&self, op: Op) -> Result<&Arc<dyn Embedder>> {
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

/// What it calls itself.
const NAME: &str = "reference";

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
        let tenants: std::collections::BTreeSet<TenantId> =
            self.lock().keys().map(|scope| scope.tenant.clone()).collect();
        let later = tenants.into_iter().filter(|tenant| after.is_none_or(|after| tenant > after));
        Ok(later.take(limit).collect())
    }

    async fn moment(&self) -> Result<Arc<dyn Moment>> {
        self.require(self.capabilities.moment, Op::Moment)?;
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
        Ok(self.give_back())
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        self.require(self.capabilities.erase, Op::Erase)?;
        Ok(self.take_away(target))
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
        self.bury_all(tombstones);
        Ok(())
    }
}

/// Opens the reference provider, one store for each fixture, with or without what it could serve.
#[derive(Debug)]
pub struct ReferenceHarness {
    name: String,
    embedder: bool,
    layer: Option<LayerKind>,
    without: Vec<Need>,
    /// Stores by fixture, so that they can be opened again.
    stores: Mutex<BTreeMap<String, Reference>>,
}

impl ReferenceHarness {
    /// Keys and values, without vectors.
    #[must_use]
    pub fn new() -> Self {
        Self {
            name: NAME.into(),
            embedder: false,
            layer: None,
            without: Vec::new(),
            stores: Mutex::default(),
        }
    }

    /// A conversational layer, and nothing else.
    #[must_use]
    pub fn layer(kind: LayerKind) -> Self {
        Self { name: "reference-layer".into(), layer: Some(kind), ..Self::new() }.without(Need::Kv)
    }

    /// Keys and values, with vectors.
    #[must_use]
    pub fn with_vectors() -> Self {
        Self { name: "reference-vectors".into(), embedder: true, ..Self::new() }
    }

    /// Serves less.
    #[must_use]
    pub fn without(mut self, need: Need) -> Self {
        self.without.push(need);
        self
    }

    /// A handle on the store of this fixture.
    pub(crate) fn reference(&self, fixture: &Fixture) -> Reference {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let store = stores.entry(fixture.name.clone()).or_insert_with(|| {
            let clock: Arc<dyn Clock> = Arc::<crate::TestClock>::clone(&fixture.clock);
            Reference::new(clock)
        });
        let mut handle = store.clone();
        if self.embedder {
            // The fixture's of now: a store may be opened again with another model.
            handle = handle.with_embedder(Arc::<crate::TestEmbedder>::clone(&fixture.embedder));
        }
        if let Some(kind) = self.layer {
            handle = handle.with_layer(kind);
        }
        self.without.iter().fold(handle, |handle, need| handle.without(*need))
    }
}

impl Default for ReferenceHarness {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Harness for ReferenceHarness {
    fn name(&self) -> &str {
        &self.name
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        Ok(Box::new(self.reference(&fixture)))
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        Ok(Some(Box::new(self.reference(fixture))))
    }
}
