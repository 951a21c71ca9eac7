//! Matrices of recently searched scopes, kept up to date within a memory budget.

use std::sync::Arc;

use memory_core::ScopeDigest;
use rusqlite::Connection;

use super::feed::VectorFeed;
use super::scope_matrix::ScopeMatrix;
use crate::commit::scope_cache::{Cached, ScopeCache};
use crate::error::Unreadable;
use crate::kv::state::ScopeState;

/// The matrices of one provider, all for its embedder's model. A scope's size is its number of vectors.
pub(crate) type MatrixCache = ScopeCache<VectorFeed, ScopeMatrix>;
/// One scope's matrix, and the changes not yet applied to it.
pub(crate) type CachedMatrix = Cached<VectorFeed, ScopeMatrix>;

impl MatrixCache {
    /// The cached matrix of a scope, initially empty; `None`: a matrix of so many vectors does not fit.
    pub(crate) fn open_matrix(
        &self,
        digest: &ScopeDigest,
        vectors: u64,
        dimensions: usize,
    ) -> Option<Arc<CachedMatrix>> {
        // One byte and one bit per number, and a row's other data.
        let row = (dimensions + dimensions / 8 + 16) as u64;
        if vectors.saturating_mul(row) > self.budget() as u64 {
            self.forget(digest);
            return None;
        }
        self.open(digest, vectors)
    }

    /// Brings a matrix up to the snapshot open on `connection`, in which the scope is `state` and the model has the
    /// number `model`. If it exceeds the budget, drops it and returns false.
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

    /// Compares a matrix with the database again, after it turned out wrong.
    pub(crate) fn repair(
        &self,
        held: &mut ScopeMatrix,
        connection: &Connection,
        state: ScopeState,
    ) -> Result<bool, Unreadable> {
        *held = ScopeMatrix::of(held.space, held.model, held.dimensions);
        held.compare(connection, state, self.budget())
    }

    /// Measures a matrix and makes room for it; false if it does not fit even alone.
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
