//! Random writes during random outages have the same result at the primary as without outages.

use std::collections::BTreeMap;
use std::time::Duration;

use memory::{BulkOptions, DeleteOptions, ErrorKind, ListQuery, NewEntry, Scope, SetOptions};
use memory_conformance::random::Random;

use crate::fallback::support::{Fault, Stand, json, key};

const SCOPES: usize = 3;
const KEYS: usize = 6;

#[tokio::test]
async fn after_any_outages_the_primary_has_every_acknowledged_write() {
    for seed in 0..10 {
        run(seed).await;
    }
}

async fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut stand = Stand::journaling();
    let scopes: Vec<Scope> =
        (0..SCOPES).map(|n| Scope::agent("acme", &format!("agent{n}")).unwrap()).collect();
    let mut model: BTreeMap<(usize, String), u64> = BTreeMap::new();
    for step in 0..150_u64 {
        stand.clock.advance(Duration::from_millis(5));
        match random.below(12) {
            0 => stand.down(),
            1 => stand.fail(Fault::Before(ErrorKind::Timeout)),
            2 | 3 => stand.up(),
            // Another process takes over with the same journal.
            4 => stand.memory = stand.again(),
            _ => {}
        }
        let at = random.index(SCOPES);
        let (scope, name) = (&scopes[at], format!("k{}", random.index(KEYS)));
        let kv = stand.memory.backend().unwrap();
        match random.below(6) {
            0 => {
                kv.delete(scope, &key(&name), DeleteOptions::default()).await.unwrap();
                model.remove(&(at, name));
            }
            1 => {
                let other = format!("k{}", random.index(KEYS));
                if other == name {
                    continue;
                }
                let items = [&name, &other].map(|name| NewEntry::new(key(name), json(&step.to_string())));
                kv.bulk_insert(scope, items.to_vec(), BulkOptions::default()).await.unwrap();
                model.insert((at, name), step);
                model.insert((at, other), step);
            }
            2 => {
                let page = kv.list(scope, ListQuery::default()).await.unwrap();
                // Queued writes are visible; the primary's own entries may not be.
                for entry in &page.entries {
                    let told = entry.value.as_i64_exact().unwrap();
                    assert!(u64::try_from(told).unwrap() < step, "seed {seed}");
                }
            }
            _ => {
                kv.set(scope, &key(&name), json(&step.to_string()), SetOptions::default()).await.unwrap();
                model.insert((at, name), step);
            }
        }
    }
    stand.up();
    stand.memory.health().await.unwrap();
    let counts = stand.counts();
    assert_eq!((counts.waiting, counts.set_aside), (0, 0), "seed {seed}");
    let mut stored = BTreeMap::new();
    for (at, scope) in scopes.iter().enumerate() {
        let page = stand.primary.backend().unwrap().list(scope, ListQuery::default()).await.unwrap();
        for entry in page.entries {
            let told = u64::try_from(entry.value.as_i64_exact().unwrap()).unwrap();
            stored.insert((at, entry.key.as_str().to_owned()), told);
        }
    }
    assert_eq!(stored, model, "seed {seed}");
}
