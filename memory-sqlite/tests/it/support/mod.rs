//! Shared by the tests: a store with a manual clock, waiting without a runtime, the test binary as a child process.
#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing
)]

pub(crate) mod child;
pub(crate) mod embedders;
pub(crate) mod files;
pub(crate) mod sql;
pub(crate) mod trace;
pub(crate) mod watchdog;

use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use futures_core::Stream;
use memory_core::{
    Backend, Checked, Clock, DeleteOptions, Embedder, Entry, GetOptions, Json, Key, ListQuery, NewEntry,
    Provider as _, Result, Scope, SearchMode, SearchQuery, SetOptions, SetOutcome, Timestamp, UpdateOptions,
};
use memory_sqlite::{Durability, SqliteConfig, SqliteProvider};

/// A manual clock.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_800_000_000_000)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl TestClock {
    pub(crate) fn set_back(&self, by: Duration) {
        self.0.fetch_sub(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls on this thread and parks in between: no runtime, no timers.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Polls a future once and drops it if it is pending.
pub(crate) fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn agent(id: &str) -> Scope {
    Scope::agent("acme", id).unwrap()
}

/// The defaults, without syncs.
pub(crate) fn normal() -> SqliteConfig {
    SqliteConfig::default().with_durability(Durability::Normal)
}

pub(crate) fn open(path: &Path, config: SqliteConfig) -> SqliteProvider {
    SqliteProvider::open(path, config, TestClock::new()).unwrap()
}

/// Nothing runs in the background except checkpoints.
pub(crate) fn quiet() -> SqliteConfig {
    let mut config = SqliteConfig::default();
    config.sweep_interval_ms = 0;
    config.access_flush_ms = 86_400_000;
    config
}

/// Like [`quiet`], without syncs.
pub(crate) fn fast() -> SqliteConfig {
    quiet().with_durability(Durability::Normal)
}

/// A provider behind [`Checked`], as users have it, with one scope and blocking calls.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) provider: Arc<SqliteProvider>,
    pub(crate) kv: Arc<Checked<Arc<SqliteProvider>>>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) scope: Scope,
}

impl Store {
    pub(crate) fn open(path: &Path, config: SqliteConfig) -> Result<Self> {
        Self::open_at(path, config, TestClock::new())
    }

    pub(crate) fn open_at(path: &Path, config: SqliteConfig, clock: Arc<TestClock>) -> Result<Self> {
        let provider = Arc::new(SqliteProvider::open(path, config, clock.clone())?);
        Self::over(provider, clock)
    }

    pub(crate) fn in_memory(config: SqliteConfig) -> Result<Self> {
        Self::in_memory_at(config, TestClock::new())
    }

    pub(crate) fn in_memory_at(config: SqliteConfig, clock: Arc<TestClock>) -> Result<Self> {
        Self::over(Arc::new(SqliteProvider::open_in_memory(config, clock.clone())?), clock)
    }

    /// With an embedder, in a file or in memory.
    pub(crate) fn embedding(
        path: Option<&Path>,
        config: SqliteConfig,
        clock: Arc<TestClock>,
        embedder: Arc<dyn Embedder>,
    ) -> Result<Self> {
        let provider = match path {
            Some(path) => SqliteProvider::open(path, config, clock.clone())?,
            None => SqliteProvider::open_in_memory(config, clock.clone())?,
        };
        Self::over(Arc::new(provider.with_embedder(embedder)), clock)
    }

    fn over(provider: Arc<SqliteProvider>, clock: Arc<TestClock>) -> Result<Self> {
        let kv = Arc::new(Checked::new(provider.clone())?);
        Ok(Self { provider, kv, clock, scope: agent("ada") })
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        self.kv.backend().unwrap()
    }

    pub(crate) fn try_set(&self, name: &str, value: &str) -> Result<SetOutcome> {
        self.try_set_with(name, value, SetOptions::default())
    }

    pub(crate) fn try_set_with(&self, name: &str, value: &str, options: SetOptions) -> Result<SetOutcome> {
        block_on(self.backend().set(&self.scope, &key(name), json(value), options))
    }

    /// Sets a JSON text and returns the version.
    pub(crate) fn set(&self, name: &str, value: &str) -> u64 {
        self.try_set(name, value).unwrap().version
    }

    pub(crate) fn bulk(&self, items: impl IntoIterator<Item = (String, String)>) -> Result<Vec<SetOutcome>> {
        let items = items.into_iter().map(|(name, value)| NewEntry::new(key(&name), json(&value))).collect();
        block_on(self.backend().bulk_insert(&self.scope, items, Default::default()))
    }

    pub(crate) fn increment(&self, name: &str, delta: i64) -> Result<i64> {
        let options = UpdateOptions::default();
        block_on(self.backend().increment(&self.scope, &key(name), delta, options))
            .map(|outcome| outcome.value)
    }

    pub(crate) fn delete(&self, name: &str) -> Result<bool> {
        block_on(self.backend().delete(&self.scope, &key(name), DeleteOptions::default()))
            .map(|outcome| outcome.deleted)
    }

    /// Reads without counting an access.
    pub(crate) fn entry(&self, name: &str) -> Result<Option<Entry>> {
        block_on(self.backend().get(&self.scope, &key(name), GetOptions::uncounted()))
    }

    /// The stored JSON text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.entry(name).unwrap().map(|entry| entry.value.as_str().to_owned())
    }

    /// Every key under the prefix, page by page.
    pub(crate) fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.entries(prefix)?.into_iter().map(|entry| entry.key.as_str().to_owned()).collect())
    }

    pub(crate) fn entries(&self, prefix: &str) -> Result<Vec<Entry>> {
        let (mut entries, mut cursor) = (Vec::new(), None);
        loop {
            let query = ListQuery::prefix(prefix).with_cursor(cursor).with_limit(1_000);
            let page = block_on(self.backend().list(&self.scope, query))?;
            entries.extend(page.entries);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(entries);
            }
        }
    }

    /// The keys found by these words, best first.
    pub(crate) fn find(&self, words: &str) -> Result<Vec<String>> {
        Ok(self.hits(words)?.into_iter().map(|(name, _)| name).collect())
    }

    /// The keys and values found by these words, best first.
    pub(crate) fn hits(&self, words: &str) -> Result<Vec<(String, String)>> {
        let query = SearchQuery::new(words).with_mode(SearchMode::Lexical).with_top_k(1_000);
        let found = block_on(self.backend().search(&self.scope, query))?;
        let entries = found.hits.into_iter().map(|hit| hit.entry);
        Ok(entries.map(|entry| (entry.key.as_str().to_owned(), entry.value.as_str().to_owned())).collect())
    }

    /// The keys nearest to the text, with scores, best first.
    pub(crate) fn near(&self, text: &str, top_k: usize) -> Result<Vec<(String, f64)>> {
        let query = SearchQuery::new(text).with_mode(SearchMode::Vector).with_top_k(top_k);
        let found = block_on(self.backend().search(&self.scope, query))?;
        Ok(found.hits.into_iter().map(|hit| (hit.entry.key.as_str().to_owned(), hit.score)).collect())
    }

    /// Closes it in order: pending writes are written, the log is checkpointed.
    pub(crate) fn close(self) {
        block_on(self.provider.close()).unwrap();
    }
}

/// Every item of a stream.
pub(crate) async fn collect<T>(mut stream: Pin<Box<dyn Stream<Item = T> + Send>>) -> Vec<T> {
    let mut items = Vec::new();
    while let Some(item) = std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await {
        items.push(item);
    }
    items
}

/// A stream of these items.
pub(crate) fn stream<T: Send + Unpin + 'static>(items: Vec<T>) -> Pin<Box<dyn Stream<Item = T> + Send>> {
    struct Items<T>(std::vec::IntoIter<T>);
    impl<T: Unpin> Stream for Items<T> {
        type Item = T;
        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
            Poll::Ready(self.0.next())
        }
    }
    Box::pin(Items(items.into_iter()))
}

/// Polls for the effect of a background thread; fails after a generous timeout.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says why a test does not apply here.
pub(crate) fn skip(test: &str, reason: &str) {
    println!("skipped {test}: {reason}");
}
