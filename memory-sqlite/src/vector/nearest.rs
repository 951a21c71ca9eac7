//! The nearest entries to a query, exactly scored, in one snapshot.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use memory_core::embed::cosine;
use memory_core::scope::upper_bound;
use memory_core::{EmbeddingModel, Result, SearchQuery, Timestamp};
use rusqlite::{Connection, Row, params};

use super::matrix::Selection;
use super::numbers::{decode, decode_into};
use super::scope_matrix::ScopeMatrix;
use crate::error::{Unreadable, malformed};
use crate::file::column::unsigned;
use crate::kv::described::{Described, Screen};

/// The query.
#[derive(Debug)]
pub(crate) struct QueryVector {
    pub(crate) model: EmbeddingModel,
    pub(crate) numbers: Vec<f32>,
}

/// An entry with its similarity.
#[derive(Clone, Debug)]
pub(crate) struct Near {
    pub(crate) key: String,
    /// The version of the entry that the vector belongs to.
    pub(crate) version: u64,
    pub(crate) cosine: f64,
}

/// The order of the nearest. Ties break by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By score: every vector that points away is equally far.
    Score,
    Cosine,
}

impl Order {
    fn value(self, cosine: f64) -> f64 {
        match self {
            Self::Score => cosine.clamp(0.0, 1.0),
            Self::Cosine => cosine,
        }
    }

    fn best_first(self, a: &Near, b: &Near) -> Ordering {
        self.value(b.cosine).total_cmp(&self.value(a.cosine)).then_with(|| a.key.cmp(&b.key))
    }
}

/// A nearest-neighbour query over the vectors of one model in one scope.
pub(crate) struct Ask<'a> {
    /// A snapshot.
    pub(crate) connection: &'a Connection,
    pub(crate) space: i64,
    /// The model's number; 0 if the file has no vector of it.
    pub(crate) model: i64,
    pub(crate) vector: &'a QueryVector,
    pub(crate) query: &'a SearchQuery,
    pub(crate) now: Timestamp,
    pub(crate) limit: usize,
    pub(crate) order: Order,
    /// Whether the caller has given up.
    pub(crate) cancelled: &'a dyn Fn() -> bool,
}

/// The nearest according to a matrix, or that the matrix does not match the snapshot.
pub(crate) enum Looked {
    Found(Vec<Near>),
    Stale,
}

impl Ask<'_> {
    /// The nearest matching entries, best first, from an up-to-date matrix that has the columns of the filter.
    pub(crate) fn by_matrix(&self, held: &ScopeMatrix) -> Result<Looked, Unreadable> {
        let selection = self.selection(held)?;
        let now = self.now.as_millis();
        let shortlist =
            held.matrix.shortlist(&self.vector.numbers, self.limit, now, selection.as_ref(), self.cancelled);
        let everything = shortlist.len() < self.limit;
        // In file order.
        let mut ids: Vec<i64> = shortlist.iter().map(|near| near.id).collect();
        ids.sort_unstable();
        let mut found = Vec::with_capacity(ids.len());
        let mut statement = self.connection.prepare_cached(
            "SELECT id, key, version, data FROM vector WHERE id = ?1 AND space = ?2 AND model = ?3",
        )?;
        let mut numbers = Vec::new();
        for id in ids {
            let mut rows = statement.query(params![id, self.space, self.model])?;
            let Some(row) = rows.next()? else { return Ok(Looked::Stale) };
            found.push(self.near(row, &mut numbers)?);
        }
        found.sort_by(|a, b| self.order.best_first(a, b));
        found.truncate(self.limit);
        let positive = found.partition_point(|near| near.cosine > 0.0);
        if self.order == Order::Score
            && positive < self.limit
            && !everything
            && self.query.threshold.is_none_or(|threshold| threshold <= 0.0)
        {
            found.truncate(positive);
            self.complete(&mut found)?;
        }
        Ok(Looked::Found(found))
    }

    /// All vectors that point away have score 0, so they are ordered by key regardless of direction.
    fn complete(&self, found: &mut Vec<Near>) -> Result<(), Unreadable> {
        let mut screen = self.screen();
        let mut statement = self.connection.prepare_cached(
            "SELECT id, key, version, data, expires_at FROM vector \
             WHERE space = ?1 AND key >= ?2 AND model = ?3 ORDER BY key",
        )?;
        let mut rows = statement.query(params![self.space, self.query.prefix, self.model])?;
        let mut numbers = Vec::new();
        while let Some(row) = rows.next()? {
            if found.len() >= self.limit {
                break;
            }
            if !self.is_live(row.get(4)?) {
                continue;
            }
            let near = self.near(row, &mut numbers)?;
            if !near.key.starts_with(&self.query.prefix) {
                break;
            }
            if near.cosine <= 0.0 && screen.passes(&near.key)? {
                found.push(near);
            }
        }
        Ok(())
    }

    /// The nearest matching entries, best first, by reading every vector.
    pub(crate) fn by_scan(&self) -> Result<Vec<Near>, Unreadable> {
        let mut screen = self.screen();
        let mut statement = self.connection.prepare_cached(
            "SELECT id, key, version, data, expires_at FROM vector WHERE space = ?1 AND model = ?2",
        )?;
        let mut rows = statement.query(params![self.space, self.model])?;
        let mut best: BinaryHeap<Ranked> = BinaryHeap::new();
        let mut numbers = Vec::new();
        while let Some(row) = rows.next()? {
            let key = row.get_ref(1)?.as_str().map_err(|_| malformed("key"))?;
            if !self.is_live(row.get(4)?) || !key.starts_with(&self.query.prefix) {
                continue;
            }
            let ranked = Ranked { near: self.near(row, &mut numbers)?, order: self.order };
            let full = best.len() >= self.limit;
            if full && best.peek().is_none_or(|worst| ranked >= *worst) || !screen.passes(&ranked.near.key)? {
                continue;
            }
            if full {
                best.pop();
            }
            best.push(ranked);
        }
        Ok(best.into_sorted_vec().into_iter().map(|ranked| ranked.near).collect())
    }

    /// The vector of a key, if it has one of the model.
    pub(crate) fn of_key(&self, key: &str) -> Result<Option<Near>, Unreadable> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, key, version, data FROM vector WHERE space = ?1 AND key = ?2 AND model = ?3",
        )?;
        let mut rows = statement.query(params![self.space, key, self.model])?;
        rows.next()?.map(|row| self.near(row, &mut Vec::new())).transpose()
    }

    /// Reads a row of id, key, version and numbers.
    fn near(&self, row: &Row<'_>, numbers: &mut Vec<f32>) -> Result<Near, Unreadable> {
        let data = row.get_ref(3)?.as_blob().map_err(|_| malformed("vector"))?;
        decode_into(data, self.vector.model.dimensions, numbers)?;
        Ok(Near {
            key: row.get(1)?,
            version: unsigned(row.get(2)?, "version")?,
            cosine: cosine(numbers, &self.vector.numbers),
        })
    }

    fn is_live(&self, expires_at: Option<i64>) -> bool {
        expires_at.is_none_or(|at| at > self.now.as_millis())
    }

    fn screen(&self) -> Screen<'_> {
        Screen { connection: self.connection, space: self.space, query: self.query }
    }

    /// The rows that match prefix and filter; `None` for all.
    fn selection(&self, held: &ScopeMatrix) -> Result<Option<Selection>, Unreadable> {
        let mut selection = match self.query.prefix.as_str() {
            "" => None,
            prefix => Some(self.with_prefix(held, prefix)?),
        };
        if let Some(filter) = &self.query.filter {
            let filtered = match held.matrix.select(filter) {
                Some(filtered) => filtered,
                // The filter names more fields than there are columns.
                None => {
                    let mut ids = Vec::new();
                    each_described(self.connection, self.space, self.model, |id, described| {
                        if filter.matches(described.view()) {
                            ids.push(id);
                        }
                    })?;
                    ids.sort_unstable();
                    held.matrix.selection_of(ids.into_iter())
                }
            };
            match &mut selection {
                Some(selection) => selection.and(&filtered),
                None => selection = Some(filtered),
            }
        }
        Ok(selection)
    }

    fn with_prefix(&self, held: &ScopeMatrix, prefix: &str) -> Result<Selection, Unreadable> {
        let (sql, upper) = match upper_bound(prefix) {
            Some(upper) => {
                ("SELECT id FROM vector WHERE space = ?1 AND key >= ?2 AND key < ?4 AND model = ?3", upper)
            }
            None => (
                "SELECT id FROM vector WHERE space = ?1 AND key >= ?2 AND model = ?3 AND ?4 = ''",
                String::new(),
            ),
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut ids = statement
            .query_map(params![self.space, prefix, self.model, upper], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<i64>>>()?;
        ids.sort_unstable();
        Ok(held.matrix.selection_of(ids.into_iter()))
    }
}

/// The filterable fields of every entry that has a vector of the model, with the vector's id.
pub(super) fn each_described(
    connection: &Connection,
    space: i64,
    model: i64,
    mut each: impl FnMut(i64, &Described),
) -> Result<(), Unreadable> {
    let mut statement = connection.prepare_cached(Described::OF_VECTORS)?;
    let mut rows = statement.query(params![space, model])?;
    while let Some(row) = rows.next()? {
        each(row.get(5)?, &Described::read(row)?);
    }
    Ok(())
}

/// The model's vector of an entry's current version.
pub(crate) fn numbers(
    connection: &Connection,
    space: i64,
    key: &str,
    model: i64,
) -> Result<Option<Vec<f32>>, Unreadable> {
    let mut statement = connection.prepare_cached(
        "SELECT v.data FROM vector v JOIN entry e ON e.space = v.space AND e.key = v.key AND e.version = v.version \
         WHERE v.space = ?1 AND v.key = ?2 AND v.model = ?3",
    )?;
    let mut rows = statement.query(params![space, key, model])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let data = row.get_ref(0)?.as_blob().map_err(|_| malformed("vector"))?;
    Ok(Some(decode(data, data.len() / 4)?))
}

/// Ordered worst last, so that a heap has the worst on top.
struct Ranked {
    near: Near,
    order: Order,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.best_first(&self.near, &other.near)
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}
