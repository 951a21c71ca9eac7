//! Mixed work on one large scope, with closing and dropping in between, on every kind of thread. Nothing acknowledged
//! is lost, and something finishes at least every ten seconds; otherwise the test reports who waits for what.
//!
//! `MEMORY_SOAK_MINUTES` makes it long, with 100,000 and 1,000,000 entries.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use memory_core::{
    Backend as _, DeleteOptions, EraseTarget, GetOptions, Key, ListQuery, NewEntry, Provider as _,
    SearchMode, SearchQuery, SetOptions, Ttl,
};
use memory_sqlite::{SqliteConfig, SqliteProvider, wait_until_closed};
use tokio::runtime::Builder;

use crate::support::files::{integrity, place};
use crate::support::{TestClock, agent, block_on, json, key, normal, poll_once, watchdog};

/// Without progress for this long, the store hangs. An unoptimised build may take longer for one search.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 10 });
/// Concurrent tasks.
const TASKS: u64 = 4;
/// Operations of a task between two closings.
const OPERATIONS: u64 = 150;

/// Where futures run.
#[derive(Clone, Copy, Debug)]
enum Threads {
    Several,
    One,
    NoRuntime,
}

type Task = Pin<Box<dyn Future<Output = Written> + Send>>;
/// The keys of a task, and what it last stored under them; `None` if it deleted or erased them.
type Written = HashMap<String, Option<String>>;

/// The state that the watchdog sees.
#[derive(Default)]
struct Watched {
    ended: AtomicU64,
    store: Mutex<Weak<SqliteProvider>>,
}

struct Soak {
    path: PathBuf,
    clock: Arc<TestClock>,
    watched: Arc<Watched>,
    entries: u64,
    written: Written,
}

/// A small random number generator that repeats its numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn config() -> SqliteConfig {
    let mut config = normal();
    config.sweep_interval_ms = 50;
    config.access_flush_ms = 20;
    config.checkpoint_pages = 200;
    config
}

impl Soak {
    fn open(&self) -> Arc<SqliteProvider> {
        let store = Arc::new(SqliteProvider::open(&self.path, config(), self.clock.clone()).unwrap());
        *self.watched.store.lock().unwrap() = Arc::downgrade(&store);
        store
    }

    async fn load(&self) {
        let store = self.open();
        for first in (0..self.entries).step_by(1_000) {
            let numbers = first..self.entries.min(first + 1_000);
            let items = numbers.map(|number| NewEntry::new(loaded(number), json("\"a cup of oolong\"")));
            store.bulk_insert(&agent("ada"), items.collect(), Default::default()).await.unwrap();
            self.watched.ended.fetch_add(1, Ordering::Relaxed);
        }
        store.close().await.unwrap();
    }

    /// Works on an open store for a while, then ends in one of four ways.
    async fn round(&mut self, threads: Threads, round: u64) {
        let store = self.open();
        self.check(&store, round).await;
        let tasks = (0..TASKS).map(|task| {
            let work =
                work(store.clone(), self.clock.clone(), self.watched.clone(), self.entries, round, task);
            Box::pin(work) as Task
        });
        for written in run(threads, tasks.collect()).await {
            self.written.extend(written);
        }
        match round % 4 {
            0 => store.close().await.unwrap(),
            // The next one opens the file while this one is still being closed.
            1 => drop(store),
            2 => {
                drop(store);
                assert!(wait_until_closed(6 * PATIENCE));
            }
            _ => {
                // It is dropped while calls whose callers have gone away are still running.
                for number in 0..50 {
                    let (name, scope) = (key(&format!("away/{number}")), agent("ada"));
                    let _ = poll_once(store.set(&scope, &name, json("1"), SetOptions::default()));
                    let _ = poll_once(store.search(&scope, SearchQuery::new("oolong")));
                }
                drop(store);
            }
        }
        self.watched.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything that was acknowledged is there.
    async fn check(&self, store: &SqliteProvider, round: u64) {
        for (name, expected) in &self.written {
            let found = store.get(&agent("ada"), &key(name), GetOptions::uncounted()).await.unwrap();
            let found = found.map(|entry| entry.value.as_str().to_owned());
            assert_eq!(&found, expected, "{name} before round {round}");
            self.watched.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn loaded(number: u64) -> Key {
    key(&format!("loaded/{number:07}"))
}

/// One task: it writes its own keys, and reads everybody's.
async fn work(
    store: Arc<SqliteProvider>,
    clock: Arc<TestClock>,
    watched: Arc<Watched>,
    entries: u64,
    round: u64,
    task: u64,
) -> Written {
    let scope = agent("ada");
    let mut random = Random(round * TASKS + task);
    let mut written = Written::new();
    for number in 0..OPERATIONS {
        let name = format!("task{task}/{:03}", random.below(200));
        match random.below(100) {
            0..30 => {
                let value = format!("\"{round} {number} a pot of tea\"");
                store.set(&scope, &key(&name), json(&value), SetOptions::default()).await.unwrap();
                written.insert(name, Some(value));
            }
            30..35 => {
                let options = SetOptions::default().with_ttl(Ttl::After(Duration::from_millis(5)));
                let name = key(&format!("short/{task}/{number}"));
                store.set(&scope, &name, json("1"), options).await.unwrap();
                clock.advance(Duration::from_millis(1));
            }
            35..65 => {
                let name = loaded(random.below(entries));
                assert!(store.get(&scope, &name, GetOptions::default()).await.unwrap().is_some());
            }
            65..75 => {
                let query = ListQuery::prefix(format!("loaded/{:04}", random.below(entries) / 1_000));
                assert!(!store.list(&scope, query.with_limit(200)).await.unwrap().entries.is_empty());
            }
            75..85 => {
                store.delete(&scope, &key(&name), DeleteOptions::default()).await.unwrap();
                written.insert(name, None);
            }
            85..92 => {
                let items = (0..300).map(|at| NewEntry::new(key(&format!("bulk{task}/{at}")), json("1")));
                store.bulk_insert(&scope, items.collect(), Default::default()).await.unwrap();
            }
            92..94 => {
                let query = SearchQuery::new("pot").with_mode(SearchMode::Lexical).with_top_k(5);
                store.search(&scope, query).await.unwrap();
            }
            94..96 => drop(store.sweep().await.unwrap()),
            96..98 => store.flush().await.unwrap(),
            98 => drop(store.health().await.unwrap()),
            _ if task == 0 && number % 4 == 0 => {
                let target = EraseTarget::Key { scope: scope.clone(), key: key(&name) };
                store.erase(&target).await.unwrap();
                written.insert(name, None);
            }
            _ => drop(store.stats(&scope).await.unwrap()),
        }
        watched.ended.fetch_add(1, Ordering::Relaxed);
    }
    written
}

async fn run(threads: Threads, tasks: Vec<Task>) -> Vec<Written> {
    match threads {
        Threads::NoRuntime => {
            let running: Vec<_> =
                tasks.into_iter().map(|task| std::thread::spawn(move || block_on(task))).collect();
            running.into_iter().map(|task| task.join().unwrap()).collect()
        }
        Threads::Several | Threads::One => {
            let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
            let mut written = Vec::new();
            for task in running {
                written.push(task.await.unwrap());
            }
            written
        }
    }
}

fn on<T>(threads: Threads, work: impl Future<Output = T>) -> T {
    match threads {
        Threads::Several => Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(work),
        Threads::One => Builder::new_current_thread().build().unwrap().block_on(work),
        Threads::NoRuntime => block_on(work),
    }
}

/// Soaks a store of this many entries, under the watchdog.
fn soak(path: &Path, entries: u64, threads: Threads, enough: Duration) {
    let watched = Arc::new(Watched::default());
    let mut soak = Soak {
        path: path.to_path_buf(),
        clock: TestClock::new(),
        watched: watched.clone(),
        entries,
        written: Written::new(),
    };
    let (send, done) = channel();
    let work = move || {
        if !soak.path.exists() {
            on(threads, soak.load());
        }
        let began = Instant::now();
        let mut round = 0;
        while round < 4 || began.elapsed() < enough {
            on(threads, soak.round(threads, round));
            round += 1;
        }
        send.send(round).unwrap();
    };
    let thread = std::thread::Builder::new().name("soak".to_owned()).spawn(work).unwrap();
    // The first search by words reads the whole scope, which takes seconds for a million entries, and many on a busy machine.
    let patience = PATIENCE * u32::try_from(entries / 300_000).unwrap_or(1).max(1);
    let (mut ended, mut since) = (0, Instant::now());
    let rounds = loop {
        match done.recv_timeout(Duration::from_millis(500)) {
            Ok(rounds) => break rounds,
            Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = watched.ended.load(Ordering::Relaxed);
        if now != ended {
            (ended, since) = (now, Instant::now());
        }
        if since.elapsed() >= patience {
            let store = watched.store.lock().unwrap().upgrade();
            let health = store.map(|store| block_on(store.health()));
            panic!("nothing ended for {patience:?}; the store says {health:?}\n{}", watchdog::threads());
        }
    };
    println!(
        "{entries} entries, {threads:?}: {rounds} rounds, {} operations",
        watched.ended.load(Ordering::Relaxed)
    );
}

#[test]
fn mixed_work_goes_on_and_loses_nothing() {
    let minutes = std::env::var("MEMORY_SOAK_MINUTES").ok().and_then(|minutes| minutes.parse::<u32>().ok());
    let sizes: &[u64] = if minutes.is_some() { &[100_000, 1_000_000] } else { &[3_000] };
    let all = [Threads::Several, Threads::One, Threads::NoRuntime];
    let enough = minutes.map_or(Duration::ZERO, |minutes| Duration::from_secs(60) * minutes / 6);
    for entries in sizes {
        let (_folder, path) = place();
        for threads in all {
            soak(&path, *entries, threads, enough);
        }
        assert!(wait_until_closed(6 * PATIENCE));
        assert_eq!(integrity(&path), "ok");
    }
}
