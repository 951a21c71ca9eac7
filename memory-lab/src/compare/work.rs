//! What every product is given to do: the same keys, values, vectors and questions in every run.

use std::path::Path;
use std::sync::Arc;

use memory_core::Result;
use serde::Serialize;

use crate::bench::search::vectors::Vectors;
use crate::bench::workload::{Random, value};
use crate::stores::broken;

pub(super) const DIMENSIONS: usize = 256;
/// One in so many vectors passes a search's filter.
pub(super) const GROUPS: usize = 10;
pub(super) const TOP: usize = 10;
/// Searches of each kind.
const SEARCHES: usize = 200;

/// A search by vector: of a query within a group.
#[derive(Serialize)]
pub(super) struct Near {
    pub(super) query: usize,
    pub(super) group: usize,
    /// What an exhaustive search finds.
    pub(super) nearest: Vec<usize>,
}

/// A search by words, and the entry that it is about: its number, and a word that many have.
#[derive(Serialize)]
pub(super) struct Words {
    pub(super) text: String,
    pub(super) key: String,
}

#[derive(Serialize)]
pub(super) struct Work {
    pub(super) keys: Vec<String>,
    /// JSON of 200 bytes each.
    pub(super) values: Vec<String>,
    /// Which keys are read, in this order.
    pub(super) gets: Vec<usize>,
    pub(super) near: Vec<Near>,
    pub(super) words: Vec<Words>,
    dimensions: usize,
    groups: usize,
    #[serde(skip)]
    pub(super) stored: Arc<Vectors>,
    #[serde(skip)]
    pub(super) asked: Arc<Vectors>,
}

impl Work {
    pub(super) fn new(count: usize) -> Self {
        let mut random = Random::new(1);
        let (stored, asked) = Vectors::clustered(count, SEARCHES, DIMENSIONS, 1);
        let keys: Vec<String> = (0..count).map(|at| format!("note/{at:06}")).collect();
        let near = (0..SEARCHES)
            .map(|query| {
                let group = random.below(GROUPS);
                Near { query, group, nearest: nearest(&stored, asked.row(query), group) }
            })
            .collect();
        let words = (0..SEARCHES)
            .map(|_| {
                let at = random.below(count);
                Words { text: format!("{} ka", 10_000 + at), key: format!("note/{at:06}") }
            })
            .collect();
        Self {
            values: (0..count as u64).map(value).collect(),
            gets: (0..count).map(|_| random.below(count)).collect(),
            keys,
            near,
            words,
            dimensions: DIMENSIONS,
            groups: GROUPS,
            stored: Arc::new(stored),
            asked: Arc::new(asked),
        }
    }

    /// Writes what `theirs.py` reads.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|error| broken("write the work", error.into()))?;
        let files =
            [("work.json", text), ("vectors.f32", bytes(&self.stored)), ("queries.f32", bytes(&self.asked))];
        for (name, content) in files {
            std::fs::write(folder.join(name), content).map_err(|error| broken("write the work", error))?;
        }
        Ok(())
    }
}

fn bytes(vectors: &Vectors) -> Vec<u8> {
    vectors.numbers().iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The nearest of a group, best first, by looking at each.
fn nearest(stored: &Vectors, query: &[f32], group: usize) -> Vec<usize> {
    let similarity =
        |row: &[f32]| row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let mut all: Vec<(f64, usize)> = stored
        .rows()
        .enumerate()
        .filter(|(at, _)| at % GROUPS == group)
        .map(|(at, row)| (similarity(row), at))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().take(TOP).map(|(_, at)| at).collect()
}
