//! Closing and dropping always finish, on every kind of thread, and lose nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use memory_core::{Backend as _, GetOptions, NewEntry, Provider as _};
use memory_sqlite::{SqliteProvider, wait_until_closed};
use tokio::runtime::Builder;

use crate::support::files::place;
use crate::support::watchdog::within;
use crate::support::{agent, block_on, fast, json, key, open};

/// More steps of 512 keys than tokio lets a task take before it must yield.
const KEYS: usize = 100_000;

fn name(number: usize) -> String {
    format!("k{number:06}")
}

async fn load(store: &SqliteProvider, keys: usize) {
    for first in (0..keys).step_by(1_000) {
        let last = keys.min(first + 1_000);
        let items = (first..last).map(|number| NewEntry::new(key(&name(number)), json("1"))).collect();
        store.bulk_insert(&agent("ada"), items, Default::default()).await.unwrap();
    }
}

async fn read(store: &SqliteProvider, keys: usize) {
    for number in 0..keys {
        let entry = store.get(&agent("ada"), &key(&name(number)), GetOptions::default()).await.unwrap();
        assert!(entry.is_some());
    }
}

/// How often a key has been read, according to a freshly opened store.
fn accesses(path: &Path, number: usize) -> u64 {
    let store = open(path, fast());
    let entry = block_on(store.get(&agent("ada"), &key(&name(number)), GetOptions::uncounted()));
    let accesses = entry.unwrap().unwrap().access_count;
    block_on(store.close()).unwrap();
    accesses
}

/// Reads every key, drops the store in the same place, and returns how long dropping took.
async fn read_and_drop(path: &Path) -> Duration {
    let store = open(path, fast());
    read(&store, KEYS).await;
    let began = Instant::now();
    drop(store);
    began.elapsed()
}

/// Where it is read and dropped, and how long dropping took.
type Way = (&'static str, fn(&Path) -> Duration);

#[test]
fn a_store_from_which_much_was_read_is_dropped_on_any_thread() {
    let (_folder, path) = place();
    let store = open(&path, fast());
    block_on(load(&store, KEYS));
    block_on(store.close()).unwrap();
    drop(store);
    let ways: [Way; 3] = [
        ("a runtime of several threads", |path| {
            Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(read_and_drop(path))
        }),
        ("a runtime of one thread", |path| {
            Builder::new_current_thread().build().unwrap().block_on(read_and_drop(path))
        }),
        ("no runtime", |path| block_on(read_and_drop(path))),
    ];
    for (round, (way, run)) in ways.into_iter().enumerate() {
        let file = path.clone();
        let took = within(Duration::from_secs(600), way, move || {
            let took = run(&file);
            assert!(wait_until_closed(Duration::from_secs(300)), "closing did not end");
            took
        });
        assert!(took < Duration::from_secs(5), "dropping held up {way} for {took:?}");
        for number in [0, KEYS / 2, KEYS - 1] {
            assert_eq!(accesses(&path, number), round as u64 + 1, "reads of key {number}, after {way}");
        }
    }
}

#[test]
fn closing_ends_while_others_close_and_write() {
    let (_folder, path) = place();
    within(Duration::from_secs(600), "closing twice beside writers", move || {
        for _ in 0..20 {
            let store = std::sync::Arc::new(open(&path, fast()));
            Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(async {
                let writers: Vec<_> = (0..4)
                    .map(|writer| {
                        let store = store.clone();
                        tokio::spawn(async move {
                            let mut written = 0;
                            let name = key(&format!("writer{writer}"));
                            while store.set(&agent("ada"), &name, json("1"), Default::default()).await.is_ok()
                            {
                                written += 1;
                            }
                            written
                        })
                    })
                    .collect();
                tokio::task::yield_now().await;
                let (one, two) = tokio::join!(store.close(), store.close());
                one.and(two).unwrap();
                for writer in writers {
                    writer.await.unwrap();
                }
            });
        }
    });
}
