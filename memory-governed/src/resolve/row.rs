//! Rows that a note may mean, and the words of all rows of a space.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use memory_core::Timestamp;

use super::words::{Word, folded, grams, hash, labels, names, neighbours, set, title_acts, words};
use crate::bucket::Bucket;
use crate::note::Trust;

/// Characters of a description that are compared.
pub(super) const DESCRIPTION: usize = 800;
/// Characters of a description that tell how alike it is to a note, where nothing is bound.
const WHOLE: usize = 2_000;
/// Weight of a word of the title in BM25, against one of the description.
const TITLE: f64 = 2.0;

/// A row of shared state, as the resolver sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its id, unique in its bucket.
    pub id: String,
    /// The bucket.
    pub bucket: Bucket,
    /// Its content in short: an issue's title, a constraint's text, a decision's statement.
    pub title: String,
    /// The rest: a description, a rationale. May be empty.
    pub description: String,
    /// When it was opened; after a reopening, the latest.
    pub opened_at: Timestamp,
    /// When it ended, if it has and that is known.
    pub ended_at: Option<Timestamp>,
    /// Whether it is open or active.
    pub live: bool,
    /// The agent that created it.
    pub creator: String,
    /// The agent that owns it, if someone does.
    pub owner: Option<String>,
    /// How far its creator was trusted.
    pub trust: Trust,
    /// Other names, confirmed by someone with authority. A name that a note or a model merely mentioned does not count.
    pub aliases: Vec<String>,
}

/// A row with its words.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) row: Row,
    pub(super) title: Vec<Word>,
    /// The title's, each once, sorted.
    pub(super) title_set: Vec<Word>,
    /// Neighbouring words of the title.
    pub(super) title_pairs: BTreeSet<(u64, u64)>,
    /// Those of title and description, each once, sorted.
    pub(super) all: Vec<u64>,
    /// Those of the description, each once, sorted.
    pub(super) description: Vec<u64>,
    /// Of the title and more of the description, each once, sorted.
    pub(super) whole: Vec<u64>,
    /// Weighted occurrences in title and description, sorted by word.
    pub(super) counts: Vec<(u64, f64)>,
    pub(super) length: f64,
    pub(super) title_names: Vec<String>,
    pub(super) description_names: Vec<String>,
    pub(super) labels: Vec<(u64, u64)>,
    pub(super) grams: Vec<u64>,
    /// What the title says should be done.
    pub(super) acts: u16,
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
        let rest: String = row.description.chars().take(WHOLE).skip(DESCRIPTION).collect();
        let rest = words(&rest).into_iter().map(|word| word.id);
        let whole: BTreeSet<u64> = counts.keys().copied().chain(rest).collect();
        Self {
            whole: whole.into_iter().collect(),
            title_set: set(&title),
            title_pairs: neighbours(&title).collect(),
            all: counts.keys().copied().collect(),
            description: set(&body).into_iter().map(|word| word.id).collect(),
            length: counts.values().sum(),
            counts: counts.into_iter().collect(),
            title_names: names(&row.title),
            description_names: names(&short),
            labels: labels(&folded_title),
            grams: grams(&folded_title),
            acts: title_acts(&row.title),
            folded_title,
            title,
            row,
        }
    }

    /// Names in title and description, each once.
    pub(super) fn names(&self) -> BTreeSet<&String> {
        self.title_names.iter().chain(&self.description_names).collect()
    }
}

impl Extend<Row> for Space {
    fn extend<T: IntoIterator<Item = Row>>(&mut self, rows: T) {
        for row in rows {
            self.insert(row);
        }
    }
}

/// The rows of one shared space, with how often each word occurs in them.
///
/// It should hold every live row, and at least the more recent ended ones: they distinguish common words from rare
/// ones, and expose a note that fits an ended row better than any live one.
#[derive(Clone, Debug, Default)]
pub struct Space {
    rows: BTreeMap<(Bucket, String), Prepared>,
    /// In how many rows each word, pair of words in a title, and name occurs.
    occurrences: HashMap<u64, u32>,
    pairs: HashMap<(u64, u64), u32>,
    names: HashMap<u64, u32>,
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
        for pair in &prepared.title_pairs {
            *self.pairs.entry(*pair).or_default() += 1;
        }
        for name in prepared.names() {
            *self.names.entry(hash(name)).or_default() += 1;
        }
        self.rows.insert((prepared.row.bucket, prepared.row.id.clone()), prepared);
    }

    /// Takes a row out, words and all. `None` if there is none.
    pub fn remove(&mut self, bucket: Bucket, id: &str) -> Option<Row> {
        let prepared = self.rows.remove(&(bucket, id.to_owned()))?;
        for word in &prepared.all {
            forget(&mut self.occurrences, word);
        }
        for pair in &prepared.title_pairs {
            forget(&mut self.pairs, pair);
        }
        for name in prepared.names() {
            forget(&mut self.names, &hash(name));
        }
        Some(prepared.row)
    }

    /// A row.
    #[must_use]
    pub fn get(&self, bucket: Bucket, id: &str) -> Option<&Row> {
        self.rows.get(&(bucket, id.to_owned())).map(|prepared| &prepared.row)
    }

    /// Sets whether a row is live, without rereading its words. Returns `false` if there is no such row.
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

    /// In how many titles two words are adjacent.
    pub(super) fn pair_occurrences(&self, pair: &(u64, u64)) -> u32 {
        self.pairs.get(pair).copied().unwrap_or_default()
    }

    /// In how many rows a name occurs.
    pub(super) fn name_occurrences(&self, name: &str) -> u32 {
        self.names.get(&hash(name)).copied().unwrap_or_default()
    }
}

/// One occurrence less.
fn forget<K: Eq + std::hash::Hash>(occurrences: &mut HashMap<K, u32>, of: &K) {
    if let Some(count) = occurrences.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            occurrences.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_row_added_to_the_counts_goes_with_it() {
        let row = |id: &str| Row {
            id: id.to_owned(),
            bucket: Bucket::Issues,
            title: "Parser drops commas in load_rows".to_owned(),
            description: "See load_rows again".to_owned(),
            opened_at: Timestamp::from_millis_clamped(0),
            ended_at: None,
            live: true,
            creator: String::new(),
            owner: None,
            trust: Trust::Agent,
            aliases: Vec::new(),
        };
        let mut space = Space::new();
        space.extend([row("one"), row("two"), row("two")]);
        let pair = neighbours(&words("parser drops")).next().unwrap();
        assert_eq!((space.pair_occurrences(&pair), space.name_occurrences("load_rows")), (2, 2));
        space.remove(Bucket::Issues, "one");
        space.remove(Bucket::Issues, "two");
        assert_eq!((space.pair_occurrences(&pair), space.name_occurrences("load_rows")), (0, 0));
        assert!(space.occurrences.is_empty() && space.pairs.is_empty() && space.names.is_empty());
    }
}
