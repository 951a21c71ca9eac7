//! Space: expired entries are reclaimed, reads are not written one by one, the log stays bounded.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::files::{beside, length, place, pragma, raw};
use crate::support::{Store, block_on, fast, json, key, quiet};
use memory_core::{GetOptions, NewEntry, SetOptions, Ttl};
use memory_sqlite::SqliteConfig;

const ENTRIES: usize = 4_000;

fn text(number: usize) -> String {
    format!("\"words of entry {number} {}\"", "x".repeat(900))
}

/// Pages in use.
fn pages_used(path: &Path) -> i64 {
    let conn = raw(path);
    pragma(&conn, "page_count") - pragma(&conn, "freelist_count")
}

fn insert(store: &Store, prefix: &str, ttl: Ttl) {
    for part in 0..ENTRIES / 1_000 {
        let items = (0..1_000)
            .map(|n| {
                let number = part * 1_000 + n;
                let mut item = NewEntry::new(key(&format!("{prefix}/{number:05}")), json(&text(number)));
                item.options = SetOptions::default().with_ttl(ttl);
                item
            })
            .collect();
        block_on(store.backend().bulk_insert(&store.scope, items, Default::default())).unwrap();
    }
}

#[test]
fn a_sweep_reclaims_expired_entries() {
    let (_folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    insert(&store, "kept", Ttl::Never);
    let kept = pages_used(&path);
    insert(&store, "brief", Ttl::After(Duration::from_secs(60)));
    let full = pages_used(&path);
    assert!(full > kept + kept / 2, "the entries that expire take {} pages beside {kept}", full - kept);

    assert_eq!(block_on(store.provider.sweep()).unwrap(), 0, "nothing has expired yet");
    assert_eq!(pages_used(&path), full);
    store.clock.advance(Duration::from_secs(60));
    assert_eq!(block_on(store.provider.sweep()).unwrap(), ENTRIES as u64);
    let swept = pages_used(&path);
    assert!(
        swept < kept + kept / 5,
        "{swept} pages are used after the sweep, {kept} before, {full} in between"
    );
    assert_eq!(store.keys("").unwrap().len(), ENTRIES);
    store.close();
    let bytes = length(&path);
    let most = u64::try_from(kept + kept / 2).unwrap() * 4_096;
    assert!(bytes < most, "the file has {bytes} bytes, more than {most}");
    println!("{full} pages full, {swept} swept; the file has {bytes} bytes");
}

#[test]
fn a_sweep_changes_nothing_visible() {
    let store = Store::in_memory(fast()).unwrap();
    insert(&store, "brief", Ttl::After(Duration::from_secs(1)));
    let before = store.set("kept", "1");
    store.clock.advance(Duration::from_secs(1));
    let seen =
        |store: &Store| (store.entries("").unwrap(), block_on(store.backend().stats(&store.scope)).unwrap());
    let unswept = seen(&store);
    assert_eq!(unswept.0.len(), 1);
    assert_eq!(block_on(store.provider.sweep()).unwrap(), ENTRIES as u64);
    assert_eq!(seen(&store), unswept);
    // No version of a deleted key is reused.
    assert!(store.set("brief/00000", "1") > before);
}

#[test]
fn deleted_overwritten_and_dropped_space_is_reclaimed() {
    let (_folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    store.set("first", "1");
    let empty = pages_used(&path);
    for round in ["deleted", "overwritten", "dropped"] {
        insert(&store, round, Ttl::Never);
        let full = pages_used(&path);
        assert!(full > empty + 500);
        match round {
            "dropped" => {
                block_on(store.backend().drop_scope(&store.scope)).unwrap();
            }
            "deleted" => {
                for name in store.keys(round).unwrap() {
                    store.delete(&name).unwrap();
                }
            }
            _ => {
                store.bulk((0..ENTRIES).map(|n| (format!("{round}/{n:05}"), "1".to_owned()))).unwrap();
            }
        }
        block_on(store.provider.sweep()).unwrap();
        let swept = pages_used(&path);
        assert!(swept < empty + 400, "{round}: {swept} pages are used, {full} before, {empty} at first");
        println!("{round}: {full} pages, then {swept}");
    }
}

#[test]
fn ten_thousand_reads_are_written_together() {
    let (_folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    for n in 0..100 {
        store.set(&format!("entry/{n:02}"), "\"oolong\"");
    }
    // `data_version` changes when another connection commits anything.
    let watcher = raw(&path);
    let (commits, log) = (pragma(&watcher, "data_version"), length(&beside(&path, "-wal")));
    for n in 0..10_000 {
        let name = key(&format!("entry/{:02}", n % 100));
        block_on(store.backend().get(&store.scope, &name, GetOptions::default())).unwrap().unwrap();
    }
    store.find("oolong").unwrap();
    assert_eq!(pragma(&watcher, "data_version"), commits, "reading wrote");
    assert_eq!(length(&beside(&path, "-wal")), log);
    // The count is visible before it is written.
    assert_eq!(store.entry("entry/07").unwrap().unwrap().access_count, 101);

    block_on(store.provider.flush()).unwrap();
    assert_ne!(pragma(&watcher, "data_version"), commits, "the counts were not written");
    let grown = length(&beside(&path, "-wal")) - log;
    assert!(grown < 64 * 4_096, "writing 100 counts took {grown} bytes of log");
    let commits = pragma(&watcher, "data_version");
    block_on(store.provider.flush()).unwrap();
    assert_eq!(pragma(&watcher, "data_version"), commits, "nothing was left to write");

    let other = Store::open(&path, fast()).unwrap();
    assert_eq!(other.entry("entry/07").unwrap().unwrap().access_count, 101);
}

#[test]
fn counts_are_written_on_closing() {
    let (_folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    store.set("a", "1");
    for _ in 0..7 {
        block_on(store.backend().get(&store.scope, &key("a"), GetOptions::default())).unwrap();
    }
    store.close();
    assert_eq!(Store::open(&path, fast()).unwrap().entry("a").unwrap().unwrap().access_count, 7);
}

/// Writes from several threads without a pause, and returns how long the log got.
fn longest_log(store: &Store, path: &Path, writes: usize) -> u64 {
    const THREADS: usize = 4;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut longest = 0;
            while !ended.load(Ordering::Relaxed) {
                longest = longest.max(length(&beside(path, "-wal")));
                thread::sleep(Duration::from_millis(1));
            }
            longest
        });
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    for n in 0..writes / THREADS {
                        store.set(&format!("entry/{thread}/{:03}", n % 300), &text(n));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        ended.store(true, Ordering::Relaxed);
        sampler.join().unwrap()
    })
}

/// How long the log gets without checkpoints.
fn unbounded_log(config: SqliteConfig, writes: usize) -> u64 {
    let (_folder, path) = place();
    let mut config = config;
    config.checkpoint_pages = 1_000_000;
    longest_log(&Store::open(&path, config).unwrap(), &path, writes)
}

#[test]
fn the_log_stays_bounded_while_writers_never_pause() {
    // Writers that wait for no sync write faster than a slow disk can take it, so the log's length depends on the disk.
    for (mut config, pages, writes, factor) in [(quiet(), 16, 3_000, 4), (fast(), 50, 24_000, 2)] {
        config.checkpoint_pages = pages;
        let unbounded = unbounded_log(config.clone(), writes);
        let (_folder, path) = place();
        let longest = longest_log(&Store::open(&path, config).unwrap(), &path, writes);
        println!("the log had at most {longest} bytes; without checkpoints {unbounded}");
        assert!(longest * factor < unbounded, "{longest} of {unbounded} bytes");
    }
}

#[test]
fn the_log_stays_bounded_beside_another_handle_that_reads_all_the_time() {
    // Many, since a moment without a reader may be rare, and the log grows until then.
    const WRITES: usize = 12_000;
    let mut config = quiet();
    config.checkpoint_pages = 16;
    let unbounded = unbounded_log(config.clone(), WRITES);
    let (_folder, path) = place();
    let store = Store::open(&path, config).unwrap();
    let reader = Store::open(&path, fast()).unwrap();
    let ended = AtomicBool::new(false);
    let longest = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                reader.keys("entry/0").unwrap();
                reader.find("words").unwrap();
            }
        });
        let longest = longest_log(&store, &path, WRITES);
        ended.store(true, Ordering::Relaxed);
        longest
    });
    println!("beside a reader the log had at most {longest} bytes; without checkpoints {unbounded}");
    assert!(longest * 2 < unbounded, "{longest} of {unbounded} bytes");
}
