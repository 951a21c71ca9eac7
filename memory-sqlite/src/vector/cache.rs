//! Matrices of recently searched scopes, kept in step with the database and within a budget.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_core::ScopeDigest;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::decode_into;
use super::feed::{Change, Feed, Item};
use super::load::{self, Loaded};
use crate::error::malformed;
use crate::matrix::Matrix;
use crate::row::Unreadable;
use crate::search::cache::ScopeState;
use crate::search::view::Described;

/// Rows loaded between two looks at the memory taken.
const MEASURE_EVERY: usize = 4_096;
/// With more new rows than this, a second thread helps to load them.
const BESIDE: u64 = 8_192;
/// Scopes remembered as too large.
const OVERSIZED: usize = 10_000;

/// One scope's matrix and the changes it does not know of yet.
#[derive(Debug, Default)]
pub(crate) struct Cached {
    feed: Mutex<Feed>,
    held: Mutex<ScopeMatrix>,
    bytes: AtomicUsize,
}

impl Cached {
    /// The matrix, for one search at a time.
    pub(crate) fn held(&self) -> MutexGuard<'_, ScopeMatrix> {
        lock(&self.held)
    }
}

#[derive(Debug, Default)]
struct Scopes {
    /// With the time of their last use, in searches.
    cached: HashMap<ScopeDigest, (u64, Arc<Cached>)>,
    /// Scopes whose matrix did not fit, and their vectors then.
    oversized: HashMap<ScopeDigest, u64>,
    searches: u64,
}

/// The matrices of one provider, all of its embedder's model.
#[derive(Debug)]
pub(crate) struct MatrixCache {
    scopes: Mutex<Scopes>,
    count: AtomicUsize,
    budget: usize,
    /// Held from a commit until its changes are fed: who has passed it knows of every own commit that a snapshot
    /// taken before shows.
    barrier: Mutex<()>,
}

impl MatrixCache {
    pub(crate) fn new(budget: usize) -> Self {
        Self { scopes: Mutex::default(), count: AtomicUsize::new(0), budget, barrier: Mutex::new(()) }
    }

    /// Whether a scope's changes are wanted.
    pub(crate) fn watches(&self, digest: &ScopeDigest) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && lock(&self.scopes).cached.contains_key(digest)
    }

    pub(crate) fn barrier(&self) -> MutexGuard<'_, ()> {
        lock(&self.barrier)
    }

    /// Hands over a committed change, in the order of commits.
    pub(crate) fn feed(&self, digest: &ScopeDigest, change: Change) {
        let cached = lock(&self.scopes).cached.get(digest).map(|(_, cached)| Arc::clone(cached));
        if let Some(cached) = cached {
            lock(&cached.feed).push(change);
        }
    }

    /// The cached matrix of a scope, empty at first; `None`: one of so many vectors does not fit.
    pub(crate) fn open(&self, digest: &ScopeDigest, vectors: u64, dimensions: usize) -> Option<Arc<Cached>> {
        let mut scopes = lock(&self.scopes);
        // One byte a number, a bit a number, and what goes with each row.
        let row = (dimensions + dimensions / 8 + 16) as u64;
        if vectors.saturating_mul(row) > self.budget as u64 {
            scopes.cached.remove(digest);
            self.count.store(scopes.cached.len(), Ordering::Relaxed);
            return None;
        }
        if let Some(then) = scopes.oversized.get(digest) {
            if vectors >= then / 4 * 3 {
                return None;
            }
            scopes.oversized.remove(digest);
        }
        scopes.searches += 1;
        let now = scopes.searches;
        let (used, cached) = scopes.cached.entry(*digest).or_default();
        *used = now;
        let cached = Arc::clone(cached);
        self.count.store(scopes.cached.len(), Ordering::Relaxed);
        Some(cached)
    }

    /// Brings a matrix up to the snapshot that `connection` has open, in which the scope is `state` and the model has
    /// the number `model`. Returns false where it does not fit the budget; it is given up then.
    #[allow(clippy::too_many_arguments, reason = "one search's facts, used once")]
    pub(crate) fn catch_up(
        &self,
        digest: &ScopeDigest,
        cached: &Cached,
        held: &mut ScopeMatrix,
        connection: &Connection,
        state: ScopeState,
        model: i64,
        dimensions: usize,
    ) -> Result<bool, Unreadable> {
        drop(self.barrier());
        if (held.space, held.model, held.dimensions) != (state.space, model, dimensions) {
            *held = ScopeMatrix::of(state.space, model, dimensions);
        }
        let items = lock(&cached.feed).take_until(state.space, state.changes);
        if !held.apply(items, connection, state)? && !held.compare(connection, state, self.budget)? {
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
        held.compare(connection, state, self.budget)
    }

    /// Looks at the memory a matrix takes, and makes room for it; false where it alone does not fit.
    pub(crate) fn weigh(
        &self,
        digest: &ScopeDigest,
        cached: &Cached,
        held: &ScopeMatrix,
        state: ScopeState,
    ) -> bool {
        let bytes = held.matrix.heap_bytes();
        if cached.bytes.swap(bytes, Ordering::Relaxed) >= bytes {
            return true;
        }
        self.make_room(digest, state.vectors)
    }

    /// Forgets a matrix, as one that turned out wrong.
    pub(crate) fn forget(&self, digest: &ScopeDigest) {
        let mut scopes = lock(&self.scopes);
        scopes.cached.remove(digest);
        self.count.store(scopes.cached.len(), Ordering::Relaxed);
    }

    fn give_up(&self, digest: &ScopeDigest, vectors: u64) {
        self.forget(digest);
        let mut scopes = lock(&self.scopes);
        if scopes.oversized.len() >= OVERSIZED {
            scopes.oversized.clear();
        }
        scopes.oversized.insert(*digest, vectors);
    }

    /// Forgets the matrices not used for longest until the rest fits; false where this one alone does not.
    fn make_room(&self, digest: &ScopeDigest, vectors: u64) -> bool {
        let mut scopes = lock(&self.scopes);
        let bytes = |cached: &Arc<Cached>| cached.bytes.load(Ordering::Relaxed);
        let mut total: usize = scopes.cached.values().map(|(_, cached)| bytes(cached)).sum();
        while total > self.budget {
            let others = scopes.cached.iter().filter(|(other, _)| *other != digest);
            let Some(oldest) = others.min_by_key(|(_, (used, _))| *used).map(|(oldest, _)| *oldest) else {
                break;
            };
            if let Some((_, evicted)) = scopes.cached.remove(&oldest) {
                total = total.saturating_sub(bytes(&evicted));
            }
        }
        self.count.store(scopes.cached.len(), Ordering::Relaxed);
        drop(scopes);
        if total > self.budget {
            self.give_up(digest, vectors);
        }
        total <= self.budget
    }
}

/// The vectors of one model in one scope, as of its change number `changes`.
pub(crate) struct ScopeMatrix {
    space: i64,
    model: i64,
    dimensions: usize,
    changes: i64,
    /// False until the first comparison with the database.
    complete: bool,
    /// The greatest id that was ever pushed.
    last: i64,
    pub(crate) matrix: Matrix,
}

impl std::fmt::Debug for ScopeMatrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScopeMatrix").field("rows", &self.matrix.len()).finish_non_exhaustive()
    }
}

impl Default for ScopeMatrix {
    fn default() -> Self {
        Self::of(0, 0, 1)
    }
}

impl ScopeMatrix {
    fn of(space: i64, model: i64, dimensions: usize) -> Self {
        let matrix = Matrix::new(dimensions);
        Self { space, model, dimensions, changes: 0, complete: false, last: 0, matrix }
    }

    /// Applies own changes; false where some are missing.
    fn apply(
        &mut self,
        items: Vec<Item>,
        connection: &Connection,
        state: ScopeState,
    ) -> Result<bool, Unreadable> {
        if !self.complete {
            return Ok(false);
        }
        // Until all is applied: where reading fails, the next search compares.
        self.complete = false;
        let mut numbers = Vec::new();
        for item in items {
            if item.space != self.space {
                continue;
            }
            if item.first > self.changes + 1 {
                return Ok(false);
            }
            for id in &item.gone {
                self.matrix.remove(*id);
            }
            if item.last <= self.changes {
                continue;
            }
            let model = self.model;
            for stored in item.stored.iter().filter(|stored| stored.model == model) {
                let mut statement = connection.prepare_cached(
                    "SELECT id, key, expires_at, data FROM vector WHERE id = ?1 AND space = ?2 AND model = ?3",
                )?;
                let mut rows = statement.query(params![stored.id, self.space, self.model])?;
                // Gone already where a later change of this very snapshot removed it.
                if let Some(row) = rows.next()? {
                    self.push(connection, row, &mut numbers)?;
                }
            }
            self.changes = item.last;
        }
        // With more rows than the scope has of all models, another process has reclaimed expired ones.
        self.complete = self.changes == state.changes && self.matrix.len() as u64 <= state.vectors;
        Ok(self.complete)
    }

    /// Finds what differs from the database by id, and reads what is new. Returns false where memory ends.
    fn compare(
        &mut self,
        connection: &Connection,
        state: ScopeState,
        budget: usize,
    ) -> Result<bool, Unreadable> {
        self.complete = false;
        // Ids only grow, whoever writes.
        if !self.load(connection, state, budget)? {
            return Ok(false);
        }
        if !self.holds_all_of(connection, state)? {
            self.remove_gone(connection)?;
        }
        self.changes = state.changes;
        self.complete = true;
        Ok(true)
    }

    /// Reads the rows above the last id. Returns false where memory ends.
    fn load(
        &mut self,
        connection: &Connection,
        state: ScopeState,
        budget: usize,
    ) -> Result<bool, Unreadable> {
        let mut fresh = connection.prepare_cached(load::ROWS)?;
        if !self.matrix.has_columns() && state.vectors > self.matrix.len() as u64 + BESIDE {
            let (space, model, dimensions) = (self.space, self.model, self.dimensions);
            let wanted = load::Wanted { space, model, dimensions, after: self.last };
            match load::many(&mut fresh, wanted, &mut self.matrix, budget)? {
                Loaded::UpTo(last) => {
                    self.last = last;
                    return Ok(true);
                }
                Loaded::Full => return Ok(false),
                Loaded::Alone => {}
            }
        }
        let mut rows = fresh.query(params![self.space, self.model, self.last])?;
        let (mut read, mut numbers) = (0_usize, Vec::new());
        while let Some(row) = rows.next()? {
            self.push(connection, row, &mut numbers)?;
            read += 1;
            if read.is_multiple_of(MEASURE_EVERY) && self.matrix.heap_bytes() > budget {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether what is held are all vectors of the scope, of whatever model: then their number says that none of them is
    /// gone.
    pub(crate) fn holds_all_of(
        &self,
        connection: &Connection,
        state: ScopeState,
    ) -> Result<bool, Unreadable> {
        if self.matrix.len() as u64 != state.vectors {
            return Ok(false);
        }
        let mut others = connection.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM vector WHERE space = ?1 AND model < ?2) \
             OR EXISTS (SELECT 1 FROM vector WHERE space = ?1 AND model > ?2)",
        )?;
        Ok(!others.query_row(params![self.space, self.model], |row| row.get::<_, bool>(0))?)
    }

    fn remove_gone(&mut self, connection: &Connection) -> Result<(), Unreadable> {
        let mut listing = connection.prepare_cached(
            "SELECT id FROM vector WHERE space = ?1 AND model = ?2 AND id <= ?3 ORDER BY id",
        )?;
        let mut stored = listing.query(params![self.space, self.model, self.last])?;
        let mut next: Option<i64> = stored.next()?.map(|row| row.get(0)).transpose()?;
        let mut gone = Vec::new();
        for id in self.matrix.ids() {
            while next.is_some_and(|next| next < id) {
                next = stored.next()?.map(|row| row.get(0)).transpose()?;
            }
            if next != Some(id) {
                gone.push(id);
            }
        }
        for id in gone {
            self.matrix.remove(id);
        }
        Ok(())
    }

    /// Adds a row of id, key, expiry and numbers.
    fn push(
        &mut self,
        connection: &Connection,
        row: &rusqlite::Row<'_>,
        numbers: &mut Vec<f32>,
    ) -> Result<(), Unreadable> {
        let id: i64 = row.get(0)?;
        let data = row.get_ref(3)?.as_blob().map_err(|_| malformed("vector"))?;
        decode_into(data, self.dimensions, numbers)?;
        if id <= self.last {
            return Err(malformed("vector").into());
        }
        self.last = id;
        self.matrix.push(id, numbers, row.get(2)?);
        if self.matrix.has_columns() {
            let key = row.get_ref(1)?.as_str().map_err(|_| malformed("key"))?;
            let mut statement = connection.prepare_cached(Described::OF_KEY)?;
            let described =
                statement.query_row(params![self.space, key], |row| Ok(Described::read(row))).optional()?;
            if let Some(described) = described.transpose()? {
                self.matrix.describe(id, &described.view());
            }
        }
        Ok(())
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
