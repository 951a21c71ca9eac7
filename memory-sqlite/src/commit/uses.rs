//! Recent uses of scopes, held in memory.
//!
//! The stored times are never behind by more than the *slack*, even after a crash: a use within the granularity of the
//! stored time is ignored, one within the slack is held in memory, and a later one is written before its call returns.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::ScopeDigest;
use quick_cache::unsync::Cache;

use crate::config::SqliteConfig;

/// The slack in units of the granularity.
const SLACK: i64 = 10;
/// Scopes whose stored time is cached: about 8 MiB.
const KNOWN: usize = 80_000;

/// How a use was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// In memory; nothing must be written now.
    Held,
    /// In memory, where many are: flush them soon.
    FlushDue,
    /// Not recorded: the stored time is unknown or too old, so the use must be written.
    MustWrite,
}

/// Held uses, and known stored times.
#[derive(Debug)]
pub(crate) struct Uses {
    known: Mutex<Known>,
    granularity: i64,
    slack: i64,
    most: usize,
    /// The assumed use time of scopes without one.
    tracked_since: i64,
}

#[derive(Debug)]
struct Known {
    stored: Cache<ScopeDigest, i64>,
    held: HashMap<ScopeDigest, i64>,
}

impl Uses {
    pub(crate) fn new(config: &SqliteConfig, tracked_since: i64) -> Self {
        let granularity = i64::try_from(config.use_granularity_ms).unwrap_or(i64::MAX / SLACK);
        Self {
            known: Mutex::new(Known { stored: Cache::new(KNOWN), held: HashMap::new() }),
            granularity,
            slack: granularity.saturating_mul(SLACK),
            most: config.access_entries,
            tracked_since,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn slack(&self) -> i64 {
        self.slack
    }

    /// The time of the last use, from a row that may be older than the recording of uses.
    pub(crate) fn at(&self, used_at: i64) -> i64 {
        used_at.max(self.tracked_since)
    }

    /// Records a use.
    pub(crate) fn note(&self, digest: &ScopeDigest, now: i64) -> Recorded {
        let mut known = self.lock();
        let Some(stored) = known.stored.get(digest).copied() else { return Recorded::MustWrite };
        if now < stored.saturating_add(self.granularity) {
            return Recorded::Held;
        }
        if now >= stored.saturating_add(self.slack) {
            return Recorded::MustWrite;
        }
        let many = known.held.len() >= self.most;
        if let Some(held) = known.held.get_mut(digest) {
            *held = now.max(*held);
            return Recorded::Held;
        }
        if many {
            return Recorded::MustWrite;
        }
        known.held.insert(*digest, now);
        if known.held.len() >= self.most { Recorded::FlushDue } else { Recorded::Held }
    }

    /// Records a stored time.
    pub(crate) fn learn(&self, digest: &ScopeDigest, stored: i64) {
        let mut known = self.lock();
        let stored = known.stored.get(digest).copied().unwrap_or(i64::MIN).max(stored);
        known.stored.insert(*digest, stored);
        if known.held.get(digest).is_some_and(|held| *held <= stored) {
            known.held.remove(digest);
        }
    }

    /// Keeps a use in memory because it could not be written.
    pub(crate) fn hold(&self, digest: &ScopeDigest, now: i64) {
        let mut known = self.lock();
        if known.held.len() < self.most {
            known.held.insert(*digest, now);
        }
    }

    /// A scope's held use.
    pub(crate) fn held(&self, digest: &ScopeDigest) -> i64 {
        self.lock().held.get(digest).copied().unwrap_or_default()
    }

    /// Takes the held uses. Only one caller at a time may, and it reports the result with [`learn`](Self::learn) or
    /// [`hold`](Self::hold).
    pub(crate) fn take(&self) -> Vec<(ScopeDigest, i64)> {
        self.lock().held.drain().collect()
    }
}
