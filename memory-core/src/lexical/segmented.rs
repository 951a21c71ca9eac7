//! The text index of one scope: segments, and what has changed since they were built.

use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use super::best::{Best, Scored};
use super::bm25::Bm25;
use super::index::LexicalIndex;
use super::query::query_terms;
use super::segment::{Document, Postings, Segment, Source};

/// Most documents of a segment.
const SEGMENT: usize = 4_096;
/// Once a segment has this many tokens, no further document is added.
const SEGMENT_TOKENS: u64 = 1 << 18;
/// A segment that has less than this fraction of either limit is merged with its neighbour.
const PART: usize = 4;

/// The documents of one scope, with the scores of [`rank`](super::rank). Keys are strings, and each document has a version.
///
/// Most of them are in immutable [`Segment`]s, which take a fraction of the memory of a [`LexicalIndex`] and can be
/// stored; the latest are in a [`LexicalIndex`]. A document that goes away is crossed out in its segment.
///
/// # Behavior
/// - Statistics cover the live documents of all segments.
/// - A document is live until [`expire`](Self::expire) is called with its expiry.
/// - It stores no text.
#[derive(Debug, Default)]
pub struct SegmentedIndex {
    parts: Vec<Part>,
    recent: LexicalIndex<Arc<str>>,
    /// The versions of the documents in `recent`, including expired ones.
    versions: HashMap<Arc<str>, u64>,
    key_bytes: usize,
    changed: usize,
}

/// A segment, and which of its documents are gone.
#[derive(Debug)]
struct Part {
    segment: Arc<Segment>,
    /// One bit per document; empty if none is gone.
    gone: Vec<u64>,
    live: usize,
    /// Tokens of the live documents.
    tokens: u64,
    /// How many of the segment's expiries have passed.
    expired: usize,
}

/// A hit of [`SegmentedIndex::search_and_score`].
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentHit<'i> {
    /// Its key.
    pub key: &'i str,
    /// Its version.
    pub version: u64,
    /// Its score, in `[0, 1]`.
    pub score: f64,
}

/// The scores of one query: its terms with their weights.
struct Weighed {
    bm25: Bm25,
    ceiling: f64,
    /// By term, in the order of the query.
    idfs: Vec<f64>,
}

/// BM25 sums of the documents of one part, and which of them contain a term.
#[derive(Default)]
struct Sums {
    by_document: Vec<f64>,
    touched: Vec<u32>,
}

impl Sums {
    fn begin(&mut self, documents: usize) {
        self.by_document.clear();
        self.by_document.resize(documents, 0.0);
        self.touched.clear();
    }

    #[inline]
    fn add(&mut self, document: u32, weight: f64) {
        let Some(sum) = self.by_document.get_mut(place(document)) else { return };
        if *sum == 0.0 {
            self.touched.push(document);
        }
        *sum += weight;
    }

    fn of(&self, document: u32) -> f64 {
        self.by_document.get(place(document)).copied().unwrap_or(0.0)
    }
}

impl SegmentedIndex {
    /// An index without documents.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of live documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recent.len() + self.parts.iter().map(|part| part.live).sum::<usize>()
    }

    /// Whether there is no live document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens in all live documents.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.recent.tokens() + self.parts.iter().map(|part| part.tokens).sum::<u64>()
    }

    /// How many documents were inserted or removed since the index was created or [rearranged](Self::rearrange).
    #[must_use]
    pub fn changed(&self) -> usize {
        self.changed
    }

    /// Adds a segment. Its documents must not be in the index.
    pub fn add(&mut self, segment: Arc<Segment>) {
        self.parts.push(Part::new(segment));
    }

    /// Analyses a text and adds it as a document, or replaces the one with that key.
    pub fn insert(&mut self, key: Arc<str>, version: u64, text: &str, expires_at: Option<i64>) {
        for part in &mut self.parts {
            part.remove_key(&key);
        }
        if self.versions.insert(Arc::clone(&key), version).is_none() {
            self.key_bytes += key.len();
        }
        self.recent.insert(key, text, expires_at);
        self.changed += 1;
        if self.recent.len() >= SEGMENT || self.recent.tokens() >= SEGMENT_TOKENS {
            let segment = Segment::of(&self.latest(), &self.sources());
            self.clear_recent();
            self.parts.push(Part::new(Arc::new(segment)));
        }
    }

    /// Removes a document.
    pub fn remove(&mut self, key: &str) {
        self.changed += 1;
        for part in &mut self.parts {
            part.remove_key(key);
        }
        if self.versions.remove(key).is_some() {
            self.key_bytes -= key.len();
        }
        self.recent.remove(key);
    }

    /// Removes the documents whose `expires_at` is at or before `now`. Returns how many.
    pub fn expire(&mut self, now: i64) -> usize {
        let mut expired = self.recent.expire(now);
        for part in &mut self.parts {
            while let Some((at, document)) = part.segment.expiries().get(part.expired).copied()
                && at <= now
            {
                part.expired += 1;
                expired += usize::from(part.remove(document));
            }
        }
        self.changed += expired;
        self.parts.retain(|part| part.live > 0);
        // Keep the versions of expired documents, so that a comparison need not analyse them again, but not too many of
        // them.
        if self.versions.len() > 2 * self.recent.len() + 1_024 {
            self.versions.retain(|key, _| self.recent.contains(key));
            self.versions.shrink_to_fit();
            self.key_bytes = self.versions.keys().map(|key| key.len()).sum();
        }
        expired
    }

    /// When the next document may expire.
    #[must_use]
    pub fn next_expiry(&self) -> Option<i64> {
        let of_part = |part: &Part| part.segment.expiries().get(part.expired).map(|(at, _)| *at);
        self.parts.iter().filter_map(of_part).chain(self.recent.next_expiry()).min()
    }

    /// Compares the index with all documents that exist; see [`Comparison`].
    #[must_use]
    pub fn compare(&self) -> Comparison {
        let heads = self.parts.iter().enumerate().filter(|(_, part)| !part.segment.is_empty());
        let head = |(part, of): (usize, &Part)| Head { segment: Arc::clone(&of.segment), part, document: 0 };
        let recent = self.versions.clone();
        Comparison { heads: heads.map(head).collect(), recent, gone: Vec::new() }
    }

    /// The best `limit` documents that contain a term of `query` and pass `filter`: exact, best first, ties by key.
    /// Also the scores of documents found by other means: `scores[i]` is that of `keys[i]`, `None` if it contains no
    /// term of the query or is not a live document.
    ///
    /// Statistics cover all live documents, whatever the filter. The filter is called only for documents that would be
    /// among the best so far.
    pub fn search_and_score(
        &self,
        query: &str,
        mut filter: impl FnMut(&str) -> bool,
        limit: usize,
        keys: &[&str],
    ) -> (Vec<DocumentHit<'_>>, Vec<Option<f64>>) {
        let terms = query_terms(query);
        let found: Vec<Vec<Option<Postings<'_>>>> = self
            .parts
            .iter()
            .map(|part| terms.iter().map(|term| part.segment.postings(term)).collect())
            .collect();
        let weighed = self.weigh(&terms, &found);
        let Weighed { bm25, ceiling, .. } = weighed;
        let mut scores = vec![None; keys.len()];
        let score = |sum: f64| (sum != 0.0).then(|| bm25.saturate(sum, ceiling));
        let (mut best, mut sums) = (Best::new(limit), Sums::default());

        for (part, found) in self.parts.iter().zip(found) {
            let segment = &*part.segment;
            sums.begin(segment.len());
            for (postings, idf) in found.into_iter().zip(&weighed.idfs) {
                for (document, frequency) in postings.into_iter().flatten() {
                    if !part.is_gone(document) {
                        sums.add(document, bm25.weight(*idf, frequency, segment.length(document)));
                    }
                }
            }
            for (key, score_of) in keys.iter().zip(&mut scores) {
                if let Some(document) = part.find(key) {
                    *score_of = score(sums.of(document));
                }
            }
            for &document in &sums.touched {
                let (key, version) = (segment.key(place(document)), segment.version(place(document)));
                let hit = (key.unwrap_or_default(), version.unwrap_or_default());
                best.offer(hit, sums.of(document), |(key, _)| filter(key));
            }
        }

        sums.begin(self.recent.slots());
        for (term, idf) in terms.iter().zip(&weighed.idfs) {
            for (slot, frequency, length) in self.recent.postings(term) {
                sums.add(slot, bm25.weight(*idf, frequency, length));
            }
        }
        for (key, score_of) in keys.iter().zip(&mut scores) {
            if let Some(slot) = self.recent.slot(*key) {
                *score_of = score(sums.of(slot));
            }
        }
        for &slot in &sums.touched {
            let Some(key) = self.recent.key(slot) else { continue };
            let version = self.versions.get(key).copied().unwrap_or_default();
            best.offer((&**key, version), sums.of(slot), |(key, _)| filter(key));
        }

        let hit = |Scored { document: (key, version), bm25: sum }: Scored<(_, _)>| DocumentHit {
            key,
            version,
            score: bm25.saturate(sum, ceiling),
        };
        (best.into_sorted().into_iter().map(hit).collect(), scores)
    }

    /// Weighs the terms of a query; `found` has their postings in each part.
    fn weigh(&self, terms: &[String], found: &[Vec<Option<Postings<'_>>>]) -> Weighed {
        let bm25 = Bm25::new(number(self.len()), self.tokens());
        let frequency = |(at, term): (usize, &String)| {
            let in_parts = self.parts.iter().zip(found).map(|(part, found)| {
                let postings = found.get(at).copied().flatten();
                postings.map_or(0, |postings| part.live_of(postings))
            });
            in_parts.sum::<u32>() + self.recent.document_frequency(term)
        };
        let idfs: Vec<f64> = terms.iter().enumerate().map(|at| bm25.idf(frequency(at))).collect();
        Weighed { bm25, ceiling: bm25.ceiling(idfs.iter().sum()), idfs }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let part = |part: &Part| part.segment.heap_bytes() + 8 * part.gone.capacity() + size_of::<Part>();
        // The table of versions, and the keys with their reference counts.
        self.recent.heap_bytes()
            + self.versions.capacity() * 8 / 7 * 25
            + self.key_bytes
            + 16 * self.versions.len()
            + self.parts.iter().map(part).sum::<usize>()
    }

    /// All live documents as consecutive segments in key order. A segment stays as it is if it has lost no document and
    /// no other document falls between its keys.
    #[must_use]
    pub fn arranged(&self) -> Vec<Arc<Segment>> {
        let mut parts: Vec<(usize, &Part)> =
            self.parts.iter().enumerate().filter(|(_, part)| part.live > 0).collect();
        parts.sort_by_key(|(_, part)| part.segment.first());
        // If two segments overlap, the one that covers more is taken apart.
        let mut ranges: Vec<(usize, &Part)> = Vec::with_capacity(parts.len());
        let mut between: Vec<Document<'_>> = self.latest();
        for part in parts {
            let overlapped = ranges.pop_if(|before| part.1.segment.first() <= before.1.segment.last());
            let (narrow, wide) = match overlapped {
                Some(before) if before.1.segment.last() <= part.1.segment.last() => (before, Some(part)),
                overlapped => (part, overlapped),
            };
            ranges.push(narrow);
            between.extend(wide.into_iter().flat_map(|(at, part)| part.documents(at)));
        }
        between.sort_unstable_by_key(|document| document.key);

        let sources = self.sources();
        let mut arranged = Vec::new();
        let mut between = between.into_iter().peekable();
        // Documents without a segment yet.
        let mut open: Vec<Document<'_>> = Vec::new();
        for (at, (number, part)) in ranges.iter().enumerate() {
            let until = ranges.get(at + 1).and_then(|(_, next)| next.segment.first());
            let mut mine: Vec<Document<'_>> = Vec::new();
            while let Some(document) =
                between.next_if(|document| until.is_none_or(|until| document.key < until))
            {
                mine.push(document);
            }
            let first = part.segment.first().unwrap_or_default();
            let last = part.segment.last().unwrap_or_default();
            let inside = mine.iter().any(|document| document.key <= last && document.key > first);
            let complete = part.live == part.segment.len();
            let small = is_small(part.live, part.tokens) || !open.is_empty() && are_few(&open);
            if complete && !inside && !small {
                let before = mine.iter().take_while(|document| document.key < first).count();
                open.extend(mine.drain(..before));
                close(&mut arranged, &mut open, &sources);
                arranged.push(Arc::clone(&part.segment));
                open.append(&mut mine);
            } else {
                open.append(&mut mine);
                open.extend(part.documents(*number));
                open.sort_unstable_by_key(|document| document.key);
                if !are_few(&open) {
                    close(&mut arranged, &mut open, &sources);
                }
            }
        }
        open.extend(between);
        close(&mut arranged, &mut open, &sources);
        arranged
    }

    /// Replaces what it has with the segments of [`arranged`](Self::arranged).
    pub fn rearrange(&mut self, segments: &[Arc<Segment>]) {
        self.parts = segments.iter().map(|segment| Part::new(Arc::clone(segment))).collect();
        self.clear_recent();
        self.changed = 0;
    }

    /// The documents that are in no segment, in key order.
    fn latest(&self) -> Vec<Document<'_>> {
        let mut documents: Vec<_> = self
            .recent
            .documents()
            .map(|(at, key, expires_at, length)| {
                let version = self.versions.get(key).copied().unwrap_or_default();
                Document { key, version, expires_at, length, source: self.parts.len(), at }
            })
            .collect();
        documents.sort_unstable_by_key(|document| document.key);
        documents
    }

    /// The segments, and the documents that are in none.
    fn sources(&self) -> Vec<Source<'_>> {
        let segments = self.parts.iter().map(|part| Source::Segment(&part.segment));
        segments.chain([Source::Terms(self.recent.sorted_terms())]).collect()
    }

    fn clear_recent(&mut self) {
        self.recent.clear();
        self.versions = HashMap::new();
        self.key_bytes = 0;
    }
}

fn is_small(documents: usize, tokens: u64) -> bool {
    documents < SEGMENT / PART && tokens < SEGMENT_TOKENS / PART as u64
}

fn are_few(documents: &[Document<'_>]) -> bool {
    is_small(documents.len(), documents.iter().map(|document| u64::from(document.length)).sum())
}

/// Splits the documents into segments of about equal size.
fn close(arranged: &mut Vec<Arc<Segment>>, documents: &mut Vec<Document<'_>>, sources: &[Source<'_>]) {
    let most = documents.len().div_ceil(documents.len().div_ceil(SEGMENT).max(1));
    let mut rest = documents.as_slice();
    while !rest.is_empty() {
        let mut tokens = 0;
        let fits = |document: &&Document<'_>| {
            let fits = tokens < SEGMENT_TOKENS;
            tokens += u64::from(document.length);
            fits
        };
        let (chunk, others) = rest.split_at(rest.iter().take(most).take_while(fits).count());
        arranged.push(Arc::new(Segment::of(chunk, sources)));
        rest = others;
    }
    documents.clear();
}

impl Part {
    fn new(segment: Arc<Segment>) -> Self {
        let tokens = segment.lengths().iter().map(|length| u64::from(*length)).sum();
        Self { live: segment.len(), tokens, gone: Vec::new(), expired: 0, segment }
    }

    #[inline]
    fn is_gone(&self, document: u32) -> bool {
        self.gone.get(place(document) / 64).is_some_and(|bits| bits >> (document % 64) & 1 == 1)
    }

    /// The live document with this key.
    fn find(&self, key: &str) -> Option<u32> {
        if !self.segment.covers(key) {
            return None;
        }
        Some(number(self.segment.find(key)?)).filter(|document| !self.is_gone(*document))
    }

    fn remove_key(&mut self, key: &str) {
        if let Some(document) = self.find(key) {
            self.remove(document);
        }
    }

    /// Whether it was live.
    fn remove(&mut self, document: u32) -> bool {
        if self.is_gone(document) || place(document) >= self.segment.len() {
            return false;
        }
        if self.gone.is_empty() {
            self.gone = vec![0; self.segment.len().div_ceil(64)];
        }
        let Some(bits) = self.gone.get_mut(place(document) / 64) else { return false };
        *bits |= 1 << (document % 64);
        self.live -= 1;
        self.tokens -= u64::from(self.segment.length(document));
        true
    }

    /// How many of the documents are live.
    fn live_of(&self, postings: Postings<'_>) -> u32 {
        match self.gone.is_empty() {
            true => postings.documents().min(number(self.live)),
            false => number(postings.filter(|(document, _)| !self.is_gone(*document)).count()),
        }
    }

    /// The live documents, marked as coming from the source with this number.
    fn documents(&self, source: usize) -> impl Iterator<Item = Document<'_>> {
        let mut expiries: HashMap<u32, i64> =
            self.segment.expiries().iter().map(|(time, document)| (*document, *time)).collect();
        (0..number(self.segment.len())).filter(|at| !self.is_gone(*at)).filter_map(move |at| {
            let (key, version) = (self.segment.key(place(at))?, self.segment.version(place(at))?);
            let (expires_at, length) = (expiries.remove(&at), self.segment.length(at));
            Some(Document { key, version, expires_at, length, source, at })
        })
    }
}

/// Compares an index with all documents that exist, given in key order. The caller must insert those that the index
/// does not know; [`end`](Self::end) removes those that were not given.
#[derive(Debug)]
pub struct Comparison {
    /// The next document of each segment, the smallest key on top.
    heads: BinaryHeap<Head>,
    /// The versions of documents in no segment that were not given yet.
    recent: HashMap<Arc<str>, u64>,
    /// Documents of segments that were not given.
    gone: Vec<(usize, u32)>,
}

#[derive(Debug)]
struct Head {
    segment: Arc<Segment>,
    part: usize,
    document: u32,
}

impl Head {
    fn key(&self) -> &str {
        self.segment.key(place(self.document)).unwrap_or_default()
    }
}

impl Comparison {
    /// Whether the index has this version of the document, or had it until it expired. Keys must ascend from call to
    /// call.
    pub fn knows(&mut self, key: &str, version: u64) -> bool {
        let mut known = self.recent.remove(key) == Some(version);
        while let Some(mut head) = self.heads.peek_mut()
            && head.key() <= key
        {
            if head.key() == key && head.segment.version(place(head.document)) == Some(version) {
                known = true;
            } else {
                self.gone.push((head.part, head.document));
            }
            head.document += 1;
            if place(head.document) >= head.segment.len() {
                std::collections::binary_heap::PeekMut::pop(head);
            }
        }
        known
    }

    /// Removes from the index what was not given.
    pub fn end(self, index: &mut SegmentedIndex) {
        let Self { heads, recent, gone } = self;
        let left = heads.iter().flat_map(|head| {
            (head.document..number(head.segment.len())).map(|document| (head.part, document))
        });
        for (part, document) in gone.into_iter().chain(left) {
            if index.parts.get_mut(part).is_some_and(|part| part.remove(document)) {
                index.changed += 1;
            }
        }
        recent.into_keys().for_each(|key| index.remove(&key));
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.key().cmp(self.key()).then_with(|| other.part.cmp(&self.part))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn place(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
