//! When scopes were last used, and the eviction of those that nobody uses. `docs/spec/lifecycle.md` has the behaviours.

use serde::Serialize;

use crate::cursor::Cursor;
use crate::limits::DEFAULT_PAGE;
use crate::scope::{Scope, ScopeKind};
use crate::setters::setters;
use crate::time::Timestamp;

/// A question to [`Provider::scope_uses`](crate::Provider::scope_uses).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeUsesQuery {
    /// Scopes of this kind only.
    pub kind: Option<ScopeKind>,
    /// Where the page begins.
    pub cursor: Option<Cursor>,
    /// Most scopes of the page: 1 to 1,000. Default 100.
    pub limit: usize,
}

impl Default for ScopeUsesQuery {
    fn default() -> Self {
        Self { kind: None, cursor: None, limit: DEFAULT_PAGE }
    }
}

setters! { ScopeUsesQuery {
    /// Sets the kind.
    with_kind(kind: Option<ScopeKind>);
    /// Sets the cursor.
    with_cursor(cursor: Option<Cursor>);
    /// Sets the page size.
    with_limit(limit: usize);
} }

/// A scope that holds something, and when it was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopeUse {
    /// The scope.
    pub scope: Scope,
    /// Bytes of its entries.
    pub entry_bytes: u64,
    /// Bytes of its SQL database as the store keeps it; 0: it has none.
    pub sql_bytes: u64,
    /// Its last use, known to less than the slack.
    pub last_used_at: Timestamp,
    /// No use is later than this, the slack after the last known. `evict` removes the scope from this `unused_since` on.
    pub latest_use: Timestamp,
}

impl ScopeUse {
    /// A scope with its bytes and last use.
    #[must_use]
    pub fn new(scope: Scope, entry_bytes: u64, sql_bytes: u64, last_used_at: Timestamp) -> Self {
        Self { scope, entry_bytes, sql_bytes, last_used_at, latest_use: last_used_at }
    }

    /// Sets the slack, in milliseconds.
    #[must_use]
    pub fn with_slack(mut self, millis: i64) -> Self {
        let latest = self.last_used_at.as_millis().saturating_add(millis);
        self.latest_use = Timestamp::from_millis_clamped(latest);
        self
    }

    /// Bytes of both facets.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entry_bytes.saturating_add(self.sql_bytes)
    }
}

/// One page of scopes with their use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopeUsesPage {
    /// Ordered by kind (agent, user, run), then by the bytes of the id.
    pub scopes: Vec<ScopeUse>,
    /// Where the next page begins; `None`: this was the last.
    pub next: Option<Cursor>,
}

impl ScopeUsesPage {
    /// A page.
    #[must_use]
    pub fn new(scopes: Vec<ScopeUse>, next: Option<Cursor>) -> Self {
        Self { scopes, next }
    }
}

/// Why a scope was not evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case", tag = "why")]
#[non_exhaustive]
pub enum Kept {
    /// It holds nothing.
    Absent,
    /// It was used after `unused_since`, or may have been.
    Used {
        /// The last use known.
        last_used_at: Timestamp,
    },
    /// A SQL transaction is open in it, or a statement runs: here or in another process.
    InUse,
}

impl Kept {
    /// `absent`, `used` or `in_use`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Used { .. } => "used",
            Self::InUse => "in_use",
        }
    }
}

/// The answer of [`Provider::evict`](crate::Provider::evict).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EvictOutcome {
    /// It is gone, in every facet.
    Evicted {
        /// How many bytes it held.
        bytes: u64,
    },
    /// It is unchanged.
    Kept(Kept),
}

impl EvictOutcome {
    /// Whether it is gone.
    #[must_use]
    pub const fn is_evicted(&self) -> bool {
        matches!(self, Self::Evicted { .. })
    }
}

/// What [`Provider::reclaim`](crate::Provider::reclaim) found and freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Entries that had expired.
    pub expired: u64,
    /// Vectors without an entry.
    pub vectors: u64,
    /// Evictions and ends of runs that were interrupted and are now complete.
    pub unfinished: u64,
    /// Ended runs whose fence is over.
    pub fences: u64,
    /// Bytes by which the store's files are smaller; 0 where a store cannot tell.
    pub bytes: u64,
}
