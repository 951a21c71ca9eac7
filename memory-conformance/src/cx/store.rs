//! An open provider, and more handles on its store.

use std::sync::Arc;

use memory_core::{Backend, Checked, MemoryLayer, Provider, SqlFacet};

use crate::check::{CaseResult, Stop};
use crate::harness::embedder::TestEmbedder;
#[cfg(any(feature = "governed", feature = "hierarchical"))]
use crate::harness::fixture::TestIds;
use crate::harness::fixture::{Fixture, TestClock};
use crate::harness::{Harness, SqlSetup};

/// An open provider with the fixture it was opened with.
#[derive(Clone)]
pub(crate) struct Store {
    pub(super) harness: Arc<dyn Harness>,
    pub(super) fixture: Fixture,
    checked: Arc<Checked<Arc<dyn Provider>>>,
    wrapped: Arc<dyn Provider>,
}

impl Store {
    pub(crate) async fn open(harness: Arc<dyn Harness>, fixture: Fixture) -> CaseResult<Self> {
        let raw = harness.open(fixture.clone()).await?;
        Self::new(harness, fixture, raw)
    }

    fn new(harness: Arc<dyn Harness>, fixture: Fixture, raw: Box<dyn Provider>) -> CaseResult<Self> {
        let checked = Arc::new(Checked::new(Arc::<dyn Provider>::from(raw))?);
        let wrapped = harness.wrap_checked(Arc::<Checked<Arc<dyn Provider>>>::clone(&checked));
        Ok(Self { harness, fixture, checked, wrapped })
    }

    /// Another handle on the same store.
    pub(crate) async fn another_handle(&self) -> CaseResult<Self> {
        match self.harness.reopen(&self.fixture).await? {
            Some(raw) => Self::new(Arc::clone(&self.harness), self.fixture.clone(), raw),
            None => Err(Stop::skipped("the store cannot be opened twice")),
        }
    }

    /// Another handle on the same store, with the smallest possible caches.
    pub(crate) async fn another_handle_with_small_caches(&self) -> CaseResult<Self> {
        if !self.harness.takes_small_caches() {
            return Err(Stop::skipped("the harness does not make caches small"));
        }
        let mut beside = self.clone();
        beside.fixture = beside.fixture.with_small_caches();
        beside.another_handle().await
    }

    /// Another handle on the same store, with its own embedder.
    pub(crate) async fn another_handle_with(&self, embedder: TestEmbedder) -> CaseResult<Self> {
        let mut beside = self.clone();
        beside.fixture = beside.fixture.with_embedder(Arc::new(embedder));
        beside.another_handle().await
    }

    /// Drops this handle and reopens the store with another embedder.
    pub(crate) async fn reopen_with(mut self, embedder: TestEmbedder) -> CaseResult<Self> {
        self.fixture = self.fixture.with_embedder(Arc::new(embedder));
        self.reopen().await
    }

    /// Drops this handle and reopens the store. Clones of this handle keep it open.
    pub(crate) async fn reopen(self) -> CaseResult<Self> {
        let Self { harness, fixture, checked, wrapped } = self;
        drop((checked, wrapped));
        match harness.reopen(&fixture).await? {
            Some(raw) => Self::new(harness, fixture, raw),
            None => Err(Stop::skipped("the store ends with its handle")),
        }
    }

    /// The provider through `Checked`, as it is normally opened.
    pub(crate) fn provider(&self) -> &dyn Provider {
        &self.wrapped
    }

    /// `Checked` itself, which implements every facet even if it hands out none.
    pub(crate) fn checked(&self) -> &Checked<Arc<dyn Provider>> {
        &self.checked
    }

    /// The provider without `Checked`, only for refusals.
    pub(crate) fn raw(&self) -> &dyn Provider {
        self.checked.inner()
    }

    /// The key/value facet.
    pub(crate) fn kv(&self) -> &dyn Backend {
        // Without the facet, `Checked` itself, which refuses.
        self.wrapped.backend().unwrap_or(&*self.checked)
    }

    /// The SQL facet.
    pub(crate) fn sql(&self) -> &dyn SqlFacet {
        self.wrapped.sql().unwrap_or(&*self.checked)
    }

    /// The conversational layer.
    pub(crate) fn layer(&self) -> &dyn MemoryLayer {
        self.wrapped.layer().unwrap_or(&*self.checked)
    }

    /// As [`Store::provider`], shared.
    #[cfg(any(feature = "governed", feature = "hierarchical"))]
    pub(crate) fn shared_provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.wrapped)
    }

    /// The harness.
    #[cfg(any(feature = "governed", feature = "hierarchical"))]
    pub(crate) fn harness(&self) -> &dyn Harness {
        &*self.harness
    }

    /// Its clock and ids, shared.
    #[cfg(any(feature = "governed", feature = "hierarchical"))]
    pub(crate) fn time_and_ids(&self) -> (Arc<TestClock>, Arc<TestIds>) {
        (Arc::clone(&self.fixture.clock), Arc::clone(&self.fixture.ids))
    }

    /// Whether the case has used a clock that the store does not live by.
    pub(crate) fn is_out_of_time(&self) -> bool {
        !self.harness.obeys_clock() && self.fixture.clock.is_used()
    }

    /// What the harness set up for the cases about SQL.
    pub(crate) fn sql_setup(&self) -> SqlSetup {
        self.harness.sql_setup()
    }

    /// Its clock.
    pub(crate) fn clock(&self) -> &TestClock {
        self.fixture.clock.used()
    }

    /// Its embedder.
    pub(crate) fn embedder(&self) -> &TestEmbedder {
        &self.fixture.embedder
    }
}
