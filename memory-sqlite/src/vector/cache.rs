//! Matrices of recently searched scopes, kept up to date within a memory budget.

use std::sync::Arc;

use memory_core::{Filter, ScopeDigest};
use rusqlite::Connection;

use super::feed::VectorFeed;
use super::nearest::each_described;
use super::scope_matrix::ScopeMatrix;
use crate::commit::scope_cache::{Cached, ScopeCache, Turn};
use crate::error::Unreadable;
use crate::kv::state::ScopeState;

/// The matrices of one provider, all for its embedder's model. A scope's size is its number of vectors.
pub(crate) type MatrixCache = ScopeCache<VectorFeed, ScopeMatrix>;
/// One scope's matrix, and the changes not yet applied to it.
pub(crate) type CachedMatrix = Cached<VectorFeed, ScopeMatrix>;
/// The turn to change one scope's matrix.
pub(crate) type MatrixTurn<'c> = Turn<'c, VectorFeed, ScopeMatrix>;

/// What a search needs of a matrix: the vectors of the snapshot open on `connection`, and the columns of its filter.
#[derive(Clone, Copy)]
pub(crate) struct Needed<'a> {
    pub(crate) connection: &'a Connection,
    /// The scope in the snapshot.
    pub(crate) state: ScopeState,
    /// The model's number.
    pub(crate) model: i64,
    pub(crate) dimensions: usize,
    pub(crate) filter: Option<&'a Filter>,
}

impl Needed<'_> {
    pub(crate) fn is_in(&self, held: &ScopeMatrix) -> bool {
        // A filter of too many fields is evaluated without columns.
        let unloaded = |filter| held.matrix.unloaded(filter).is_some_and(|fields| !fields.is_empty());
        held.is_current(self.state, self.model, self.dimensions) && !self.filter.is_some_and(unloaded)
    }

    fn load_columns(&self, held: &mut ScopeMatrix) -> Result<(), Unreadable> {
        let fields = self.filter.and_then(|filter| held.matrix.unloaded(filter)).unwrap_or_default();
        if fields.is_empty() {
            return Ok(());
        }
        held.matrix.load_columns(&fields, |describe| {
            each_described(self.connection, self.state.space, self.model, |id, described| {
                describe(id, &described.view());
            })
        })
    }
}

impl MatrixCache {
    /// The cached matrix of a scope, initially empty; `None` if a matrix of this many vectors does not fit.
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

    /// Brings a matrix up to what a search needs; `anew` rereads all of it, after it turned out wrong.
    ///
    /// If it exceeds the budget, drops it and returns false.
    pub(crate) fn catch_up(
        &self,
        digest: &ScopeDigest,
        turn: &MatrixTurn<'_>,
        needed: &Needed<'_>,
        anew: bool,
    ) -> Result<bool, Unreadable> {
        let Needed { connection, state, model, dimensions, .. } = *needed;
        self.pass_barrier();
        let (cached, mut held) = (turn.cached(), turn.value());
        if anew || (held.space, held.model, held.dimensions) != (state.space, model, dimensions) {
            *held = ScopeMatrix::of(state.space, model, dimensions);
        }
        let items = cached.feed().take_until(state.space, state.changes);
        if !held.apply(items, connection, state)? && !held.compare(connection, state, self.budget())? {
            self.give_up(digest, state.vectors);
            return Ok(false);
        }
        if !self.weigh(digest, cached, &held, state) {
            return Ok(false);
        }
        needed.load_columns(&mut held)?;
        // If the columns do not fit, this search still uses them.
        self.weigh(digest, cached, &held, state);
        Ok(true)
    }

    /// Measures a matrix and makes room for it; returns false if it does not fit even alone.
    fn weigh(
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
