//! When scopes were last used, as far as this process knows without asking the database.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use memory_core::{Scope, ScopeDigest};

use crate::store::Time;
use crate::store::scope_ref::ScopeRef;

/// The slack, in granularities.
const SLACK: i64 = 10;

/// Most scopes whose stored use is cached, and most whose use is held in memory.
const MAX_SCOPES: usize = 50_000;

/// Uses not written yet, and cached stored uses. Times are by a clock of this process.
#[derive(Debug)]
pub(crate) struct LastUses {
    known: Mutex<Known>,
    began: Instant,
    /// Uses closer together than this many milliseconds count as one.
    granularity: i64,
}

#[derive(Debug, Default)]
struct Known {
    stored: HashMap<ScopeDigest, i64>,
    held: HashMap<ScopeDigest, (Scope, i64)>,
}

impl LastUses {
    pub(crate) fn new(granularity_ms: u64) -> Self {
        let granularity = i64::try_from(granularity_ms).unwrap_or(i64::MAX / SLACK);
        Self { known: Mutex::default(), began: Instant::now(), granularity }
    }

    pub(crate) fn slack(&self) -> i64 {
        self.granularity.saturating_mul(SLACK)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tick(&self, time: &Time) -> i64 {
        match time {
            Time::Server => i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX),
            Time::Given(clock) => clock.now().as_millis(),
        }
    }

    /// Records a use; false if the server must be asked or told first.
    pub(crate) fn noted(&self, target: &ScopeRef, now: i64) -> bool {
        let mut known = self.lock();
        let Some(stored) = known.stored.get(&target.digest).copied() else { return false };
        if now < stored.saturating_add(self.granularity) {
            return true;
        }
        let fits = known.held.len() < MAX_SCOPES || known.held.contains_key(&target.digest);
        if now >= stored.saturating_add(self.slack()) || !fits {
            return false;
        }
        known.held.insert(target.digest, (target.scope.clone(), now));
        true
    }

    pub(crate) fn learn(&self, digest: &ScopeDigest, stored: i64) {
        let mut known = self.lock();
        if known.stored.len() >= MAX_SCOPES {
            known.stored.clear();
        }
        known.stored.insert(*digest, stored);
        if known.held.get(digest).is_some_and(|(_, held)| *held <= stored) {
            known.held.remove(digest);
        }
    }

    pub(crate) fn hold(&self, scope: &Scope, digest: &ScopeDigest, at: i64) {
        let mut known = self.lock();
        if known.held.len() < MAX_SCOPES {
            known.held.insert(*digest, (scope.clone(), at));
        }
    }

    /// How long ago a scope was used, if that use is not written yet.
    pub(crate) fn held_ago(&self, digest: &ScopeDigest, now: i64) -> Option<i64> {
        self.lock().held.get(digest).map(|(_, at)| now.saturating_sub(*at).max(0))
    }

    /// Takes the uses not written yet.
    pub(crate) fn take_held(&self) -> Vec<(ScopeDigest, Scope, i64)> {
        self.lock().held.drain().map(|(digest, (scope, at))| (digest, scope, at)).collect()
    }

    /// Whether every use is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().held.is_empty()
    }
}
