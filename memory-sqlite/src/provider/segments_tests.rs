//! A text index is stored a little later than its snapshot was taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use memory_core::lexical::SegmentedIndex;
use memory_core::{Clock, Provider as _, Scope, SetOptions, Timestamp, Ttl};

use super::SqliteProvider;
use crate::SqliteConfig;
use crate::commit::threads::wait_for;
use crate::commit::writer::Cost;
use crate::kv::state::ScopeState;

#[derive(Debug)]
struct Settable(AtomicI64);

impl Clock for Settable {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed)).unwrap()
    }
}

/// Reclaiming does not count as a change of the scope.
#[test]
fn an_index_is_not_stored_with_words_of_what_was_reclaimed_meanwhile() {
    let clock = Arc::new(Settable(AtomicI64::new(1_800_000_000_000)));
    let config = SqliteConfig { sweep_interval_ms: 0, ..SqliteConfig::default() };
    let provider = SqliteProvider::open_in_memory(config, Arc::clone(&clock) as _).unwrap();
    let scope = Scope::agent("acme", "ada").unwrap();
    let brief = SetOptions::default().with_ttl(Ttl::After(Duration::from_secs(1)));
    let backend = provider.backend().unwrap();
    for (name, options) in [("brief", brief), ("lasting", SetOptions::default())] {
        let key = name.parse().unwrap();
        wait_for(backend.set(&scope, &key, "\"kettle\"".parse().unwrap(), options)).unwrap();
    }
    let (digest, writer) = (scope.digest(), &provider.store.writer);
    let state = ScopeState::read(&writer.connection("a test"), &digest).unwrap().unwrap();
    let mut index = SegmentedIndex::new();
    index.insert("brief".into(), 1, "kettle", None);
    let segments = index.arranged();
    let put = |state, segments: &[_]| {
        let segments = Vec::from(segments);
        writer
            .submit_blocking(Cost::slow(0), move |batch| batch.put_segments(&digest, state, &segments, false))
            .unwrap()
    };

    assert!(put(state, &[]), "nothing has changed");
    clock.0.fetch_add(1_000, Ordering::Relaxed);
    assert_eq!(wait_for(provider.sweep()).unwrap(), 1);
    assert!(!put(state, &segments));
}
