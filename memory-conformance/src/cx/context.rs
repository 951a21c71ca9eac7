//! The context of a case.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use memory_core::{
    Backend, BackendExt as _, Capabilities, Clock as _, Entry, GetOptions, Hit, Json, Key, ListQuery,
    Metadata, Provider, Reclaimed, RunContext, Scope, ScopeId, ScopeKind, SearchMode, SearchQuery,
    SetOptions, SetOutcome, Source, SqlFacet, TenantId, Timestamp, UpdateOptions,
};

use super::store::Store;
use crate::check::{CaseResult, Stop};
use crate::harness::embedder::TestEmbedder;
use crate::harness::executor::BoxFuture;
use crate::harness::fixture::{Fixture, TestClock};
use crate::random::Random;

/// The context of a case: a provider, and names unique to the case, repeat and run.
pub(crate) struct Cx {
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
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// A separate store, which the case may drop and reopen.
    pub(crate) async fn open(&self) -> CaseResult<Store> {
        self.open_with(TestEmbedder::new()).await
    }

    /// As [`Cx::open`], with that embedder.
    pub(crate) async fn open_with(&self, embedder: TestEmbedder) -> CaseResult<Store> {
        let fixture = Fixture::new(format!("{}-own-{}", self.store.fixture.name, self.count()));
        Store::open(Arc::clone(&self.store.harness), fixture.with_embedder(Arc::new(embedder))).await
    }

    /// The context of this case on a separate store with this idle limit for transactions.
    pub(crate) async fn with_tx_idle(&self, idle: Duration) -> CaseResult<Self> {
        if !self.store.sql_setup().obeys_tx_idle {
            return Err(Stop::skipped("the harness does not support a limit for idle transactions"));
        }
        let fixture = Fixture::new(format!("{}-own-{}", self.store.fixture.name, self.count()));
        Ok(self.on(Store::open(Arc::clone(&self.store.harness), fixture.with_tx_idle(idle)).await?))
    }

    /// The context of this case on a separate store, on a disk of this size.
    pub(crate) async fn with_disk_bytes(&self, bytes: u64) -> CaseResult<Self> {
        if !self.store.harness.obeys_disk_bytes() {
            return Err(Stop::skipped("the harness does not limit the disk"));
        }
        let fixture = Fixture::new(format!("{}-own-{}", self.store.fixture.name, self.count()));
        Ok(self.on(Store::open(Arc::clone(&self.store.harness), fixture.with_disk_bytes(bytes)).await?))
    }

    /// Removes what has expired, unless other cases share the store: by their clocks it may still be valid.
    pub(crate) async fn sweep(&self) -> CaseResult<Reclaimed> {
        if !self.store.harness.obeys_disk_bytes() {
            return Err(Stop::skipped(
                "other cases share the store, and a sweep by this case's clock would harm them",
            ));
        }
        match self.capabilities().eviction {
            true => Ok(self.provider().reclaim().await?),
            false => Ok(Reclaimed::default()),
        }
    }

    /// The context of this case on another store: the same tenant, other names.
    #[must_use]
    pub(crate) fn on(&self, store: Store) -> Self {
        // Far from the names already used.
        let names = AtomicU64::new(self.count() << 32);
        Self { store, case: self.case, tenant: self.tenant.clone(), other: self.other.clone(), names }
    }

    /// Closes this context's store and reopens it with that embedder.
    pub(crate) async fn reopened_with(self, embedder: TestEmbedder) -> CaseResult<Self> {
        Ok(Self { store: self.store.reopen_with(embedder).await?, ..self })
    }

    /// The key/value facet, through `Checked`.
    pub(crate) fn kv(&self) -> &dyn Backend {
        self.store.kv()
    }

    /// The SQL facet, through `Checked`.
    pub(crate) fn sql(&self) -> &dyn SqlFacet {
        self.store.sql()
    }

    /// The provider, through `Checked`.
    pub(crate) fn provider(&self) -> &dyn Provider {
        self.store.provider()
    }

    /// The provider without `Checked`, only for refusals.
    pub(crate) fn raw(&self) -> &dyn Provider {
        self.store.raw()
    }

    /// What is advertised.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.store.provider().capabilities()
    }

    /// The provider's clock.
    pub(crate) fn clock(&self) -> &TestClock {
        self.store.clock()
    }

    /// The time on that clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Declares that the case needs a clock that stands still.
    pub(crate) fn stand_still(&self) {
        self.clock();
    }

    /// Options with a lifetime. If it may end while the case runs, the clock must stand still.
    pub(crate) fn expiring(&self, millis: u64) -> SetOptions {
        if millis < 60_000 {
            self.stand_still();
        }
        SetOptions::default().with_ttl(memory_core::Ttl::After(ms(millis)))
    }

    /// Moves that clock forward by milliseconds.
    pub(crate) fn advance_ms(&self, by: u64) {
        self.clock().advance_ms(by);
    }

    /// The embedder the harness was given.
    pub(crate) fn embedder(&self) -> &TestEmbedder {
        self.store.embedder()
    }

    /// Random numbers that are the same in every run of this case.
    pub(crate) fn random(&self) -> Random {
        Random::named(self.case)
    }

    /// The tenant of this case and repeat.
    pub(crate) fn tenant(&self) -> TenantId {
        self.tenant.clone()
    }

    /// Another tenant, the same at every call.
    pub(crate) fn other_tenant(&self) -> CaseResult<TenantId> {
        Ok(TenantId::new(self.other.as_str())?)
    }

    /// A fresh agent scope of the case's tenant.
    pub(crate) fn scope(&self) -> CaseResult<Scope> {
        self.scope_of(ScopeKind::Agent)
    }

    /// A fresh scope of that kind.
    pub(crate) fn scope_of(&self, kind: ScopeKind) -> CaseResult<Scope> {
        self.scope_named(kind, &format!("s{}", self.count()))
    }

    /// The scope of that kind and id in the case's tenant.
    pub(crate) fn scope_named(&self, kind: ScopeKind, id: &str) -> CaseResult<Scope> {
        Ok(Scope::new(self.tenant(), kind, ScopeId::new(id)?))
    }

    /// A run of the case's tenant that no other call returns.
    pub(crate) fn run(&self) -> CaseResult<RunContext> {
        self.run_of(&self.tenant)
    }

    /// As [`Cx::run`], of that tenant.
    pub(crate) fn run_of(&self, tenant: &TenantId) -> CaseResult<RunContext> {
        // Only the tenant distinguishes runs with the same id, and handles of one store count from the same number.
        let run = ScopeId::new(format!("run-{}", self.count()))?;
        Ok(RunContext::new(tenant.clone(), ScopeId::new("agent")?, run))
    }

    /// Sets a key to a JSON text with default options.
    #[track_caller]
    pub(crate) fn set<'a>(
        &'a self,
        scope: &'a Scope,
        key: &'a str,
        json: &'a str,
    ) -> BoxFuture<'a, memory_core::Result<SetOutcome>> {
        self.set_with(scope, key, json, SetOptions::default())
    }

    /// Sets a key to a JSON text.
    pub(crate) fn set_with<'a>(
        &'a self,
        scope: &'a Scope,
        key: &'a str,
        json: &'a str,
        options: SetOptions,
    ) -> BoxFuture<'a, memory_core::Result<SetOutcome>> {
        Box::pin(async move { self.kv().set(scope, &Key::new(key)?, Json::parse(json)?, options).await })
    }

    /// Stores a sentence as a JSON string.
    pub(crate) async fn say(
        &self,
        scope: &Scope,
        key: &str,
        sentence: &str,
    ) -> memory_core::Result<SetOutcome> {
        self.kv().set(scope, &Key::new(key)?, Json::string(sentence), SetOptions::default()).await
    }

    /// The entry of a key; the read does not count.
    pub(crate) async fn entry(&self, scope: &Scope, key: &str) -> memory_core::Result<Option<Entry>> {
        self.kv().get(scope, &Key::new(key)?, GetOptions::uncounted()).await
    }

    /// The JSON text of a key; the read does not count.
    pub(crate) async fn text(&self, scope: &Scope, key: &str) -> memory_core::Result<Option<String>> {
        Ok(self.entry(scope, key).await?.map(|entry| entry.value.as_str().to_owned()))
    }

    /// Deletes a key; returns whether it existed.
    pub(crate) async fn delete(&self, scope: &Scope, key: &str) -> memory_core::Result<bool> {
        self.kv().remove(scope, &Key::new(key)?).await
    }

    /// Increments a key and returns the new value.
    pub(crate) async fn increment(&self, scope: &Scope, key: &str, delta: i64) -> memory_core::Result<i64> {
        Ok(self.kv().increment(scope, &Key::new(key)?, delta, UpdateOptions::default()).await?.value)
    }

    /// The keys of one page of a listing.
    pub(crate) async fn keys(&self, scope: &Scope, query: ListQuery) -> memory_core::Result<Vec<String>> {
        let page = self.kv().list(scope, query).await?;
        Ok(page.entries.into_iter().map(|entry| entry.key.as_str().to_owned()).collect())
    }

    /// The hits of a search by words with default options.
    pub(crate) async fn words(&self, scope: &Scope, text: &str) -> memory_core::Result<Vec<Hit>> {
        self.find(scope, SearchQuery::new(text).with_mode(SearchMode::Lexical)).await
    }

    /// The hits of a search.
    pub(crate) async fn find(&self, scope: &Scope, query: SearchQuery) -> memory_core::Result<Vec<Hit>> {
        Ok(self.kv().search(scope, query).await?.hits)
    }

    /// Runs each future on a separate thread, all at once, and returns their results in order. Blocks this thread.
    pub(crate) fn threads<'a, T: Send>(&self, futures: Vec<BoxFuture<'a, T>>) -> CaseResult<Vec<T>> {
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
pub(crate) fn key(text: &str) -> memory_core::Result<Key> {
    Key::new(text)
}

/// The value of that JSON text.
pub(crate) fn json(text: &str) -> memory_core::Result<Json> {
    Ok(Json::parse(text)?)
}

/// The source of that label.
pub(crate) fn source(label: &str) -> memory_core::Result<Source> {
    Source::new(label)
}

/// Milliseconds as a duration.
#[must_use]
pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Options with metadata.
#[must_use]
pub(crate) fn tagged(metadata: Metadata) -> SetOptions {
    SetOptions::default().with_metadata(metadata)
}

/// The keys of hits, best first.
#[must_use]
pub(crate) fn hit_keys(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.entry.key.as_str()).collect()
}
