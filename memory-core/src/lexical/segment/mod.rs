//! An immutable run of analysed documents: compact in memory, and stored as is.

mod build;
mod encode;
mod postings;

pub(super) use build::{Document, Source};
#[cfg(test)]
pub(super) use encode::checksum;
pub(super) use postings::Postings;

/// Documents of one scope in key order, with the terms of each. A segment never changes; the
/// [`SegmentedIndex`](super::SegmentedIndex) that holds it records what happens to its documents later.
///
/// [`encode`](Self::encode) gives the bytes to store, and [`decode`](Self::decode) reads them without analysing any
/// text. They contain the documents' words in plain text, so a stored segment must be removed as soon as one of its
/// documents goes away.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The concatenated keys, and where each ends.
    keys: String,
    key_ends: Vec<u32>,
    versions: Vec<u64>,
    /// Tokens of each document.
    lengths: Vec<u32>,
    /// `(expires_at, document)` of the documents that expire, sorted.
    expiries: Vec<(i64, u32)>,
    /// The concatenated distinct terms in byte order, and where each ends.
    terms: String,
    term_ends: Vec<u32>,
    /// The concatenated postings of all terms, and where each list ends.
    postings: Vec<u8>,
    posting_ends: Vec<u32>,
}

impl Segment {
    /// Number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.key_ends.len()
    }

    /// Whether there is no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.key_ends.is_empty()
    }

    /// The first key; `None` if there are no documents.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.key(0)
    }

    /// The last key.
    #[must_use]
    pub fn last(&self) -> Option<&str> {
        self.key(self.len().checked_sub(1)?)
    }

    /// The key of a document; `None` if there are fewer.
    pub(super) fn key(&self, document: usize) -> Option<&str> {
        piece(&self.keys, &self.key_ends, document)
    }

    /// The version of a document.
    pub(super) fn version(&self, document: usize) -> Option<u64> {
        self.versions.get(document).copied()
    }

    /// The document with this key.
    pub(super) fn find(&self, key: &str) -> Option<usize> {
        search(&self.keys, &self.key_ends, key)
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.keys.capacity()
            + self.terms.capacity()
            + self.postings.capacity()
            + 4 * (self.key_ends.capacity() + self.lengths.capacity())
            + 4 * (self.term_ends.capacity() + self.posting_ends.capacity())
            + 8 * self.versions.capacity()
            + 16 * self.expiries.capacity()
    }

    /// Whether the key lies between the first and the last.
    pub(super) fn covers(&self, key: &str) -> bool {
        self.first().is_some_and(|first| first <= key) && self.last().is_some_and(|last| key <= last)
    }

    pub(super) fn length(&self, document: u32) -> u32 {
        self.lengths.get(place(document)).copied().unwrap_or(0)
    }

    pub(super) fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    pub(super) fn expiries(&self) -> &[(i64, u32)] {
        &self.expiries
    }

    /// The documents that contain a term.
    pub(super) fn postings(&self, term: &str) -> Option<Postings<'_>> {
        self.postings_at(search(&self.terms, &self.term_ends, term)?)
    }

    fn postings_at(&self, term: usize) -> Option<Postings<'_>> {
        Some(Postings::new(self.postings.get(range(&self.posting_ends, term)?)?))
    }

    fn term(&self, term: usize) -> Option<&str> {
        piece(&self.terms, &self.term_ends, term)
    }
}

/// One of several concatenated texts.
fn piece<'t>(texts: &'t str, ends: &[u32], at: usize) -> Option<&'t str> {
    texts.get(range(ends, at)?)
}

fn range(ends: &[u32], at: usize) -> Option<std::ops::Range<usize>> {
    let end = place(*ends.get(at)?);
    let start = at.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |start| place(*start));
    Some(start..end)
}

/// Finds one of several sorted, concatenated texts.
fn search(texts: &str, ends: &[u32], wanted: &str) -> Option<usize> {
    let (mut low, mut high) = (0, ends.len());
    while low < high {
        let middle = low.midpoint(high);
        match piece(texts, ends, middle)?.cmp(wanted) {
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

/// Sizes within a segment fit 32 bits.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn place(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
