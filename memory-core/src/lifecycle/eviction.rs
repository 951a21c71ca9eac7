//! When scopes were last used, and the eviction of unused ones. Specified in `docs/spec/lifecycle.md`.

use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::limits::DEFAULT_PAGE;
use crate::scope::{Scope, ScopeKind};
use crate::time::Timestamp;

/// The query of [`Provider::scope_uses`](crate::Provider::scope_uses).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ScopeUsesQuery {
    /// Only scopes of this kind.
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

impl ScopeUsesQuery {
    crate::setters! {
        with_kind(kind: Option<ScopeKind>);
        with_cursor(cursor: Option<Cursor>);
        with_limit(limit: usize);
    }
}

/// A scope that is not empty, and its last use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ScopeUse {
    /// The scope.
    pub scope: Scope,
    /// Bytes of its entries.
    pub entry_bytes: u64,
    /// Bytes of its SQL database as stored; 0: it has none.
    pub sql_bytes: u64,
    /// Its last use, accurate to within the slack.
    pub last_used_at: Timestamp,
    /// The latest possible time of its last use, one slack later. `evict` removes the scope if `unused_since` is at or
    /// after this.
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

/// One page of scopes with their uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ScopeUsesPage {
    /// Ordered by kind (agent, user, run), then by the bytes of the id.
    pub scopes: Vec<ScopeUse>,
    /// Where the next page begins; `None`: this is the last.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "why", try_from = "WrittenKept")]
#[non_exhaustive]
pub enum Kept {
    /// It is empty.
    Absent,
    /// It was used after `unused_since`, or may have been.
    Used {
        /// The last known use.
        last_used_at: Timestamp,
    },
    /// A SQL transaction is open in it or a statement is running, in this or another process.
    InUse,
}

/// As it is written: serde reads no time behind a tag.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct WrittenKept {
    why: String,
    last_used_at: Option<Timestamp>,
}

impl TryFrom<WrittenKept> for Kept {
    type Error = &'static str;

    fn try_from(written: WrittenKept) -> Result<Self, Self::Error> {
        match (written.why.as_str(), written.last_used_at) {
            ("absent", _) => Ok(Self::Absent),
            ("used", Some(last_used_at)) => Ok(Self::Used { last_used_at }),
            ("in_use", _) => Ok(Self::InUse),
            _ => Err("this is no reason for keeping a scope"),
        }
    }
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

/// The result of [`Provider::evict`](crate::Provider::evict).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EvictOutcome {
    /// It was removed from every facet.
    Evicted {
        /// How many bytes it held.
        bytes: u64,
    },
    /// It is unchanged.
    Kept(Kept),
}

impl EvictOutcome {
    /// Whether it was removed.
    #[must_use]
    pub const fn is_evicted(&self) -> bool {
        matches!(self, Self::Evicted { .. })
    }
}

/// What [`Provider::reclaim`](crate::Provider::reclaim) found and freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Bytes by which the store's files shrank; 0 if the store cannot tell.
    pub bytes: u64,
}
