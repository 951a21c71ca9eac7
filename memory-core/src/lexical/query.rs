//! Queries, term counts, hits, and ranking by reading every document.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use super::bm25::Bm25;
use super::tokenizer::Analyzer;

/// Most distinct terms of a query, in order of appearance; further ones neither match nor raise the ceiling.
pub const MAX_QUERY_TERMS: usize = 1024;

/// A matching document.
#[derive(Clone, Debug, PartialEq)]
pub struct LexicalHit<K> {
    /// The document's key.
    pub key: K,
    /// Raw BM25, comparable within one query and scope only.
    pub bm25: f64,
    /// BM25 as a share of the query's ceiling, in `[0, 1]`; see [`Bm25::saturate`].
    pub score: f64,
}

impl<K: Ord> LexicalHit<K> {
    /// Best first: by descending BM25, ties by ascending key.
    pub(super) fn best_first(&self, other: &Self) -> Ordering {
        other.bm25.total_cmp(&self.bm25).then_with(|| self.key.cmp(&other.key))
    }
}

/// The distinct terms of a query, in order of first appearance, at most [`MAX_QUERY_TERMS`].
///
/// English function words (`what`, `did`, `the`) are left out unless the query has nothing else. They are indexed, so
/// `The Who` still matches. But in a question they say nothing about the topic, and in a small scope they may be rare
/// enough to outweigh the words that do.
#[must_use]
pub fn query_terms(query: &str) -> Vec<String> {
    query_terms_with(&mut Analyzer::new(), query)
}

pub(super) fn query_terms_with(analyzer: &mut Analyzer, query: &str) -> Vec<String> {
    let mut terms = Distinct::default();
    analyzer.analyze_content(query, &mut |token| terms.add(token));
    if terms.list.is_empty() {
        analyzer.analyze(query, &mut |token| terms.add(token));
    }
    terms.list
}

#[derive(Default)]
struct Distinct {
    seen: HashSet<String>,
    list: Vec<String>,
}

impl Distinct {
    fn add(&mut self, token: &str) {
        if self.list.len() < MAX_QUERY_TERMS && !self.seen.contains(token) {
            self.seen.insert(token.to_owned());
            self.list.push(token.to_owned());
        }
    }
}

/// How often each term occurs in a document, and the document's length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermCounts {
    /// Occurrences of each term, at most `u16::MAX`.
    pub counts: BTreeMap<String, u16>,
    /// Number of tokens.
    pub length: u32,
}

impl TermCounts {
    /// Counts the terms of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::with(&mut Analyzer::new(), text)
    }

    pub(super) fn with(analyzer: &mut Analyzer, text: &str) -> Self {
        let mut all = Self::default();
        analyzer.analyze(text, &mut |token| {
            all.length += 1;
            match all.counts.get_mut(token) {
                Some(count) => *count = count.saturating_add(1),
                None => {
                    all.counts.insert(token.to_owned(), 1);
                }
            }
        });
        all
    }
}

/// The best `limit` documents of one scope for `query`, best first, ties by key, by reading every document.
///
/// `documents` must be all live documents of the scope, because the statistics come from them; `filter` then decides
/// which may be hits. A document is a hit if it contains a term of the query.
pub fn rank<K: Ord, T: AsRef<str>>(
    query: &str,
    documents: impl IntoIterator<Item = (K, T)>,
    mut filter: impl FnMut(&K) -> bool,
    limit: usize,
) -> Vec<LexicalHit<K>> {
    let terms = query_terms(query);
    let documents: Vec<(K, TermCounts)> =
        documents.into_iter().map(|(key, text)| (key, TermCounts::of(text.as_ref()))).collect();
    let tokens = documents.iter().map(|(_, document)| u64::from(document.length)).sum();
    let bm25 = Bm25::new(u32::try_from(documents.len()).unwrap_or(u32::MAX), tokens);
    let idfs: Vec<f64> = terms
        .iter()
        .map(|term| {
            let having = documents.iter().filter(|(_, document)| document.counts.contains_key(term)).count();
            bm25.idf(u32::try_from(having).unwrap_or(u32::MAX))
        })
        .collect();
    let ceiling = bm25.ceiling(idfs.iter().sum());

    let mut hits: Vec<LexicalHit<K>> = documents
        .into_iter()
        .filter(|(key, _)| filter(key))
        .filter_map(|(key, document)| {
            let mut found = terms
                .iter()
                .zip(&idfs)
                .filter_map(|(term, &idf)| {
                    let &frequency = document.counts.get(term)?;
                    Some(bm25.weight(idf, frequency, document.length))
                })
                .peekable();
            found.peek()?;
            let sum = found.sum();
            Some(LexicalHit { key, bm25: sum, score: bm25.saturate(sum, ceiling) })
        })
        .collect();
    hits.sort_by(LexicalHit::best_first);
    hits.truncate(limit);
    hits
}
