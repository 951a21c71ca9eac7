//! A cache of scopes' search structures, bounded in bytes and updated with the commits of this process.
//!
//! Not a library, because cached values grow while in use, the budget is checked after a search has updated them, and a
//! scope that did not fit must not be reloaded for every search.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use memory_core::ScopeDigest;

use super::feed::Follower;

/// Most scopes whose size is kept because they did not fit.
const OVERSIZED: usize = 10_000;
/// Most scopes kept whose values have at most `SMALL_BYTES`. Reading such a scope again takes well under a millisecond,
/// while tens of thousands of them use hundreds of megabytes that the byte count does not show.
const SMALL: usize = 2_048;
const SMALL_BYTES: usize = 64 << 10;

/// Pending changes of one scope, for its next search.
pub(crate) trait Feed: Debug + Default + Send {
    type Change;

    fn push(&mut self, change: Self::Change);
}

/// The cached value of a scope, and its pending changes.
#[derive(Debug, Default)]
pub(crate) struct Cached<F, V> {
    feed: Mutex<F>,
    /// Held by the one search that may change the value.
    turn: Mutex<()>,
    value: RwLock<V>,
    bytes: AtomicUsize,
}

/// The turn to change a value. Until this is dropped no other search changes it.
pub(crate) struct Turn<'c, F, V> {
    cached: &'c Cached<F, V>,
    _turn: MutexGuard<'c, ()>,
}

impl<'c, F, V> Turn<'c, F, V> {
    pub(crate) fn cached(&self) -> &'c Cached<F, V> {
        self.cached
    }

    /// The value, alone. Waits for the searches that use it.
    pub(crate) fn value(&self) -> RwLockWriteGuard<'c, V> {
        self.cached.value.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F, V> Cached<F, V> {
    /// The value, shared with other searches.
    pub(crate) fn value(&self) -> RwLockReadGuard<'_, V> {
        self.value.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn to change the value.
    pub(crate) fn turn(&self) -> Turn<'_, F, V> {
        Turn { cached: self, _turn: lock(&self.turn) }
    }

    pub(crate) fn feed(&self) -> MutexGuard<'_, F> {
        lock(&self.feed)
    }

    /// Stores the size of the value; returns the previous one.
    pub(crate) fn weigh(&self, bytes: usize) -> usize {
        self.bytes.swap(bytes, Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Scopes<F, V> {
    /// Each with the time of its last use, counted in searches.
    cached: HashMap<ScopeDigest, (u64, Arc<Cached<F, V>>)>,
    /// Scopes that did not fit, with their size at that time.
    oversized: HashMap<ScopeDigest, u64>,
    searches: u64,
}

/// Recently searched scopes.
#[derive(Debug)]
pub(crate) struct ScopeCache<F, V> {
    scopes: Mutex<Scopes<F, V>>,
    /// Their number, so that a write to an unsearched database takes no lock.
    count: AtomicUsize,
    budget: usize,
    barrier: Mutex<()>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl<F: Feed, V: Default> ScopeCache<F, V> {
    pub(crate) fn new(budget: usize) -> Self {
        let scopes = Scopes { cached: HashMap::new(), oversized: HashMap::new(), searches: 0 };
        Self {
            scopes: Mutex::new(scopes),
            count: AtomicUsize::new(0),
            budget,
            barrier: Mutex::new(()),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Most bytes of all values.
    pub(crate) fn budget(&self) -> usize {
        self.budget
    }

    /// Counts a search of a scope that is about to be opened.
    pub(crate) fn note_search(&self, digest: &ScopeDigest) {
        let is_kept = lock(&self.scopes).cached.contains_key(digest);
        if is_kept { &self.hits } else { &self.misses }.fetch_add(1, Ordering::Relaxed);
    }

    /// How many searches found their scope here, and how many did not.
    pub(crate) fn uses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// The cached scope, empty at first; `None` if a scope of this size did not fit.
    pub(crate) fn open(&self, digest: &ScopeDigest, size: u64) -> Option<Arc<Cached<F, V>>> {
        let mut scopes = lock(&self.scopes);
        if let Some(then) = scopes.oversized.get(digest) {
            if size >= then / 4 * 3 {
                return None;
            }
            scopes.oversized.remove(digest);
        }
        scopes.searches += 1;
        let now = scopes.searches;
        let (used, cached) = scopes.cached.entry(*digest).or_insert_with(|| {
            let (feed, value) = (Mutex::new(F::default()), RwLock::new(V::default()));
            (now, Arc::new(Cached { feed, turn: Mutex::new(()), value, bytes: AtomicUsize::new(0) }))
        });
        *used = now;
        let cached = Arc::clone(cached);
        self.count.store(scopes.cached.len(), Ordering::Relaxed);
        Some(cached)
    }

    /// All cached scopes.
    pub(crate) fn all(&self) -> Vec<(ScopeDigest, Arc<Cached<F, V>>)> {
        lock(&self.scopes).cached.iter().map(|(digest, (_, cached))| (*digest, Arc::clone(cached))).collect()
    }

    /// Waits for commits being published: afterwards every commit of this process visible in an earlier snapshot has
    /// been published.
    pub(crate) fn pass_barrier(&self) {
        drop(lock(&self.barrier));
    }

    /// Drops a scope.
    pub(crate) fn forget(&self, digest: &ScopeDigest) {
        let mut scopes = lock(&self.scopes);
        scopes.cached.remove(digest);
        self.count.store(scopes.cached.len(), Ordering::Relaxed);
    }

    /// Drops a scope that does not fit at this size.
    pub(crate) fn give_up(&self, digest: &ScopeDigest, size: u64) {
        self.forget(digest);
        let mut scopes = lock(&self.scopes);
        if scopes.oversized.len() >= OVERSIZED {
            scopes.oversized.clear();
        }
        scopes.oversized.insert(*digest, size);
    }

    /// Drops the least recently used scopes until the rest fits, and small ones until there are few enough. Returns
    /// false if this one alone does not fit.
    pub(crate) fn make_room(&self, digest: &ScopeDigest, size: u64) -> bool {
        let mut scopes = lock(&self.scopes);
        let bytes = |cached: &Arc<Cached<F, V>>| cached.bytes.load(Ordering::Relaxed);
        let mut total: usize = scopes.cached.values().map(|(_, cached)| bytes(cached)).sum();
        while total > self.budget {
            let others = scopes.cached.iter().filter(|(other, _)| *other != digest);
            let Some(oldest) = others.min_by_key(|(_, (used, _))| *used).map(|(oldest, _)| *oldest) else {
                break;
            };
            if let Some((_, evicted)) = scopes.cached.remove(&oldest) {
                total = total.saturating_sub(bytes(&evicted));
            }
        }
        if scopes.cached.len() > SMALL {
            let others = scopes.cached.iter().filter(|(other, _)| *other != digest);
            let small = others.filter(|(_, (_, cached))| bytes(cached) <= SMALL_BYTES);
            let mut small: Vec<(u64, ScopeDigest)> =
                small.map(|(other, (used, _))| (*used, *other)).collect();
            small.sort_unstable_by_key(|(used, _)| *used);
            for (_, oldest) in small.iter().take((small.len() + 1).saturating_sub(SMALL)) {
                scopes.cached.remove(oldest);
            }
        }
        self.count.store(scopes.cached.len(), Ordering::Relaxed);
        drop(scopes);
        if total > self.budget {
            self.give_up(digest, size);
        }
        total <= self.budget
    }
}

impl<F: Feed, V: Debug + Send + Sync> Follower<F::Change> for ScopeCache<F, V> {
    fn follows(&self, digest: &ScopeDigest) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && lock(&self.scopes).cached.contains_key(digest)
    }

    fn barrier(&self) -> MutexGuard<'_, ()> {
        lock(&self.barrier)
    }

    fn feed(&self, digest: &ScopeDigest, change: F::Change) {
        let cached = lock(&self.scopes).cached.get(digest).map(|(_, cached)| Arc::clone(cached));
        if let Some(cached) = cached {
            cached.feed().push(change);
        }
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use memory_core::Scope;

    use super::*;

    #[derive(Debug, Default)]
    struct NoFeed;

    impl Feed for NoFeed {
        type Change = ();

        fn push(&mut self, (): ()) {}
    }

    #[test]
    fn many_small_scopes_are_not_all_kept_and_a_large_one_is() {
        let cache = ScopeCache::<NoFeed, ()>::new(1 << 30);
        let digest = |n: usize| Scope::agent("acme", &format!("scope {n}")).unwrap().digest();
        cache.open(&digest(0), 1).unwrap().weigh(1 << 20);
        for n in 1..=3 * SMALL {
            cache.open(&digest(n), 1).unwrap().weigh(2_000);
            assert!(cache.make_room(&digest(n), 1));
        }
        let scopes = lock(&cache.scopes);
        assert_eq!(scopes.cached.len(), SMALL + 1);
        assert!(scopes.cached.contains_key(&digest(0)), "the large one, though used least recently");
        assert!(!scopes.cached.contains_key(&digest(1)));
        assert!(scopes.cached.contains_key(&digest(3 * SMALL)));
    }
}
