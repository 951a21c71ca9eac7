//! Building segments.

use std::collections::HashMap;

use super::postings::write;
use super::{Segment, number};

/// An analysed document.
#[derive(Clone, Debug)]
pub(in crate::lexical) struct Analysed<'a> {
    pub(in crate::lexical) key: &'a str,
    pub(in crate::lexical) version: u64,
    pub(in crate::lexical) expires_at: Option<i64>,
    pub(in crate::lexical) length: u32,
    /// With the frequency of each.
    pub(in crate::lexical) terms: Vec<(&'a str, u16)>,
}

impl Segment {
    /// A segment of these documents, which are in the order of their keys, each key once.
    pub(in crate::lexical) fn of(documents: &[Analysed<'_>]) -> Self {
        let mut segment = Self::default();
        let mut postings: HashMap<&str, Vec<(u32, u16)>> = HashMap::new();
        for document in documents {
            let Analysed { key, version, expires_at, length, terms } = document;
            let at = number(segment.len());
            segment.keys.push_str(key);
            segment.key_ends.push(number(segment.keys.len()));
            segment.versions.push(*version);
            segment.lengths.push(*length);
            segment.expiries.extend(expires_at.map(|time| (time, at)));
            for (term, frequency) in terms {
                postings.entry(term).or_default().push((at, *frequency));
            }
        }
        segment.expiries.sort_unstable();
        let mut postings: Vec<(&str, Vec<(u32, u16)>)> = postings.into_iter().collect();
        postings.sort_unstable_by_key(|(term, _)| *term);
        for (term, list) in postings {
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
