//! Rows that a note may mean, and the words of all rows of a space.

use std::collections::{BTreeMap, HashMap};

use memory_core::Timestamp;

use super::words::{Word, folded, grams, labels, names, words};
use crate::bucket::Bucket;
use crate::note::Trust;

/// Characters of a description that are compared.
pub(super) const DESCRIPTION: usize = 800;
/// Weight of a word of the title in BM25, against one of the description.
const TITLE: f64 = 2.0;

/// A row of shared state, as the resolver sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its id, unique in its bucket.
    pub id: String,
    /// The bucket.
    pub bucket: Bucket,
    /// What it says in short: an issue's title, a constraint's text, a decision's statement.
    pub title: String,
    /// The rest: a description, a rationale. May be empty.
    pub description: String,
    /// When it was opened; after a reopening, the latest.
    pub opened_at: Timestamp,
    /// Whether it is open or active.
    pub live: bool,
    /// The agent that created it.
    pub creator: String,
    /// The agent that owns it, if someone does.
    pub owner: Option<String>,
    /// How far its creator was trusted.
    pub trust: Trust,
    /// Other names that someone with authority confirmed. A name that a note or a model merely mentioned is none.
    pub aliases: Vec<String>,
}

/// A row with its words.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) row: Row,
    pub(super) title: Vec<Word>,
    /// Of the title, each once, sorted.
    pub(super) title_set: Vec<Word>,
    /// Of title and description, each once, sorted.
    pub(super) all: Vec<u64>,
    /// Of the description, each once, sorted.
    pub(super) description: Vec<u64>,
    /// Weighted occurrences in title and description, sorted by word.
    pub(super) counts: Vec<(u64, f64)>,
    pub(super) length: f64,
    pub(super) title_names: Vec<String>,
    pub(super) description_names: Vec<String>,
    pub(super) labels: Vec<(u64, u64)>,
    pub(super) grams: Vec<u64>,
    pub(super) folded_title: String,
}

impl Prepared {
    fn new(row: Row) -> Self {
        let short: String = row.description.chars().take(DESCRIPTION).collect();
        let (title, body) = (words(&row.title), words(&short));
        let folded_title = folded(&row.title);
        let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
        for word in &title {
            *counts.entry(word.id).or_default() += TITLE;
        }
        for word in &body {
            *counts.entry(word.id).or_default() += 1.0;
        }
        Self {
            title_set: set(&title),
            all: counts.keys().copied().collect(),
            description: set(&body).into_iter().map(|word| word.id).collect(),
            length: counts.values().sum(),
            counts: counts.into_iter().collect(),
            title_names: names(&row.title),
            description_names: names(&short),
            labels: labels(&folded_title),
            grams: grams(&folded_title),
            folded_title,
            title,
            row,
        }
    }
}

impl Extend<Row> for Space {
    fn extend<T: IntoIterator<Item = Row>>(&mut self, rows: T) {
        for row in rows {
            self.insert(row);
        }
    }
}

/// Each word once, sorted.
pub(super) fn set(words: &[Word]) -> Vec<Word> {
    let mut set = words.to_vec();
    set.sort_unstable();
    set.dedup_by_key(|word| word.id);
    set
}

/// The rows of one shared space, with how often each word occurs in them.
///
/// It should hold every live row, and ended ones too, at least the later ones: they tell common words from rare ones,
/// and a note that fits an ended row better than any live one.
#[derive(Clone, Debug, Default)]
pub struct Space {
    rows: BTreeMap<(Bucket, String), Prepared>,
    occurrences: HashMap<u64, u32>,
}

impl Space {
    /// An empty space.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row, or replaces the one with its bucket and id.
    pub fn insert(&mut self, row: Row) {
        self.remove(row.bucket, &row.id);
        let prepared = Prepared::new(row);
        for word in &prepared.all {
            *self.occurrences.entry(*word).or_default() += 1;
        }
        self.rows.insert((prepared.row.bucket, prepared.row.id.clone()), prepared);
    }

    /// Takes a row out, words and all. `None` if there is none.
    pub fn remove(&mut self, bucket: Bucket, id: &str) -> Option<Row> {
        let prepared = self.rows.remove(&(bucket, id.to_owned()))?;
        for word in &prepared.all {
            if let Some(count) = self.occurrences.get_mut(word) {
                *count = count.saturating_sub(1);
            }
        }
        Some(prepared.row)
    }

    /// A row.
    #[must_use]
    pub fn get(&self, bucket: Bucket, id: &str) -> Option<&Row> {
        self.rows.get(&(bucket, id.to_owned())).map(|prepared| &prepared.row)
    }

    /// Says whether a row is live, without reading its words again. `false` if there is no such row.
    pub fn set_live(&mut self, bucket: Bucket, id: &str, live: bool) -> bool {
        self.rows.get_mut(&(bucket, id.to_owned())).map(|prepared| prepared.row.live = live).is_some()
    }

    /// The live rows: bucket, id, title, time of opening.
    pub fn live(&self) -> impl Iterator<Item = (Bucket, &str, &str, Timestamp)> {
        let rows = self.rows.values().map(|prepared| &prepared.row).filter(|row| row.live);
        rows.map(|row| (row.bucket, row.id.as_str(), row.title.as_str(), row.opened_at))
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows of a bucket, by id.
    pub fn rows(&self, bucket: Bucket) -> impl Iterator<Item = &Row> {
        self.prepared(bucket).map(|prepared| &prepared.row)
    }

    pub(super) fn prepared(&self, bucket: Bucket) -> impl Iterator<Item = &Prepared> {
        self.rows
            .range((bucket, String::new())..)
            .take_while(move |((of, _), _)| *of == bucket)
            .map(|(_, prepared)| prepared)
    }

    /// In how many rows a word occurs.
    pub(super) fn occurrences(&self, word: u64) -> u32 {
        self.occurrences.get(&word).copied().unwrap_or_default()
    }
}
