//! A cache that is bounded by the weight of what it holds.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use quick_cache::Weighter;
use quick_cache::unsync::Cache;

/// Entries of this many bytes are expected; more or fewer only cost some speed.
const EXPECTED_BYTES: usize = 512;

#[derive(Clone, Debug)]
struct GivenWeight;

impl<K, V> Weighter<K, (V, u64)> for GivenWeight {
    fn weight(&self, _key: &K, value: &(V, u64)) -> u64 {
        value.1
    }
}

/// Keeps what is used often, up to a total weight.
#[derive(Debug)]
pub struct WeightedCache<K: Eq + Hash, V> {
    kept: Mutex<Cache<K, (V, u64), GivenWeight>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl<K: Eq + Hash, V: Clone> WeightedCache<K, V> {
    /// A cache for entries of this weight in total; 0: it keeps nothing.
    #[must_use]
    pub fn new(weight: usize) -> Self {
        let kept = Mutex::new(Cache::with_weighter(weight / EXPECTED_BYTES, weight as u64, GivenWeight));
        Self { kept, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// The value kept for a key.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get(key).map(|(value, _)| value.clone());
        drop(kept);
        if found.is_some() { &self.hits } else { &self.misses }.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// How often a value that was asked for was kept, and how often it was not.
    pub fn uses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// Keeps a value, unless it alone is too heavy.
    pub fn put(&self, key: K, value: V, weight: usize) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (value, weight as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::WeightedCache;

    #[test]
    fn what_is_used_stays_and_the_weight_is_bounded() {
        let cache = WeightedCache::new(100);
        for number in 0..10_000_u32 {
            cache.put(number, number, 10);
            cache.put(0, 0, 10);
            assert_eq!(cache.get(&0), Some(0), "at {number}");
        }
        let kept = (0..10_000).filter(|number| cache.get(number).is_some()).count();
        assert!((1..=10).contains(&kept), "{kept}");
        cache.put(7, 7, 101);
        assert_eq!(cache.get(&7), None);
    }

    #[test]
    fn a_cache_without_weight_keeps_nothing() {
        let cache = WeightedCache::new(0);
        cache.put("a", 1, 1);
        assert_eq!(cache.get("a"), None);
    }
}
