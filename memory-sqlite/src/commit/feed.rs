//! Committed changes, as published to the caches of scopes.

use std::fmt;
use std::sync::MutexGuard;

use memory_core::json::Json;
use memory_core::{Key, ScopeDigest, Timestamp};

/// A committed change of a scope's texts.
#[derive(Debug)]
pub(crate) struct TextChange {
    pub(crate) space: i64,
    /// The scope's count of changes with this one.
    pub(crate) number: i64,
    pub(crate) edit: TextEdit,
}

/// The change of a scope's texts.
#[derive(Debug)]
pub(crate) enum TextEdit {
    Put {
        key: Key,
        version: u64,
        value: Json,
        text: Option<String>,
        expires_at: Option<Timestamp>,
    },
    Removed {
        key: Key,
    },
    /// No change, as when entries got their vectors.
    None,
}

/// A committed change of a scope's vectors.
#[derive(Debug)]
pub(crate) struct VectorChange {
    pub(crate) space: i64,
    /// The scope's count of changes with this one.
    pub(crate) number: i64,
    /// Ids of vectors that were removed.
    pub(crate) removed: Vec<i64>,
    pub(crate) stored: Vec<StoredVector>,
}

/// A vector that was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredVector {
    pub(crate) id: i64,
    pub(crate) model: i64,
}

/// Caches scopes and follows the commits of this process.
pub(crate) trait Follower<C>: fmt::Debug + Send + Sync {
    /// Whether a scope's changes are needed.
    fn follows(&self, digest: &ScopeDigest) -> bool;

    /// Held from a commit until its changes are published. A search takes it once after opening its snapshot, and then
    /// knows every commit of this process that the snapshot shows.
    fn barrier(&self) -> MutexGuard<'_, ()>;

    /// Publishes a committed change, in commit order.
    fn feed(&self, digest: &ScopeDigest, change: C);
}
