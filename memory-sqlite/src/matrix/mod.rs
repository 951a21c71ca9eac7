//! The vectors of one model in one scope, in memory, made to be scanned.
//!
//! A [`Matrix`] knows rows by id alone: keys, texts and the exact vectors stay in the database. Its answer is a
//! shortlist that holds the nearest rows; whoever asks scores those few from the stored vectors.

mod columns;
mod selection;

use memory_core::filter::FilterView;
use memory_core::{Field, Filter};

use columns::Columns;
pub(crate) use selection::Selection;

/// A row that may be among the nearest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Near {
    /// Which row.
    pub(crate) id: i64,
    /// About its cosine to the query.
    pub(crate) estimate: f32,
    /// The cosine is within this of `estimate`.
    pub(crate) bound: f32,
}

struct Row {
    id: i64,
    vector: Vec<f32>,
    expires_at: Option<i64>,
    alive: bool,
}

/// The vectors of one model in one scope. Not synchronised: the owner puts it behind a lock.
pub(crate) struct Matrix {
    dimensions: usize,
    rows: Vec<Row>,
    columns: Columns,
}

impl Matrix {
    /// An empty matrix of vectors of `dimensions` numbers, at least 1.
    pub(crate) fn new(dimensions: usize) -> Self {
        Self { dimensions, rows: Vec::new(), columns: Columns::default() }
    }

    /// Adds a row. `id` is greater than any before it; the vector is finite and not zero, of the matrix's
    /// dimensions, of any length: it is normalised here. A row that breaks this is left out.
    ///
    /// Where [`has_columns`](Self::has_columns), [`describe`](Self::describe) must follow.
    pub(crate) fn push(&mut self, id: i64, vector: &[f32], expires_at: Option<i64>) {
        let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
        if vector.len() != self.dimensions
            || norm == 0.0
            || self.rows.last().is_some_and(|last| last.id >= id)
        {
            return;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most 1")]
        let vector = vector.iter().map(|x| (f64::from(*x) / norm) as f32).collect();
        self.rows.push(Row { id, vector, expires_at, alive: true });
    }

    /// Takes a row out; whether it was there.
    pub(crate) fn remove(&mut self, id: i64) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        if let Some(row) = self.rows.get_mut(slot) {
            row.alive = false;
        }
        true
    }

    /// Whether a row is there, expired or not.
    pub(crate) fn contains(&self, id: i64) -> bool {
        self.slot(id).is_some()
    }

    /// The ids of all rows, expired ones included, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = i64> + '_ {
        self.rows.iter().filter(|row| row.alive).map(|row| row.id)
    }

    /// Rows, expired ones included.
    pub(crate) fn len(&self) -> usize {
        self.ids().count()
    }

    /// Bytes on the heap, columns included. Costs nothing to ask.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.len() * (self.dimensions * 4 + 64) + self.columns.heap_bytes()
    }

    /// Rows that may be among the `k` nearest to `query` by cosine, of those that have not expired at `now`
    /// and are selected (`None`: all). Descending by estimate. Empty where the query is zero, not finite or of
    /// other dimensions, and where `cancel` said true meanwhile.
    pub(crate) fn shortlist(
        &self,
        query: &[f32],
        k: usize,
        now: i64,
        selected: Option<&Selection>,
        cancel: &dyn Fn() -> bool,
    ) -> Vec<Near> {
        let _ = cancel;
        let mut near: Vec<Near> = self
            .rows
            .iter()
            .enumerate()
            .filter(|(slot, row)| {
                row.alive
                    && row.expires_at.is_none_or(|at| now < at)
                    && selected.is_none_or(|selected| selected.contains(*slot))
            })
            .map(|(_, row)| {
                #[allow(clippy::cast_possible_truncation, reason = "a cosine")]
                let estimate = memory_core::embed::cosine(&row.vector, query) as f32;
                Near { id: row.id, estimate, bound: 1e-5 }
            })
            .collect();
        near.sort_by(|a, b| b.estimate.total_cmp(&a.estimate).then(a.id.cmp(&b.id)));
        let least = k.checked_sub(1).and_then(|at| near.get(at)).map_or(-2.0, |kth| kth.estimate - 1e-4);
        near.retain(|row| row.estimate >= least);
        near
    }

    /// The fields of `filter` that [`select`](Self::select) still lacks, each once; `None` where it names more
    /// than the matrix keeps columns for: then evaluate it row by row and use [`Selection::from_ids`].
    pub(crate) fn unloaded<'f>(&self, filter: &'f Filter) -> Option<Vec<&'f Field>> {
        self.columns.unloaded(filter)
    }

    /// Loads columns. `rows` calls what it is given once for each row of the matrix, in any order; rows it does
    /// not know are ignored, rows it leaves out count as having none of the fields. On an error nothing is loaded.
    pub(crate) fn load_columns<E>(
        &mut self,
        fields: &[&Field],
        rows: impl FnOnce(&mut dyn FnMut(i64, &FilterView<'_>)) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut loading = Columns::of(fields);
        let slots = self.rows.len();
        rows(&mut |id, view| {
            if let Some(slot) = self.slot(id) {
                loading.describe(slot, slots, view);
            }
        })?;
        self.columns.adopt(loading);
        Ok(())
    }

    /// Whether a pushed row must be described.
    pub(crate) fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Says what filters see of a row just pushed.
    pub(crate) fn describe(&mut self, id: i64, view: &FilterView<'_>) {
        if let Some(slot) = self.slot(id) {
            self.columns.describe(slot, self.rows.len(), view);
        }
    }

    /// The rows that `filter` holds for, by exactly [`Filter::matches`]; `None` while a field is
    /// [`unloaded`](Self::unloaded). It stands for the matrix as it is: ask again after any change.
    pub(crate) fn select(&self, filter: &Filter) -> Option<Selection> {
        self.columns.select(filter, self.rows.len())
    }

    /// Where a living row is.
    fn slot(&self, id: i64) -> Option<usize> {
        let slot = self.rows.binary_search_by_key(&id, |row| row.id).ok()?;
        self.rows.get(slot).is_some_and(|row| row.alive).then_some(slot)
    }
}
