//! What a case is given.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use memory_core::{
    Backend, BackendExt as _, Capabilities, Checked, Clock as _, Entry, GetOptions, Hit, Json, Key,
    ListQuery, MemoryLayer, Metadata, Provider, RunContext, Scope, ScopeId, ScopeKind, SearchMode,
    SearchQuery, SetOptions, SetOutcome, Source, SqlFacet, TenantId, Timestamp, UpdateOptions,
};

use crate::check::{CaseResult, Stop};
use crate::embedder::TestEmbedder;
use crate::executor::BoxFuture;
use crate::fixture::{Fixture, TestClock};
use crate::harness::{Harness, SqlSetup};
use crate::random::Random;

/// An open provider with the fixture it was opened with.
#[derive(Clone)]
pub struct Store {
    harness: Arc<dyn Harness>,
    fixture: Fixture,
    checked: Arc<Checked<Arc<dyn Provider>>>,
    door: Arc<dyn Provider>,
}

impl Store {
    pub(crate) async fn open(harness: Arc<dyn Harness>, fixture: Fixture) -> CaseResult<Self> {
        let raw = harness.open(fixture.clone()).await?;
        Self::new(harness, fixture, raw)
    }

    fn new(harness: Arc<dyn Harness>, fixture: Fixture, raw: Box<dyn Provider>) -> CaseResult<Self> {
        let checked = Arc::new(Checked::new(Arc::<dyn Provider>::from(raw))?);
        let door = harness.door(Arc::<Checked<Arc<dyn Provider>>>::clone(&checked));
        Ok(Self { harness, fixture, checked, door })
    }

    /// A further handle on the same store, beside this one.
    ///
    /// # Errors
    /// Skips the case where the harness cannot.
    pub async fn another_handle(&self) -> CaseResult<Self> {
        match self.harness.reopen(&self.fixture).await? {
            Some(raw) => Self::new(Arc::clone(&self.harness), self.fixture.clone(), raw),
            None => Err(Stop::skipped("the store cannot be opened twice")),
        }
    }

    /// A further handle on the same store beside this one, with an embedder of its own.
    ///
    /// # Errors
    /// Skips the case where the harness cannot.
    pub async fn another_handle_with(&self, embedder: TestEmbedder) -> CaseResult<Self> {
        let mut beside = self.clone();
        beside.fixture = beside.fixture.with_embedder(Arc::new(embedder));
        beside.another_handle().await
    }

    /// Drops this handle, then opens the store again with another embedder.
    ///
    /// # Errors
    /// Skips the case where the harness cannot.
    pub async fn reopen_with(mut self, embedder: TestEmbedder) -> CaseResult<Self> {
        self.fixture = self.fixture.with_embedder(Arc::new(embedder));
        self.reopen().await
    }

    /// Drops this handle, then opens the store again. Clones of this handle keep it open.
    ///
    /// # Errors
    /// Skips the case where the harness cannot.
    pub async fn reopen(self) -> CaseResult<Self> {
        let Self { harness, fixture, checked, door } = self;
        drop((checked, door));
        match harness.reopen(&fixture).await? {
            Some(raw) => Self::new(harness, fixture, raw),
            None => Err(Stop::skipped("the store ends with its handle")),
        }
    }

    /// The provider through `Checked`, as everybody opens it.
    pub fn provider(&self) -> &dyn Provider {
        &self.door
    }

    /// `Checked` itself, which implements every facet also where it hands out none.
    pub fn checked(&self) -> &Checked<Arc<dyn Provider>> {
        &self.checked
    }

    /// The provider as the vendor wrote it, for refusals alone.
    pub fn raw(&self) -> &dyn Provider {
        self.checked.inner()
    }

    /// The key/value facet.
    pub fn kv(&self) -> &dyn Backend {
        // Through `Checked` where the facet is missing: it refuses.
        self.door.backend().unwrap_or(&*self.checked)
    }

    /// The SQL facet.
    pub fn sql(&self) -> &dyn SqlFacet {
        // As for key/value.
        self.door.sql().unwrap_or(&*self.checked)
    }

    /// The conversational layer.
    pub fn layer(&self) -> &dyn MemoryLayer {
        // As for key/value.
        self.door.layer().unwrap_or(&*self.checked)
    }

    /// What its harness has set up for the cases about SQL.
    pub fn sql_setup(&self) -> SqlSetup {
        self.harness.sql_setup()
    }

    /// The time it lives by.
    pub fn clock(&self) -> &TestClock {
        &self.fixture.clock
    }

    /// Its embedder.
    pub fn embedder(&self) -> &TestEmbedder {
        &self.fixture.embedder
    }

    /// What it was opened with.
    pub fn fixture(&self) -> &Fixture {
        &self.fixture
    }
}

/// A case's world: a provider, and names that no other case, repeat or run uses.
pub struct Cx {
    store: Store,
    case: &'static str,
    tenant: TenantId,
    other: String,
    names: AtomicU64,
}

impl Cx {
    pub(crate) fn new(store: Store, case: &'static str, repeat: u32) -> CaseResult<Self> {
        let namespace = store.harness.namespace();
        let tenant = TenantId::new(format!("{namespace}/{case}/{repeat}"))?;
        let other = format!("{namespace}/{case}/{repeat}/other");
        Ok(Self { store, case, tenant, other, names: AtomicU64::new(1) })
    }

    fn count(&self) -> u64 {
        self.names.fetch_add(1, Ordering::SeqCst)
    }

    /// The open provider.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A store of its own beside the case's, which the case may drop and reopen.
    ///
    /// # Errors
    /// As opening fails.
    pub async fn open(&self) -> CaseResult<Store> {
        self.open_with(TestEmbedder::new()).await
    }

    /// As [`Cx::open`], with that embedder.
    ///
    /// # Errors
    /// As opening fails.
    pub async fn open_with(&self, embedder: TestEmbedder) -> CaseResult<Store> {
        let fixture = Fixture::new(format!("{}-own-{}", self.store.fixture.name, self.count()));
        Store::open(Arc::clone(&self.store.harness), fixture.with_embedder(Arc::new(embedder))).await
    }

    /// The world of this case on a store of its own whose transactions may lie idle for so long.
    ///
    /// # Errors
    /// As opening fails; skips the case where the harness obeys no such wish.
    pub async fn with_tx_idle(&self, idle: Duration) -> CaseResult<Self> {
        if !self.store.sql_setup().obeys_tx_idle {
            return Err(Stop::skipped("the harness does not say how long transactions may lie idle"));
        }
        let fixture = Fixture::new(format!("{}-own-{}", self.store.fixture.name, self.count()));
        Ok(self.on(Store::open(Arc::clone(&self.store.harness), fixture.with_tx_idle(idle)).await?))
    }

    /// The world of this case on another store: the same tenant, other names.
    #[must_use]
    pub fn on(&self, store: Store) -> Self {
        // Far from the names already given.
        let names = AtomicU64::new(self.count() << 32);
        Self { store, case: self.case, tenant: self.tenant.clone(), other: self.other.clone(), names }
    }

    /// Closes the store of this world and opens it again with that embedder.
    ///
    /// # Errors
    /// Skips the case where the harness cannot.
    pub async fn reopened_with(self, embedder: TestEmbedder) -> CaseResult<Self> {
        Ok(Self { store: self.store.reopen_with(embedder).await?, ..self })
    }

    /// The key/value facet, through `Checked`.
    pub fn kv(&self) -> &dyn Backend {
        self.store.kv()
    }

    /// The SQL facet, through `Checked`.
    pub fn sql(&self) -> &dyn SqlFacet {
        self.store.sql()
    }

    /// The provider, through `Checked`.
    pub fn provider(&self) -> &dyn Provider {
        self.store.provider()
    }

    /// The provider as the vendor wrote it, for refusals alone.
    pub fn raw(&self) -> &dyn Provider {
        self.store.raw()
    }

    /// What is advertised.
    pub fn capabilities(&self) -> Capabilities {
        self.store.provider().capabilities()
    }

    /// The clock the provider lives by.
    pub fn clock(&self) -> &TestClock {
        self.store.clock()
    }

    /// The time on that clock.
    pub fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Moves that clock forward by milliseconds.
    pub fn advance_ms(&self, by: u64) {
        self.clock().advance_ms(by);
    }

    /// The embedder the harness was given.
    pub fn embedder(&self) -> &TestEmbedder {
        self.store.embedder()
    }

    /// Numbers that are the same every time this case runs.
    pub fn random(&self) -> Random {
        Random::named(self.case)
    }

    /// The tenant of this case and repeat.
    pub fn tenant(&self) -> TenantId {
        self.tenant.clone()
    }

    /// Another tenant, the same at every call.
    ///
    /// # Errors
    /// None but a defect of the suite.
    pub fn other_tenant(&self) -> CaseResult<TenantId> {
        Ok(TenantId::new(self.other.as_str())?)
    }

    /// A fresh agent scope of the case's tenant.
    ///
    /// # Errors
    /// None but a defect of the suite.
    pub fn scope(&self) -> CaseResult<Scope> {
        self.scope_of(ScopeKind::Agent)
    }

    /// A fresh scope of that kind.
    ///
    /// # Errors
    /// None but a defect of the suite.
    pub fn scope_of(&self, kind: ScopeKind) -> CaseResult<Scope> {
        self.scope_named(kind, &format!("s{}", self.count()))
    }

    /// The scope of that kind and id in the case's tenant.
    ///
    /// # Errors
    /// None but a defect of the suite.
    pub fn scope_named(&self, kind: ScopeKind, id: &str) -> CaseResult<Scope> {
        Ok(Scope::new(self.tenant(), kind, ScopeId::new(id)?))
    }

    /// A run of the case's tenant that no other call returns.
    ///
    /// # Errors
    /// None but a defect of the suite.
    pub fn run(&self) -> CaseResult<RunContext> {
        self.run_of(&self.tenant)
    }

    /// As [`Cx::run`], of that tenant.
    ///
    /// # Errors
    /// None but a defect of the suite.
    pub fn run_of(&self, tenant: &TenantId) -> CaseResult<RunContext> {
        // Ids of runs are told apart by their tenant alone, and handles of one store count from the same number.
        let run = ScopeId::new(format!("run-{}", self.count()))?;
        Ok(RunContext::new(tenant.clone(), ScopeId::new("agent")?, run))
    }

    /// Sets a key to a JSON text with default options.
    ///
    /// # Errors
    /// As the provider fails.
    #[track_caller]
    pub fn set<'a>(
        &'a self,
        scope: &'a Scope,
        key: &'a str,
        json: &'a str,
    ) -> BoxFuture<'a, memory_core::Result<SetOutcome>> {
        self.set_with(scope, key, json, SetOptions::default())
    }

    /// Sets a key to a JSON text.
    ///
    /// # Errors
    /// As the provider fails.
    pub fn set_with<'a>(
        &'a self,
        scope: &'a Scope,
        key: &'a str,
        json: &'a str,
        options: SetOptions,
    ) -> BoxFuture<'a, memory_core::Result<SetOutcome>> {
        Box::pin(async move { self.kv().set(scope, &Key::new(key)?, Json::parse(json)?, options).await })
    }

    /// Stores a sentence as a JSON string.
    ///
    /// # Errors
    /// As the provider fails.
    pub async fn say(&self, scope: &Scope, key: &str, sentence: &str) -> memory_core::Result<SetOutcome> {
        self.kv().set(scope, &Key::new(key)?, Json::string(sentence), SetOptions::default()).await
    }

    /// The entry of a key; the read does not count.
    ///
    /// # Errors
    /// As the provider fails.
    pub async fn entry(&self, scope: &Scope, key: &str) -> memory_core::Result<Option<Entry>> {
        self.kv().get(scope, &Key::new(key)?, GetOptions::uncounted()).await
    }

    /// The JSON text of a key; the read does not count.
    ///
    /// # Errors
    /// As the provider fails.
    pub async fn text(&self, scope: &Scope, key: &str) -> memory_core::Result<Option<String>> {
        Ok(self.entry(scope, key).await?.map(|entry| entry.value.as_str().to_owned()))
    }

    /// Deletes a key; whether it was there.
    ///
    /// # Errors
    /// As the provider fails.
    pub async fn delete(&self, scope: &Scope, key: &str) -> memory_core::Result<bool> {
        self.kv().remove(scope, &Key::new(key)?).await
    }

    /// Increments a key; the new value.
    ///
    /// # Errors
    /// As the provider fails.
    pub async fn increment(&self, scope: &Scope, key: &str, delta: i64) -> memory_core::Result<i64> {
        Ok(self.kv().increment(scope, &Key::new(key)?, delta, UpdateOptions::default()).await?.value)
    }

    /// The keys of one page of a listing.
    ///
    /// # Errors
    /// As the provider fails.
    pub async fn keys(&self, scope: &Scope, query: ListQuery) -> memory_core::Result<Vec<String>> {
        let page = self.kv().list(scope, query).await?;
        Ok(page.entries.into_iter().map(|entry| entry.key.as_str().to_owned()).collect())
    }

    /// The hits of a search by words with default options.
    ///
    /// # Errors
    /// As the provider fails.
    pub async fn words(&self, scope: &Scope, text: &str) -> memory_core::Result<Vec<Hit>> {
        self.find(scope, SearchQuery::new(text).with_mode(SearchMode::Lexical)).await
    }

    /// The hits of a search.
    ///
    /// # Errors
    /// As the provider fails.
    pub async fn find(&self, scope: &Scope, query: SearchQuery) -> memory_core::Result<Vec<Hit>> {
        Ok(self.kv().search(scope, query).await?.hits)
    }

    /// Runs each future on a thread of its own, all set off at once; their results, in order.
    /// Blocks this thread meanwhile.
    ///
    /// # Errors
    /// A failure where a thread panics.
    pub fn threads<'a, T: Send>(&self, futures: Vec<BoxFuture<'a, T>>) -> CaseResult<Vec<T>> {
        let barrier = Barrier::new(futures.len());
        let harness = &self.store.harness;
        std::thread::scope(|threads| {
            let handles: Vec<_> = futures
                .into_iter()
                .map(|future| {
                    let barrier = &barrier;
                    threads.spawn(move || {
                        let mut result = None;
                        barrier.wait();
                        harness.block_on(Box::pin(async { result = Some(future.await) }));
                        result
                    })
                })
                .collect();
            handles
                .into_iter()
                .map(|handle| handle.join().ok().flatten())
                .collect::<Option<Vec<T>>>()
                .ok_or_else(|| Stop::failed("a thread of the case panicked"))
        })
    }
}

/// The key of that text.
///
/// # Errors
/// As `Key::new`.
pub fn key(text: &str) -> memory_core::Result<Key> {
    Key::new(text)
}

/// The value of that JSON text.
///
/// # Errors
/// As `Json::parse`.
pub fn json(text: &str) -> memory_core::Result<Json> {
    Ok(Json::parse(text)?)
}

/// The source of that label.
///
/// # Errors
/// As `Source::new`.
pub fn source(label: &str) -> memory_core::Result<Source> {
    Source::new(label)
}

/// Milliseconds as a duration.
#[must_use]
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Options with a lifetime in milliseconds.
#[must_use]
pub fn expiring(millis: u64) -> SetOptions {
    SetOptions::default().with_ttl(memory_core::Ttl::After(ms(millis)))
}

/// Options with metadata.
#[must_use]
pub fn tagged(metadata: Metadata) -> SetOptions {
    SetOptions::default().with_metadata(metadata)
}

/// The keys of hits, best first.
#[must_use]
pub fn hit_keys(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.entry.key.as_str()).collect()
}
