//! What a harness receives: a clock, ids and an embedder controlled by the case.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use memory_core::{Clock, IdGen, Timestamp};

use crate::harness::embedder::TestEmbedder;
use crate::random::Random;

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct TestClock {
    now: AtomicI64,
    /// Whether the case has read or moved it; the provider reads it too.
    is_used: AtomicBool,
}

impl TestClock {
    /// 2026-01-01T00:00:00Z, where every case starts.
    pub const START: i64 = 1_767_225_600_000;

    /// A clock at [`TestClock::START`].
    #[must_use]
    pub fn new() -> Self {
        Self { now: AtomicI64::new(Self::START), is_used: AtomicBool::new(false) }
    }

    /// Moves forward.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Moves forward by milliseconds.
    pub fn advance_ms(&self, by: u64) {
        self.advance(Duration::from_millis(by));
    }

    /// Jumps to a time, also backwards.
    pub fn set(&self, now: Timestamp) {
        self.now.store(now.as_millis(), Ordering::SeqCst);
    }

    /// The clock in the hands of the case.
    pub(crate) fn used(&self) -> &Self {
        self.is_used.store(true, Ordering::SeqCst);
        self
    }

    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::SeqCst)
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis_clamped(self.now.load(Ordering::SeqCst))
    }
}

/// Ids that count up from a number unique to the fixture.
#[derive(Debug)]
pub struct TestIds {
    high: u64,
    next: AtomicU64,
}

impl TestIds {
    /// Ids whose upper half is derived from `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { high: Random::named(name).bits(), next: AtomicU64::new(1) }
    }
}

impl IdGen for TestIds {
    fn fresh(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.next.fetch_add(1, Ordering::SeqCst))
    }
}

/// Everything a harness needs to open a provider. Owned, so that it may be kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fixture {
    /// Unique within a run, and valid as a file name.
    pub name: String,
    /// The clock to use.
    pub clock: Arc<TestClock>,
    /// The source of fresh ids.
    pub ids: Arc<TestIds>,
    /// An embedder to configure, if the provider takes one.
    pub embedder: Arc<TestEmbedder>,
    /// The idle limit for SQL transactions, if a case needs a short one: for harnesses whose
    /// [`SqlSetup`](crate::SqlSetup) supports it. `None` for the provider's default.
    pub tx_idle: Option<Duration>,
    /// Whether caches and in-memory indexes should be as small as possible, so that a small store behaves like one
    /// larger than memory: for harnesses that [support it](crate::Harness::takes_small_caches).
    pub small_caches: bool,
    /// How many bytes the store may take before its disk counts as full: for harnesses that [obey
    /// it](crate::Harness::obeys_disk_bytes). `None` for no limit.
    pub disk_bytes: Option<u64>,
}

impl Fixture {
    /// A fixture with a new clock, ids and embedder. The runner makes one per case; make one yourself to use the
    /// reference provider elsewhere.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            clock: Arc::new(TestClock::new()),
            ids: Arc::new(TestIds::new(&name)),
            embedder: Arc::new(TestEmbedder::new()),
            tx_idle: None,
            small_caches: false,
            disk_bytes: None,
            name,
        }
    }

    /// The same with this idle limit for transactions.
    #[must_use]
    pub fn with_tx_idle(mut self, idle: Duration) -> Self {
        self.tx_idle = Some(idle);
        self
    }

    /// The same with the smallest possible caches.
    #[must_use]
    pub fn with_small_caches(mut self) -> Self {
        self.small_caches = true;
        self
    }

    /// The same on a disk of this size.
    #[must_use]
    pub fn with_disk_bytes(mut self, bytes: u64) -> Self {
        self.disk_bytes = Some(bytes);
        self
    }

    /// The same store, clock and ids with another embedder: for a provider that is opened again after its
    /// model was changed.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<TestEmbedder>) -> Self {
        self.embedder = embedder;
        self
    }
}
