//! What a write transaction knows of a scope, and of the row that it writes over.

use memory_core::json::Json;
use memory_core::{Scope, ScopeDigest, Timestamp};

/// A scope and its digest.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) scope: Scope,
    pub(crate) digest: ScopeDigest,
}

impl Target {
    pub(crate) fn of(scope: &Scope) -> Self {
        Self { scope: scope.clone(), digest: scope.digest() }
    }
}

/// A row of `scope`. Counters include rows that have expired but are still there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Space {
    /// 0: the scope has no row yet.
    pub(crate) id: i64,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) expiring: u64,
    /// Rows of `vector`; at 0 no write looks there.
    pub(crate) vectors: u64,
    /// The highest version given.
    pub(crate) version: u64,
    /// No key that is not there was ever given a version above this one.
    pub(crate) floor: u64,
    /// Counts everything that a reader could notice.
    pub(crate) changes: i64,
    /// Counts every change of an entry; 0: there was none.
    pub(crate) generation: u64,
    /// Another one with every generation.
    pub(crate) nonce: i64,
    /// When it was used, as far as is stored.
    pub(crate) used_at: i64,
    /// The number of the intent to remove its SQL database; 0: there is none.
    pub(crate) leaving: i64,
    /// Whether it is to be written.
    pub(crate) dirty: bool,
}

impl Space {
    pub(crate) fn touch(&mut self) {
        self.dirty = true;
    }
}

/// What a write needs to know of the row it replaces, live or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old {
    pub(crate) version: u64,
    pub(crate) born: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) accesses: u64,
    pub(crate) size: u64,
    pub(crate) body: Option<i64>,
}

impl Old {
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }
}

/// The content of a row to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) value: &'a Json,
    /// As [`row::encode_metadata`] writes it.
    pub(crate) metadata: Option<&'a str>,
    pub(crate) source: Option<&'a str>,
    pub(crate) text: Option<&'a str>,
    /// As `Entry::size_bytes` counts.
    pub(crate) size: u64,
}

/// The history of a row to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    pub(crate) version: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) accesses: u64,
    /// `None`: the row is a new incarnation of its key.
    pub(crate) born: Option<i64>,
}
