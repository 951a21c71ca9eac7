//! An in-memory inverted index of one scope.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::mem::size_of;

use super::best::{Best, Scored};
use super::bm25::{B, Bm25, K1};
use super::query::{LexicalHit, query_terms_with};
use super::tokenizer::Analyzer;

/// An inverted index over the documents of one scope. Scores like [`rank`](super::rank), but without reading the
/// documents.
///
/// `K` identifies a document and breaks ties, so results do not depend on insertion order. It is stored twice, so use
/// something cheap to clone, such as `Arc<str>`; look-ups then take a `&str`.
///
/// # Behavior
/// - Statistics are those of the live documents after any sequence of operations. A removed document leaves no trace in
///   them, though its postings stay until [compaction](Self::compact), which runs automatically once they exceed a
///   third of all.
/// - The index has no clock: a document is live until [`expire`](Self::expire) is called with its expiry. Call it
///   before a search or before reading statistics; it is free if nothing has expired.
/// - It stores no text.
///
/// ```
/// use memory_core::lexical::LexicalIndex;
///
/// let mut index = LexicalIndex::<String>::new();
/// index.insert("k1".into(), "Ann moved to Lisbon in May", None);
/// index.insert("k2".into(), "Bob moved to Oslo", Some(1_000));
/// index.expire(1_000);
/// let hits = index.search("who moved?", |_| true, 10);
/// assert_eq!(hits.len(), 1);
/// assert_eq!(hits[0].key, "k1");
/// ```
#[derive(Debug)]
pub struct LexicalIndex<K> {
    /// Each term's position in `postings`.
    terms: HashMap<Box<str>, u32>,
    postings: Vec<Postings>,
    slots: Vec<Slot<K>>,
    by_key: HashMap<K, u32>,
    /// `(expires_at, slot)` of the live documents that expire.
    expiries: BTreeSet<(i64, u32)>,
    /// Tokens of the live documents.
    tokens: u64,
    /// Bytes of the keys of `terms`, and of the term lists of `slots`.
    term_bytes: usize,
    list_bytes: usize,
    analyzer: Analyzer,
    scratch: Vec<u32>,
}

#[derive(Debug, Default)]
struct Postings {
    /// Live documents that contain the term.
    documents: u32,
    /// In order of slot; those of dead slots remain until compaction.
    list: Vec<Posting>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Posting {
    pub(super) slot: u32,
    pub(super) frequency: u16,
}

#[derive(Debug)]
struct Slot<K> {
    /// `None` once the document is gone.
    document: Option<Document<K>>,
    length: u32,
}

#[derive(Debug)]
struct Document<K> {
    key: K,
    expires_at: Option<i64>,
    /// Its distinct terms.
    terms: Box<[u32]>,
}

/// BM25 sums for a query.
struct Sums {
    bm25: Bm25,
    ceiling: f64,
    /// 0 if no term occurs.
    by_slot: Vec<f64>,
    /// The slots of documents that contain a term.
    touched: Vec<u32>,
}

/// Dead slots tolerated in an index of any size.
const SLACK: usize = 256;

impl<K> Default for LexicalIndex<K> {
    fn default() -> Self {
        Self {
            terms: HashMap::new(),
            postings: Vec::new(),
            slots: Vec::new(),
            by_key: HashMap::new(),
            expiries: BTreeSet::new(),
            tokens: 0,
            term_bytes: 0,
            list_bytes: 0,
            analyzer: Analyzer::new(),
            scratch: Vec::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> LexicalIndex<K> {
    /// An index without documents.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[cfg(test)]
    pub(super) fn with_analyzer(analyzer: Analyzer) -> Self {
        Self { analyzer, ..Self::default() }
    }

    /// Number of live documents (`N`).
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is no live document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Tokens in all live documents; divided by [`len`](Self::len), the mean length.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Live documents that contain `token`, as produced by [`Analyzer`].
    #[must_use]
    pub fn document_frequency(&self, token: &str) -> u32 {
        self.terms
            .get(token)
            .and_then(|&term| self.postings.get(place(term)))
            .map_or(0, |term| term.documents)
    }

    /// The live documents that contain `token`, with its frequency there and their length.
    pub(super) fn postings(&self, token: &str) -> impl Iterator<Item = (u32, u16, u32)> {
        let postings = self.terms.get(token).and_then(|&term| self.postings.get(place(term)));
        postings.into_iter().flat_map(|postings| &postings.list).filter_map(|posting| {
            let slot = self.slots.get(place(posting.slot))?;
            slot.document.is_some().then_some((posting.slot, posting.frequency, slot.length))
        })
    }

    /// The key of the live document in a slot.
    pub(super) fn key(&self, slot: u32) -> Option<&K> {
        Some(&self.slots.get(place(slot))?.document.as_ref()?.key)
    }

    /// The slot of a live document.
    pub(super) fn slot<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        self.by_key.get(key).copied()
    }

    /// Number of slots, including those of documents that are gone.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The live documents: slot, key, expiry and length.
    pub(super) fn documents(&self) -> impl Iterator<Item = (u32, &K, Option<i64>, u32)> {
        (0..).zip(&self.slots).filter_map(|(at, slot)| {
            let document = slot.document.as_ref()?;
            Some((at, &document.key, document.expires_at, slot.length))
        })
    }

    /// All terms in byte order, with their postings, including those of documents that are gone.
    pub(super) fn sorted_terms(&self) -> Vec<(&str, &[Posting])> {
        let postings = |term: &u32| self.postings.get(place(*term)).map(|postings| postings.list.as_slice());
        let mut terms: Vec<_> =
            self.terms.iter().filter_map(|(term, at)| Some((&**term, postings(at)?))).collect();
        terms.sort_unstable_by_key(|(term, _)| *term);
        terms
    }

    /// Whether `key` is a live document.
    #[must_use]
    pub fn contains<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.by_key.contains_key(key)
    }

    /// Adds a document, or replaces the one with that key. `expires_at` is in milliseconds of the caller's clock.
    pub fn insert(&mut self, key: K, text: &str, expires_at: Option<i64>) {
        self.remove(&key);
        let slot = number(self.slots.len());
        let Self { terms, postings, term_bytes, analyzer, scratch, .. } = self;
        scratch.clear();
        analyzer.analyze(text, &mut |token| {
            let term = match terms.get(token) {
                Some(&term) => term,
                None => {
                    let term = number(postings.len());
                    terms.insert(token.into(), term);
                    *term_bytes += token.len();
                    postings.push(Postings::default());
                    term
                }
            };
            scratch.push(term);
        });
        let length = number(scratch.len());
        scratch.sort_unstable();
        let mut distinct = Vec::with_capacity(scratch.len());
        for same in scratch.chunk_by(|a, b| a == b) {
            let Some(&term) = same.first() else { continue };
            distinct.push(term);
            if let Some(postings) = postings.get_mut(place(term)) {
                postings.documents += 1;
                let frequency = u16::try_from(same.len()).unwrap_or(u16::MAX);
                postings.list.push(Posting { slot, frequency });
            }
        }
        // One huge document must not keep its buffer allocated forever.
        scratch.shrink_to(4096);
        self.tokens += u64::from(length);
        self.list_bytes += distinct.len() * size_of::<u32>();
        if let Some(at) = expires_at {
            self.expiries.insert((at, slot));
        }
        self.by_key.insert(key.clone(), slot);
        let document = Document { key, expires_at, terms: distinct.into_boxed_slice() };
        self.slots.push(Slot { document: Some(document), length });
    }

    /// Changes only the document's expiry. Returns whether the document exists.
    pub fn set_expiry<Q: ?Sized + Eq + Hash>(&mut self, key: &Q, expires_at: Option<i64>) -> bool
    where
        K: Borrow<Q>,
    {
        let Some(&slot) = self.by_key.get(key) else { return false };
        let Some(document) = self.slots.get_mut(place(slot)).and_then(|slot| slot.document.as_mut()) else {
            return false;
        };
        if let Some(at) = document.expires_at {
            self.expiries.remove(&(at, slot));
        }
        document.expires_at = expires_at;
        if let Some(at) = expires_at {
            self.expiries.insert((at, slot));
        }
        true
    }

    /// Removes a document. Returns whether it existed.
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let Some(slot) = self.by_key.remove(key) else { return false };
        self.remove_slot(slot);
        self.compact_if_due();
        true
    }

    /// Removes the documents whose `expires_at` is at or before `now`. Returns how many.
    pub fn expire(&mut self, now: i64) -> usize {
        let mut expired = 0;
        while let Some(&(at, slot)) = self.expiries.first()
            && at <= now
        {
            if let Some(key) = self.remove_slot(slot) {
                self.by_key.remove(&key);
            }
            expired += 1;
        }
        if expired > 0 {
            self.compact_if_due();
        }
        expired
    }

    /// When the next document expires.
    #[must_use]
    pub fn next_expiry(&self) -> Option<i64> {
        self.expiries.first().map(|&(at, _)| at)
    }

    /// Removes all documents and releases their memory.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The best `limit` documents that contain a term of `query` and pass `filter`: exact, best first, ties by key.
    ///
    /// Statistics cover all live documents, whatever the filter. The filter is called only for documents that would be
    /// among the best so far.
    pub fn search(&self, query: &str, filter: impl FnMut(&K) -> bool, limit: usize) -> Vec<LexicalHit<K>> {
        self.search_with(&mut Analyzer::new(), K1, B, query, filter, limit)
    }

    pub(super) fn search_with(
        &self,
        analyzer: &mut Analyzer,
        k1: f64,
        b: f64,
        query: &str,
        filter: impl FnMut(&K) -> bool,
        limit: usize,
    ) -> Vec<LexicalHit<K>> {
        if limit == 0 || self.is_empty() {
            return Vec::new();
        }
        self.best(self.sums(analyzer, k1, b, query), filter, limit)
    }

    /// BM25 of every document that contains a term of the query.
    fn sums(&self, analyzer: &mut Analyzer, k1: f64, b: f64, query: &str) -> Sums {
        let bm25 = Bm25::with_parameters(number(self.len()), self.tokens, k1, b);
        let mut idf_sum = 0.0;
        let mut by_slot = vec![0.0_f64; self.slots.len()];
        let mut touched = Vec::new();
        // Term by term in the query's order, so that each sum is rounded as in `rank`.
        for term in query_terms_with(analyzer, query) {
            let idf = bm25.idf(self.document_frequency(&term));
            idf_sum += idf;
            for (slot, frequency, length) in self.postings(&term) {
                let Some(sum) = by_slot.get_mut(place(slot)) else { continue };
                if *sum == 0.0 {
                    touched.push(slot);
                }
                *sum += bm25.weight(idf, frequency, length);
            }
        }
        Sums { bm25, ceiling: bm25.ceiling(idf_sum), by_slot, touched }
    }

    /// The best documents that pass the filter.
    fn best(&self, sums: Sums, mut filter: impl FnMut(&K) -> bool, limit: usize) -> Vec<LexicalHit<K>> {
        let Sums { bm25, ceiling, by_slot, touched } = sums;
        let mut best = Best::new(limit);
        for slot in touched {
            if let (Some(sum), Some(key)) = (by_slot.get(place(slot)), self.key(slot)) {
                best.offer(key, *sum, |key| filter(key));
            }
        }
        let hits = best.into_sorted().into_iter();
        hits.map(|Scored { document, bm25: sum }| LexicalHit {
            key: document.clone(),
            bm25: sum,
            score: bm25.saturate(sum, ceiling),
        })
        .collect()
    }

    /// Estimated heap size in bytes, from capacities, without what the keys point to.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        // A hash table stores one byte per slot, and keeps an eighth of the slots free.
        let table = |capacity: usize, entry: usize| capacity * 8 / 7 * (entry + 1);
        let lists: usize = self.postings.iter().map(|term| term.list.capacity() * size_of::<Posting>()).sum();
        table(self.terms.capacity(), size_of::<(Box<str>, u32)>())
            + self.term_bytes
            + self.postings.capacity() * size_of::<Postings>()
            + lists
            + self.slots.capacity() * size_of::<Slot<K>>()
            + self.list_bytes
            + table(self.by_key.capacity(), size_of::<(K, u32)>())
            + self.expiries.len() * 2 * size_of::<(i64, u32)>()
            + self.scratch.capacity() * size_of::<u32>()
    }

    /// Frees what removed documents left behind, and spare capacity. Linear in the size of the index.
    pub fn compact(&mut self) {
        let mut moved = Vec::with_capacity(self.slots.len());
        let mut live = 0_u32;
        for slot in &self.slots {
            moved.push(slot.document.as_ref().map(|_| live));
            live += u32::from(slot.document.is_some());
        }
        let new_slot = |slot: u32| moved.get(place(slot)).copied().flatten();

        let mut terms_moved = Vec::with_capacity(self.postings.len());
        let mut terms_live = 0_u32;
        for term in &mut self.postings {
            let alive = term.documents > 0;
            terms_moved.push(alive.then_some(terms_live));
            terms_live += u32::from(alive);
            term.list.retain_mut(|posting| match new_slot(posting.slot) {
                Some(slot) => {
                    posting.slot = slot;
                    true
                }
                None => false,
            });
            term.list.shrink_to_fit();
        }
        self.postings.retain(|term| term.documents > 0);
        self.postings.shrink_to_fit();
        let new_term = |term: u32| terms_moved.get(place(term)).copied().flatten();

        let term_bytes = &mut self.term_bytes;
        self.terms.retain(|name, term| match new_term(*term) {
            Some(new) => {
                *term = new;
                true
            }
            None => {
                *term_bytes -= name.len();
                false
            }
        });
        self.terms.shrink_to_fit();
        self.slots.retain(|slot| slot.document.is_some());
        self.slots.shrink_to_fit();
        for document in self.slots.iter_mut().filter_map(|slot| slot.document.as_mut()) {
            for term in &mut document.terms {
                *term = new_term(*term).unwrap_or(*term);
            }
        }
        for slot in self.by_key.values_mut() {
            *slot = new_slot(*slot).unwrap_or(*slot);
        }
        self.by_key.shrink_to_fit();
        self.expiries = std::mem::take(&mut self.expiries)
            .into_iter()
            .filter_map(|(at, slot)| Some((at, new_slot(slot)?)))
            .collect();
    }

    /// Removes a document from the statistics, but not its postings. Returns its key, which the caller must remove from
    /// `by_key`.
    fn remove_slot(&mut self, slot: u32) -> Option<K> {
        let place_of_slot = self.slots.get_mut(place(slot))?;
        let document = place_of_slot.document.take()?;
        self.tokens -= u64::from(place_of_slot.length);
        for &term in &document.terms {
            if let Some(postings) = self.postings.get_mut(place(term)) {
                postings.documents -= 1;
            }
        }
        self.list_bytes -= document.terms.len() * size_of::<u32>();
        if let Some(at) = document.expires_at {
            self.expiries.remove(&(at, slot));
        }
        Some(document.key)
    }

    fn compact_if_due(&mut self) {
        let dead = self.slots.len() - self.by_key.len();
        if dead > SLACK && dead > self.by_key.len() / 2 {
            self.compact();
        }
    }
}

/// Documents and terms are numbered with 32 bits; memory runs out long before that.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn place(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
