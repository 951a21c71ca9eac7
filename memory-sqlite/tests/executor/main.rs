//! Nothing that waits or is slow blocks an unrelated task, and no particular executor is needed.
//!
//! An unrelated task on the same single-threaded runtime ticks every few milliseconds. An operation that stalled the
//! thread would make the longest gap between two ticks as long as the stall: a lock held for 1,500 ms, syncs of 400 ms
//! each, a search over thousands of entries. The gaps are asserted to stay far below that.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]
#![allow(missing_docs)]

#[path = "../it/support/mod.rs"]
mod support;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memory_core::{
    DeleteOptions, GetOptions, ListQuery, NewEntry, SearchMode, SearchQuery, SetOptions, UpdateOptions,
};
use memory_sqlite::Durability;
use support::files::{folder, place, raw};
use support::{Store, block_on, fast, json, key, poll_once, quiet};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

/// How long the executor may be blocked, on a busy machine.
const TOLERABLE: Duration = Duration::from_millis(300);

/// Runs the work on a single-threaded runtime beside a ticking task; returns the longest gap between two ticks.
fn longest_gap<F: Future>(work: F) -> (Duration, F::Output) {
    Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        let ended = Arc::new(AtomicBool::new(false));
        let ticking = ended.clone();
        let ticker = tokio::spawn(async move {
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            while !ticking.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(2)).await;
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            longest
        });
        tokio::task::yield_now().await;
        let output = work.await;
        ended.store(true, Ordering::Relaxed);
        (ticker.await.unwrap(), output)
    })
}

/// Runs many tasks, each writing to its own keys this many times.
async fn write(store: &Store, tasks: usize, times: usize) {
    let mut writers = JoinSet::new();
    for task in 0..tasks {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0..times {
                let name = key(&format!("task{task}/{number}"));
                store
                    .backend()
                    .set(&store.scope, &name, json("\"value\""), SetOptions::default())
                    .await
                    .unwrap();
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
}

/// Another connection that holds the write lock for a while, starting before this returns.
fn hold_the_lock(path: &Path, time: Duration) -> thread::JoinHandle<()> {
    let other = raw(path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::spawn(move || {
        thread::sleep(time);
        other.execute_batch("COMMIT").unwrap();
    })
}

fn large(store: &Store, entries: usize) {
    for part in 0..entries / 1_000 {
        let items = (0..1_000).map(|n| {
            let number = part * 1_000 + n;
            let words =
                (0..12).map(|w| format!("w{}", (number * 31 + w * 17) % 997)).collect::<Vec<_>>().join(" ");
            (format!("entry/{number:06}"), format!("\"common {words}\""))
        });
        store.bulk(items).unwrap();
    }
}

#[test]
fn durable_writers_leave_the_executor_free() {
    let folder = folder();
    let store = Store::open(&folder.path().join("memory.db"), quiet()).unwrap();
    let began = Instant::now();
    let (gap, ()) = longest_gap(write(&store, 64, 40));
    println!("64 durable writers for {:?}: longest gap {gap:?}", began.elapsed());
    assert!(gap < TOLERABLE, "{gap:?}");
    assert_eq!(store.keys("").unwrap().len(), 64 * 40);
}

#[test]
fn a_search_and_long_lists_leave_the_executor_free() {
    let (_folder, path) = place();
    large(&Store::open(&path, fast()).unwrap(), 20_000);
    // A new handle, which has no index in memory yet.
    let store = Store::open(&path, fast()).unwrap();
    let search = async |words: &str| {
        let query = SearchQuery::new(words).with_mode(SearchMode::Lexical).with_top_k(1_000);
        store.backend().search(&store.scope, query).await.unwrap()
    };
    for what in ["the first search", "a search"] {
        let began = Instant::now();
        let (gap, found) = longest_gap(search("common w1 w2 w3 w4 w5 w6 w7 w8 w9"));
        println!("{what}, {:?}: longest gap {gap:?}", began.elapsed());
        assert!(gap < TOLERABLE, "{gap:?}");
        assert_eq!(found.hits.len(), 1_000);
    }
    let began = Instant::now();
    let (gap, entries) = longest_gap(async {
        let (mut entries, mut cursor) = (0, None);
        loop {
            let query = ListQuery::prefix("entry/").with_cursor(cursor).with_limit(1_000);
            let page = store.backend().list(&store.scope, query).await.unwrap();
            entries += page.entries.len();
            cursor = page.next;
            if cursor.is_none() {
                return entries;
            }
        }
    });
    println!("lists of 20,000 entries, {:?}: longest gap {gap:?}", began.elapsed());
    assert!(gap < TOLERABLE, "{gap:?}");
    assert_eq!(entries, 20_000);
}

#[test]
fn a_large_bulk_insert_leaves_the_executor_free() {
    let store = Store::in_memory(fast()).unwrap();
    let folder = folder();
    let on_disk = Store::open(&folder.path().join("memory.db"), fast()).unwrap();
    for store in [store, on_disk] {
        let items = (0..10_000)
            .map(|n| {
                NewEntry::new(
                    key(&format!("entry/{n:05}")),
                    json(&format!("\"{}\"", "words and words ".repeat(20))),
                )
            })
            .collect();
        let began = Instant::now();
        let (gap, _) = longest_gap(async {
            store.backend().bulk_insert(&store.scope, items, Default::default()).await.unwrap();
        });
        println!("a bulk insert of 10,000, {:?}: longest gap {gap:?}", began.elapsed());
        assert!(gap < TOLERABLE, "{gap:?}");
    }
}

#[test]
fn another_process_with_the_lock_leaves_the_executor_free() {
    for durability in [Durability::Full, Durability::Normal] {
        let (_folder, path) = place();
        let store = Store::open(&path, quiet().with_durability(durability)).unwrap();
        store.set("before", "1");
        let held = Duration::from_millis(1_500);
        let other = hold_the_lock(&path, held);
        let began = Instant::now();
        let (gap, read_in) = longest_gap(async {
            let writer = {
                let store = store.clone();
                tokio::spawn(async move { write(&store, 16, 2).await })
            };
            tokio::time::sleep(Duration::from_millis(50)).await;
            // Reading needs no write lock.
            let asked = Instant::now();
            let read =
                store.backend().get(&store.scope, &key("before"), GetOptions::default()).await.unwrap();
            assert!(read.is_some());
            let read_in = asked.elapsed();
            writer.await.unwrap();
            read_in
        });
        println!("{durability:?}, lock held {held:?}: longest gap {gap:?}, a read took {read_in:?}");
        assert!(began.elapsed() >= Duration::from_millis(1_300), "the writers did not wait for the lock");
        assert!(gap < TOLERABLE, "{gap:?}");
        assert!(read_in < Duration::from_millis(1_000), "a read waited for the write lock: {read_in:?}");
        other.join().unwrap();
        assert_eq!(store.keys("task").unwrap().len(), 32);
    }
}

#[test]
fn a_lock_that_is_never_released_ends_in_an_error_within_the_time_limit() {
    for durability in [Durability::Full, Durability::Normal] {
        let (_folder, path) = place();
        let config = quiet().with_durability(durability).with_busy_timeout(Duration::from_millis(300));
        let store = Store::open(&path, config).unwrap();
        let other = raw(&path);
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let began = Instant::now();
        let error = store.try_set("a", "1").unwrap_err();
        assert_eq!(error.kind(), memory_core::ErrorKind::Unavailable, "{error:?}");
        assert!(error.retry().is_retryable());
        let waited = began.elapsed();
        assert!((Duration::from_millis(290)..Duration::from_secs(10)).contains(&waited), "{waited:?}");
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(store.text("a"), None);
        store.set("a", "2");
    }
}

/// strace delays the system calls of a child, as a bad disk would.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_syncs_slowly_leaves_the_executor_free() {
    use support::child::{self, Child};
    use support::{skip, trace};

    let test = child::this_test!();
    if child::role().is_some() {
        let store = Store::open(Path::new(&child::given("DATABASE")), quiet()).unwrap();
        let began = Instant::now();
        let (gap, ()) = longest_gap(write(&store, 16, 3));
        child::say(&format!("{} {}", gap.as_millis(), began.elapsed().as_millis()));
        return;
    }
    if let Some(reason) = trace::unavailable() {
        return skip(test, &reason);
    }
    let folder = folder();
    let mut strace = trace::strace(
        &["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=700000"],
        &folder.path().join("trace"),
    );
    if !strace.arg("true").status().is_ok_and(|status| status.success()) {
        return skip(test, "this strace cannot delay system calls");
    }
    let strace = trace::strace(
        &["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=700000"],
        &folder.path().join("trace"),
    );
    let mut command = child::wrapped(strace, test, "write");
    let said = Child::start(command.env("DATABASE", folder.path().join("memory.db"))).finish();
    let (gap, took) = said[0].split_once(' ').unwrap();
    let (gap, took): (u64, u64) = (gap.parse().unwrap(), took.parse().unwrap());
    println!("syncs of 700 ms, {took} ms of writing: longest gap {gap} ms");
    assert!(took >= 2_000, "three writes in a row of each task need three syncs of 700 ms");
    assert!(gap < 350, "{gap} ms");
}

#[test]
fn dropped_futures_write_everything_or_nothing_and_block_nothing() {
    for (durability, locked) in [
        (Durability::Full, false),
        (Durability::Normal, false),
        (Durability::Full, true),
        (Durability::Normal, true),
    ] {
        let (_folder, path) = place();
        let store = Store::open(&path, quiet().with_durability(durability)).unwrap();
        store.set("kept", "0");
        let other = locked.then(|| hold_the_lock(&path, Duration::from_millis(200)));
        let mut certain = 0;
        for round in 0..50 {
            let (backend, scope) = (store.backend(), &store.scope);
            let items = (0..20)
                .map(|n| NewEntry::new(key(&format!("bulk/{n:02}")), json(&round.to_string())))
                .collect();
            let query = SearchQuery::new("kept").with_mode(SearchMode::Lexical);
            let polled = poll_once(backend.increment(scope, &key("count"), 1, UpdateOptions::default()));
            certain += i64::from(matches!(polled, Some(Ok(_))));
            let _ = poll_once(backend.bulk_insert(scope, items, Default::default()));
            let _ =
                poll_once(backend.set(scope, &key("kept"), json(&round.to_string()), SetOptions::default()));
            let _ = poll_once(backend.delete(scope, &key("bulk/absent"), DeleteOptions::default()));
            let _ = poll_once(backend.get(scope, &key("kept"), GetOptions::default()));
            let _ = poll_once(backend.list(scope, ListQuery::default()));
            let _ = poll_once(backend.search(scope, query));
            let _ = poll_once(backend.drop_scope(&memory_core::Scope::run("acme", "run").unwrap()));
        }
        // A dropped operation may still be queued; a later write comes after it in the same queue.
        store.set("last", "1");
        let count: i64 = store.text("count").map_or(0, |text| text.parse().unwrap());
        assert!((certain..=50).contains(&count), "{count} of {certain} to 50");
        let bulk = store.entries("bulk/").unwrap();
        assert!(bulk.is_empty() || bulk.len() == 20, "{} of 20", bulk.len());
        assert!(bulk.windows(2).all(|pair| pair[0].value == pair[1].value), "half of a bulk insert");
        assert!(store.text("kept").is_some());
        if let Some(other) = other {
            other.join().unwrap();
        }
        store.close();
        assert_eq!(Store::open(&path, quiet()).unwrap().text("last").as_deref(), Some("1"));
    }
}

#[test]
fn a_handle_dropped_with_work_in_flight_blocks_nothing() {
    let (_folder, path) = place();
    for round in 0..10 {
        let store = Store::open(&path, quiet()).unwrap();
        for n in 0..20 {
            let name = key(&format!("{round}/{n}"));
            let _ = poll_once(store.backend().set(&store.scope, &name, json("1"), SetOptions::default()));
        }
        drop(store);
    }
    let store = Store::open(&path, quiet()).unwrap();
    store.set("after", "1");
    assert_eq!(
        block_on(store.backend().stats(&store.scope)).unwrap().entries,
        store.keys("").unwrap().len() as u64
    );
}
