//! What one run has seen of its entries.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_core::{Clock, DriftPolicy, DriftToken, Scope};
use serde::Serialize;

use super::backup::Backups;
use super::key_locks::KeyLocks;
use super::view::Views;
use crate::system::SystemClock;

/// Entries that a session tracks, by default.
pub const DEFAULT_CAPACITY: usize = 10_000;

/// What one run has seen of its entries.
#[derive(Debug)]
pub struct DriftSession {
    pub(super) policy: DriftPolicy,
    views: Mutex<Views>,
    pub(super) locks: KeyLocks,
    pub(super) backups: Option<Arc<Backups>>,
    pub(super) clock: Arc<dyn Clock>,
}

/// A session's status for a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionStatus {
    /// The policy by which it refuses writes.
    pub policy: DriftPolicy,
    /// The token of the scope that it last saw or acknowledged.
    pub observed: Option<DriftToken>,
    /// Entries of the scope that it tracks.
    pub entries: usize,
    /// Entries of all scopes that it no longer tracks for lack of space, and so no longer guards.
    pub forgotten: u64,
    /// Whether a write was refused and the change behind it has not been read since.
    pub unresolved: bool,
}

impl DriftSession {
    /// A session that has seen nothing.
    #[must_use]
    pub fn new(policy: DriftPolicy) -> Self {
        Self {
            policy,
            views: Mutex::new(Views::new(DEFAULT_CAPACITY)),
            locks: KeyLocks::default(),
            backups: None,
            clock: Arc::new(SystemClock),
        }
    }

    memory_core::setters! {
        /// A scope is saved there before a write to it is refused.
        with_backups(backups: Arc<Backups> => Some(backups));
        /// Used to name backups.
        with_clock(clock: Arc<dyn Clock>);
    }

    /// Sets how many entries it tracks, at least one.
    #[must_use]
    pub fn with_capacity(mut self, entries: usize) -> Self {
        self.views = Mutex::new(Views::new(entries.max(1)));
        self
    }

    /// The policy by which it refuses writes.
    #[must_use]
    pub fn policy(&self) -> DriftPolicy {
        self.policy
    }

    /// Its status for a scope.
    #[must_use]
    pub fn status(&self, scope: &Scope) -> SessionStatus {
        let views = self.views();
        let digest = scope.digest();
        SessionStatus {
            policy: self.policy,
            observed: views.token(&digest),
            entries: views.entries(&digest),
            forgotten: views.forgotten(),
            unresolved: views.is_unresolved(&digest),
        }
    }

    pub(super) fn views(&self) -> MutexGuard<'_, Views> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
