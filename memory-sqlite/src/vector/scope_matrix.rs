//! The vectors of one model in one scope, as of a snapshot.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::feed::Item;
use super::load::{self, Loaded};
use super::matrix::Matrix;
use super::numbers::decode_into;
use crate::error::{Unreadable, malformed};
use crate::kv::described::Described;
use crate::kv::state::ScopeState;

/// Rows loaded between two measurements of the memory.
const MEASURE_EVERY: usize = 4_096;
/// With more new rows than this, a second thread helps to load them.
const TWO_THREADS_FROM: u64 = 8_192;

/// The vectors of one model in one scope, as of its change number `changes`.
pub(crate) struct ScopeMatrix {
    pub(super) space: i64,
    pub(super) model: i64,
    pub(super) dimensions: usize,
    changes: i64,
    /// False until the first comparison with the database.
    complete: bool,
    /// The greatest id ever pushed.
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
    pub(super) fn of(space: i64, model: i64, dimensions: usize) -> Self {
        let matrix = Matrix::new(dimensions);
        Self { space, model, dimensions, changes: 0, complete: false, last: 0, matrix }
    }

    /// Whether the matrix has the vectors of the snapshot in which the scope is `state`.
    pub(super) fn is_current(&self, state: ScopeState, model: i64, dimensions: usize) -> bool {
        self.complete
            && (self.space, self.model, self.dimensions) == (state.space, model, dimensions)
            && self.changes == state.changes
            && self.fits(state)
    }

    /// Whether there are at most as many rows as the scope has vectors of all models; if not, another process has
    /// reclaimed expired ones.
    fn fits(&self, state: ScopeState) -> bool {
        self.matrix.len() as u64 <= state.vectors
    }

    /// Applies queued changes; false if some are missing.
    pub(super) fn apply(
        &mut self,
        items: Vec<Item>,
        connection: &Connection,
        state: ScopeState,
    ) -> Result<bool, Unreadable> {
        if !self.complete {
            return Ok(false);
        }
        // Until all are applied: if reading fails, the next search compares.
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
                // Already gone if a later change of this snapshot removed it.
                if let Some(row) = rows.next()? {
                    self.push(connection, row, &mut numbers)?;
                }
            }
            self.changes = item.last;
        }
        self.complete = self.changes == state.changes && self.fits(state);
        Ok(self.complete)
    }

    /// Compares ids with the database and reads new rows. Returns false when the budget is used up.
    pub(super) fn compare(
        &mut self,
        connection: &Connection,
        state: ScopeState,
        budget: usize,
    ) -> Result<bool, Unreadable> {
        self.complete = false;
        // Ids only grow, in every process.
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

    /// Reads the rows above the last id. Returns false when the budget is used up.
    fn load(
        &mut self,
        connection: &Connection,
        state: ScopeState,
        budget: usize,
    ) -> Result<bool, Unreadable> {
        let mut fresh = connection.prepare_cached(load::ROWS)?;
        if !self.matrix.has_columns() && state.vectors > self.matrix.len() as u64 + TWO_THREADS_FROM {
            let (space, model, dimensions) = (self.space, self.model, self.dimensions);
            let wanted = load::Wanted { space, model, dimensions, after: self.last };
            match load::many(&mut fresh, wanted, &mut self.matrix, budget)? {
                Loaded::UpTo(last) => {
                    self.last = last;
                    return Ok(true);
                }
                Loaded::Full => return Ok(false),
                Loaded::NoThread => {}
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

    /// Whether these are all the scope's vectors, of any model: then their number shows that none of them is gone.
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
