//! Matrices of recently searched scopes, kept in step with the database and within a budget.

use std::sync::Arc;

use memory_core::ScopeDigest;
use rusqlite::Connection;

use super::feed::VectorFeed;
use super::scope_matrix::ScopeMatrix;
use crate::commit::scope_cache::{Cached, ScopeCache};
use crate::error::Unreadable;
use crate::kv::state::ScopeState;

/// The matrices of one provider, all of its embedder's model. The size of a scope is how many vectors it has.
pub(crate) type MatrixCache = ScopeCache<VectorFeed, ScopeMatrix>;
/// One scope's matrix and the changes it does not show yet.
pub(crate) type CachedMatrix = Cached<VectorFeed, ScopeMatrix>;

impl MatrixCache {
    /// The cached matrix of a scope, empty at first; `None`: one of so many vectors does not fit.
    pub(crate) fn open_matrix(
        &self,
        digest: &ScopeDigest,
        vectors: u64,
        dimensions: usize,
    ) -> Option<Arc<CachedMatrix>> {
        // One byte a number, a bit a number, and what goes with each row.
        let row = (dimensions + dimensions / 8 + 16) as u64;
        if vectors.saturating_mul(row) > self.budget() as u64 {
            self.forget(digest);
            return None;
        }
        self.open(digest, vectors)
    }

    /// Brings a matrix up to the snapshot that `connection` has open, in which the scope is `state` and the model has
    /// the number `model`. Returns false where it does not fit the budget; it is given up then.
    #[allow(clippy::too_many_arguments, reason = "one search's facts, used once")]
    pub(crate) fn catch_up(
        &self,
        digest: &ScopeDigest,
        cached: &CachedMatrix,
        held: &mut ScopeMatrix,
        connection: &Connection,
        state: ScopeState,
        model: i64,
        dimensions: usize,
    ) -> Result<bool, Unreadable> {
        self.pass_barrier();
        if (held.space, held.model, held.dimensions) != (state.space, model, dimensions) {
            *held = ScopeMatrix::of(state.space, model, dimensions);
        }
        let items = cached.feed().take_until(state.space, state.changes);
        if !held.apply(items, connection, state)? && !held.compare(connection, state, self.budget())? {
            self.give_up(digest, state.vectors);
            return Ok(false);
        }
        Ok(self.weigh(digest, cached, held, state))
    }

    /// Reads again what a matrix should hold: something it said was not so.
    pub(crate) fn repair(
        &self,
        held: &mut ScopeMatrix,
        connection: &Connection,
        state: ScopeState,
    ) -> Result<bool, Unreadable> {
        *held = ScopeMatrix::of(held.space, held.model, held.dimensions);
        held.compare(connection, state, self.budget())
    }

    /// Looks at the memory a matrix takes, and makes room for it; false where it alone does not fit.
    pub(crate) fn weigh(
        &self,
        digest: &ScopeDigest,
        cached: &CachedMatrix,
        held: &ScopeMatrix,
        state: ScopeState,
    ) -> bool {
        let bytes = held.matrix.heap_bytes();
        if cached.weigh(bytes) >= bytes {
            return true;
        }
        self.make_room(digest, state.vectors)
    }
}
