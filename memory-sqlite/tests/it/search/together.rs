//! Concurrent searches of one scope, while others write to it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use memory_core::{SearchMode, SearchQuery, SetOptions, Ttl};

use crate::support::embedders::Directions;
use crate::support::files::folder;
use crate::support::{Store, TestClock, block_on, fast};

const MODES: [SearchMode; 3] = [SearchMode::Lexical, SearchMode::Vector, SearchMode::Hybrid];

fn found(store: &Store, text: &str, mode: SearchMode, top_k: usize) -> BTreeSet<String> {
    let query = SearchQuery::new(text).with_mode(mode).with_top_k(top_k);
    let found = block_on(store.backend().search(&store.scope, query)).unwrap();
    found.hits.iter().map(|hit| hit.entry.key.to_string()).collect()
}

/// Writes an entry, finds it, removes it, and no longer finds it.
fn write_and_search(store: &Store, writer: usize, rounds: usize, gone: &Mutex<BTreeSet<String>>) {
    for round in 0..rounds {
        let name = format!("w{writer}/{round}");
        let text = format!("tea alone{writer}x{round}");
        let mode = MODES[round % MODES.len()];
        let is_found = || found(store, &text, mode, 3).contains(&name);
        // Only one of them advances the clock, or entries of the others would expire too early.
        if writer == 0 && round % 2 == 0 {
            let brief = SetOptions::default().with_ttl(Ttl::After(Duration::from_millis(1_000_000)));
            store.try_set_with(&name, &format!("\"{text}\""), brief).unwrap();
            assert!(is_found(), "`{name}` was written before this search began ({mode:?})");
            store.clock.advance(Duration::from_millis(1_000_000));
        } else {
            store.set(&name, &format!("\"{text}\""));
            assert!(is_found(), "`{name}` was written before this search began ({mode:?})");
            store.delete(&name).unwrap();
        }
        gone.lock().unwrap().insert(name.clone());
        assert!(!is_found(), "`{name}` was gone before this search began ({mode:?})");
    }
}

fn search_together(budget: usize) {
    let folder = folder();
    let embedder = Arc::new(Directions::new(24));
    let mut config = fast().with_vector_index_bytes(budget).with_search_index_bytes(budget);
    config.busy_timeout_ms = 60_000;
    config.workers = 4;
    let path = folder.path().join("memory.db");
    let store = Store::embedding(Some(&path), config, TestClock::new(), embedder).unwrap();
    store.bulk((0..300).map(|n| (format!("stays/{n}"), format!("\"tea number{n}\"")))).unwrap();
    let (gone, done) = (Mutex::new(BTreeSet::new()), AtomicBool::new(false));
    thread::scope(|threads| {
        let (store, gone, done) = (&store, &gone, &done);
        for searcher in 0..4 {
            threads.spawn(move || {
                for round in searcher.. {
                    if done.load(Ordering::SeqCst) {
                        break;
                    }
                    let before = gone.lock().unwrap().clone();
                    let mode = MODES[round % MODES.len()];
                    let found = found(store, "tea alone", mode, 100);
                    assert!(!found.is_empty());
                    let stale: Vec<_> = found.intersection(&before).collect();
                    assert!(stale.is_empty(), "{stale:?} were gone before the search began ({mode:?})");
                }
            });
        }
        let writers: Vec<_> =
            (0..3).map(|writer| threads.spawn(move || write_and_search(store, writer, 60, gone))).collect();
        let ended: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    for mode in [SearchMode::Lexical, SearchMode::Vector] {
        assert!(found(&store, "tea number7", mode, 100).iter().all(|key| key.starts_with("stays/")));
    }
}

#[test]
fn searches_at_the_same_time_find_what_was_written_before_and_nothing_that_was_gone() {
    search_together(64 << 20);
}

#[test]
fn searches_at_the_same_time_whose_scope_does_not_fit_find_the_same() {
    search_together(20_000);
}
