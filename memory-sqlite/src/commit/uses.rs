//! When scopes were last used, as far as it is held in memory.
//!
//! What is stored is never further behind than the *slack*, whatever dies: a use within the granularity of what is stored
//! is not noted, one within the slack is held in memory, one beyond it is written before it is answered.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::ScopeDigest;
use quick_cache::unsync::Cache;

use crate::config::SqliteConfig;

/// The slack is so many times the granularity.
const SLACK: i64 = 10;
/// Scopes of which it is kept what is stored: some 8 MiB.
const KNOWN: usize = 80_000;
/// What became of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It need not be written now.
    Done,
    /// It is held, and many are: they should be written.
    Full,
    /// What is stored is not known, or too old.
    Ask,
}

/// Uses that are held, and what is known to be stored.
#[derive(Debug)]
pub(crate) struct Uses {
    known: Mutex<Known>,
    granularity: i64,
    slack: i64,
    most: usize,
    /// Scopes without a moment of their own were used then.
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

    /// A moment of a row, which may be from before uses were kept.
    pub(crate) fn at(&self, used_at: i64) -> i64 {
        used_at.max(self.tracked_since)
    }

    /// Notes a use.
    pub(crate) fn note(&self, digest: &ScopeDigest, now: i64) -> Noted {
        let mut known = self.lock();
        let Some(stored) = known.stored.get(digest).copied() else { return Noted::Ask };
        if now < stored.saturating_add(self.granularity) {
            return Noted::Done;
        }
        if now >= stored.saturating_add(self.slack) {
            return Noted::Ask;
        }
        let many = known.held.len() >= self.most;
        if let Some(held) = known.held.get_mut(digest) {
            *held = now.max(*held);
            return Noted::Done;
        }
        if many {
            return Noted::Ask;
        }
        known.held.insert(*digest, now);
        if known.held.len() >= self.most { Noted::Full } else { Noted::Done }
    }

    /// Notes what is stored.
    pub(crate) fn learn(&self, digest: &ScopeDigest, stored: i64) {
        let mut known = self.lock();
        let stored = known.stored.get(digest).copied().unwrap_or(i64::MIN).max(stored);
        known.stored.insert(*digest, stored);
        if known.held.get(digest).is_some_and(|held| *held <= stored) {
            known.held.remove(digest);
        }
    }

    /// Holds a use that could not be written.
    pub(crate) fn hold(&self, digest: &ScopeDigest, now: i64) {
        let mut known = self.lock();
        if known.held.len() < self.most {
            known.held.insert(*digest, now);
        }
    }

    /// The use of a scope that is held.
    pub(crate) fn held(&self, digest: &ScopeDigest) -> i64 {
        self.lock().held.get(digest).copied().unwrap_or_default()
    }

    /// What is held; one caller at a time, which tells what became of it.
    pub(crate) fn take(&self) -> Vec<(ScopeDigest, i64)> {
        self.lock().held.drain().collect()
    }
}
