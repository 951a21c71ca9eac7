//! The cost of a guarded write, in virtual machine steps.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::Seen;
use memory_core::{
    Backend as _, BackendExt as _, Clock, DriftCheck, GetOptions, Json, Key, NewEntry, Scope, SetOptions,
    Timestamp,
};

use crate::{SqliteConfig, SqliteProvider};

/// Steps between two calls of the counter. It is called only at jumps, which every loop iteration has.
const EACH: i32 = 1;

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).unwrap()
    }
}

/// Counts the steps of the writing connection.
fn count(provider: &SqliteProvider) -> Arc<AtomicU64> {
    let steps = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&steps);
    let mut connection = provider.store.writer.connection("a test");
    connection
        .progress_handler(
            EACH,
            Some(move || {
                counter.fetch_add(1, Ordering::Relaxed);
                false
            }),
        )
        .unwrap();
    drop(connection);
    steps
}

fn open(path: &Path) -> SqliteProvider {
    let config = SqliteConfig { sweep_interval_ms: 0, ..SqliteConfig::default() };
    SqliteProvider::open(path, config, Arc::new(Still)).unwrap()
}

/// The steps of four writes in a scope of this many entries, each the second of its kind so that statements are
/// prepared: without a check, with a check of the entry, of the scope, and of the entry after a foreign commit.
async fn steps_of_writes(entries: usize) -> [u64; 4] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let (provider, other) = (open(&path), open(&path));
    let scope = Scope::agent("acme", "ada").unwrap();
    let key = |n: usize| Key::new(format!("k{n:06}")).unwrap();
    let json = |text: &str| Json::parse(text).unwrap();
    let items = (0..entries).map(|n| NewEntry::new(key(n), json("\"value\""))).collect();
    provider.bulk_insert(&scope, items, Default::default()).await.unwrap();
    let target = key(entries / 2);
    let steps = count(&provider);
    let mut counted = Vec::new();
    for kind in 0..4 {
        let mut last = 0;
        for _ in 0..2 {
            if kind == 3 {
                let elsewhere = Scope::agent("acme", "eve").unwrap();
                other.put(&elsewhere, &key(0), json("1")).await.unwrap();
            }
            let seen =
                Seen::of(provider.get(&scope, &target, GetOptions::uncounted()).await.unwrap().as_ref());
            let token = provider.drift_state(&scope).await.unwrap().token;
            let mut options = SetOptions::default();
            options.drift = match kind {
                0 => DriftCheck::Off,
                2 => DriftCheck::Strict(token, Some(seen)),
                _ => DriftCheck::Row(seen),
            };
            let before = steps.load(Ordering::Relaxed);
            provider.set(&scope, &target, json("\"other\""), options).await.unwrap();
            last = steps.load(Ordering::Relaxed) - before;
        }
        counted.push(last);
    }
    counted.try_into().unwrap()
}

#[tokio::test]
async fn a_write_that_finds_nothing_drifted_scans_nothing() {
    let (few, many) = (steps_of_writes(20).await, steps_of_writes(5_000).await);
    assert!(few[0] > 0, "the steps are counted");
    assert_eq!(few, many, "steps are the same, however many entries the scope has");
    let [plain, guarded @ ..] = few;
    assert!(guarded.iter().all(|steps| *steps <= plain + plain / 2), "a few more rows are read: {few:?}");
}
