//! The drift guard: a write that would destroy what somebody else changed meanwhile is refused.
//!
//! A [`DriftSession`] is what one run has seen. [`DriftSession::guard`] wraps a backend that serves drift checks
//! ([`Capabilities::drift`](memory_core::Capabilities::drift)): reads teach the session, writes carry what it saw, and
//! the backend compares in the write's own transaction. A refusal saves the scope first and teaches nothing: only a read
//! that returned the new state, or [`Guarded::ack`], does. `docs/spec/drift.md` numbers the behaviours.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> memory::Result<()> {
//! # #[cfg(feature = "sqlite")] {
//! use memory::drift::DriftSession;
//! use memory::{Backend as _, BackendExt as _, DriftPolicy, ErrorKind, Json, Key, Scope};
//!
//! let memory = memory::open("sqlite::memory:").await?;
//! let (scope, key) = (Scope::agent("acme", "planner")?, Key::new("city")?);
//! let backend = memory.backend().expect("SQLite keeps entries");
//! backend.put(&scope, &key, Json::string("Lisbon")).await?;
//!
//! let session = DriftSession::new(DriftPolicy::Row);
//! let mine = session.guard(backend);
//! mine.value(&scope, &key).await?;
//! backend.put(&scope, &key, Json::string("Porto")).await?;
//! let refused = mine.put(&scope, &key, Json::string("Faro")).await.unwrap_err();
//! assert_eq!(refused.kind(), ErrorKind::DriftDetected);
//! mine.value(&scope, &key).await?;
//! mine.put(&scope, &key, Json::string("Faro")).await?;
//! # }
//! # Ok(())
//! # }
//! ```

mod aside;
pub mod backup;
mod guarded;
mod refusal;
mod turns;
mod view;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_core::{Backend, Clock, DriftPolicy, DriftToken, Scope};
use serde::Serialize;

pub use backup::{BackupLimits, Backups};
pub use guarded::{Guarded, Reading};

use crate::system::SystemClock;
use turns::Turns;
use view::Views;

/// Entries that a session remembers, by default.
pub const DEFAULT_REMEMBERED: usize = 10_000;

/// What one run has seen of the entries it works with.
#[derive(Debug)]
pub struct DriftSession {
    policy: DriftPolicy,
    views: Mutex<Views>,
    turns: Turns,
    backups: Option<Arc<Backups>>,
    clock: Arc<dyn Clock>,
}

/// What a session knows of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionStatus {
    /// What it refuses writes for.
    pub policy: DriftPolicy,
    /// The scope's token that it last saw or acknowledged.
    pub observed: Option<DriftToken>,
    /// Entries of the scope that it remembers.
    pub entries: usize,
    /// Entries of all scopes that it has forgotten: they are not guarded.
    pub forgotten: u64,
    /// Whether a write was refused and what it was refused for was not read since.
    pub unresolved: bool,
}

impl DriftSession {
    /// A session that has seen nothing.
    #[must_use]
    pub fn new(policy: DriftPolicy) -> Self {
        Self {
            policy,
            views: Mutex::new(Views::new(DEFAULT_REMEMBERED)),
            turns: Turns::default(),
            backups: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// Has scopes saved before a refusal is told.
    #[must_use]
    pub fn with_backups(mut self, backups: Arc<Backups>) -> Self {
        self.backups = Some(backups);
        self
    }

    /// Sets how many entries it remembers, at least one.
    #[must_use]
    pub fn with_remembered(mut self, entries: usize) -> Self {
        self.views = Mutex::new(Views::new(entries.max(1)));
        self
    }

    /// Sets the clock that backups are named by.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// What it refuses writes for.
    #[must_use]
    pub fn policy(&self) -> DriftPolicy {
        self.policy
    }

    /// The backend as this session works with it. The backend must serve the session's policy.
    #[must_use]
    pub fn guard<'a>(&'a self, backend: &'a dyn Backend) -> Guarded<'a> {
        Guarded::new(self, backend)
    }

    /// What it knows of a scope.
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

    fn views(&self) -> MutexGuard<'_, Views> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
