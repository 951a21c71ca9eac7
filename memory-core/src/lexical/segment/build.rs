//! Building segments.

use super::postings::write;
use super::{Segment, number, place};
use crate::lexical::index::Posting;

/// Where the documents of a new segment come from.
#[derive(Debug)]
pub(in crate::lexical) enum Source<'a> {
    Segment(&'a Segment),
    /// Terms in byte order, with their postings.
    Terms(Vec<(&'a str, &'a [Posting])>),
}

/// A document of a source, with its number there.
#[derive(Clone, Copy, Debug)]
pub(in crate::lexical) struct Document<'a> {
    pub(in crate::lexical) key: &'a str,
    pub(in crate::lexical) version: u64,
    pub(in crate::lexical) expires_at: Option<i64>,
    pub(in crate::lexical) length: u32,
    pub(in crate::lexical) source: usize,
    pub(in crate::lexical) at: u32,
}

impl<'a> Source<'a> {
    fn term(&self, term: usize) -> Option<&'a str> {
        match self {
            Self::Segment(segment) => segment.term(term),
            Self::Terms(terms) => terms.get(term).map(|(term, _)| *term),
        }
    }

    fn each(&self, term: usize, mut take: impl FnMut(u32, u16)) {
        match self {
            Self::Segment(segment) => segment
                .postings_at(term)
                .into_iter()
                .flatten()
                .for_each(|(document, frequency)| take(document, frequency)),
            Self::Terms(terms) => {
                let postings = terms.get(term).map(|(_, postings)| *postings).unwrap_or_default();
                postings.iter().for_each(|posting| take(posting.slot, posting.frequency));
            }
        }
    }
}

/// A source, its next term, and the new number of each of its documents.
struct Merged<'a, 's> {
    source: &'s Source<'a>,
    term: usize,
    numbers: Vec<Option<u32>>,
}

impl Segment {
    /// A segment of these documents, sorted by key, each key once.
    pub(in crate::lexical) fn of(documents: &[Document<'_>], sources: &[Source<'_>]) -> Self {
        let mut segment = Self::default();
        let mut merged: Vec<Merged<'_, '_>> =
            sources.iter().map(|source| Merged { source, term: 0, numbers: Vec::new() }).collect();
        for Document { key, version, expires_at, length, source, at } in documents {
            let document = number(segment.len());
            segment.keys.push_str(key);
            segment.key_ends.push(number(segment.keys.len()));
            segment.versions.push(*version);
            segment.lengths.push(*length);
            segment.expiries.extend(expires_at.map(|time| (time, document)));
            if let Some(Merged { numbers, .. }) = merged.get_mut(*source) {
                numbers.resize(numbers.len().max(place(*at) + 1), None);
                if let Some(number) = numbers.get_mut(place(*at)) {
                    *number = Some(document);
                }
            }
        }
        segment.expiries.sort_unstable();
        merged.retain(|merged| !merged.numbers.is_empty());
        let mut list = Vec::new();
        while let Some(term) = merged.iter().filter_map(|merged| merged.source.term(merged.term)).min() {
            list.clear();
            for Merged { source, term: at, numbers } in &mut merged {
                if source.term(*at) == Some(term) {
                    source.each(*at, |document, frequency| {
                        if let Some(Some(document)) = numbers.get(place(document)) {
                            list.push((*document, frequency));
                        }
                    });
                    *at += 1;
                }
            }
            if list.is_empty() {
                continue;
            }
            list.sort_unstable_by_key(|(document, _)| *document);
            segment.terms.push_str(term);
            segment.term_ends.push(number(segment.terms.len()));
            write(&mut segment.postings, &list);
            segment.posting_ends.push(number(segment.postings.len()));
        }
        segment.shrink_to_fit();
        segment
    }

    fn shrink_to_fit(&mut self) {
        self.keys.shrink_to_fit();
        self.key_ends.shrink_to_fit();
        self.versions.shrink_to_fit();
        self.lengths.shrink_to_fit();
        self.expiries.shrink_to_fit();
        self.terms.shrink_to_fit();
        self.term_ends.shrink_to_fit();
        self.postings.shrink_to_fit();
        self.posting_ends.shrink_to_fit();
    }
}
