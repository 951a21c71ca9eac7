//! Search by reading every entry, for scopes whose index does not fit the memory budget. Scores are those of
//! [`memory_core::lexical`].

use std::collections::{BinaryHeap, HashMap};

use memory_core::lexical::{Analyzer, Bm25, query_terms};
use memory_core::{Result, Timestamp};
use rusqlite::{Connection, params};

use super::index::search_text;
use crate::error::{Unreadable, malformed};

/// A document found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) key: String,
    pub(crate) score: f64,
    bm25: f64,
}

/// Ordered worst first.
impl Ord for Found {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.bm25.total_cmp(&self.bm25).then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Found {}

/// The best `limit` documents that pass `filter`, best first, ties by key; `scored` receives the score of every
/// document that contains a term. Reads the scope twice: the statistics come first.
pub(crate) fn search(
    connection: &Connection,
    space: i64,
    now: Timestamp,
    query: &str,
    mut filter: impl FnMut(&str) -> Result<bool, Unreadable>,
    limit: usize,
    mut scored: impl FnMut(&str, f64),
) -> Result<Vec<Found>, Unreadable> {
    let terms = query_terms(query);
    let places: HashMap<&str, usize> =
        terms.iter().enumerate().map(|(place, term)| (term.as_str(), place)).collect();
    let mut analyzer = Analyzer::new();
    let mut frequencies = vec![0_u16; terms.len()];

    let (mut documents, mut tokens) = (0_u32, 0_u64);
    let mut having = vec![0_u32; terms.len()];
    read(connection, space, now, |_, text| {
        tokens += u64::from(count(&mut analyzer, text, &places, &mut frequencies));
        documents += 1;
        for (having, frequency) in having.iter_mut().zip(&frequencies) {
            *having += u32::from(*frequency > 0);
        }
        Ok(())
    })?;

    let bm25 = Bm25::new(documents, tokens);
    let idfs: Vec<f64> = having.iter().map(|having| bm25.idf(*having)).collect();
    let ceiling = bm25.ceiling(idfs.iter().sum());
    let mut best: BinaryHeap<Found> = BinaryHeap::new();
    read(connection, space, now, |key, text| {
        let length = count(&mut analyzer, text, &places, &mut frequencies);
        let mut sum = 0.0;
        for (frequency, idf) in frequencies.iter().zip(&idfs) {
            if *frequency > 0 {
                sum += bm25.weight(*idf, *frequency, length);
            }
        }
        if sum == 0.0 {
            return Ok(());
        }
        let found = Found { key: key.to_owned(), score: bm25.saturate(sum, ceiling), bm25: sum };
        scored(key, found.score);
        let full = best.len() >= limit;
        if full && best.peek().is_none_or(|worst| found >= *worst) || !filter(key)? {
            return Ok(());
        }
        if full {
            best.pop();
        }
        best.push(found);
        Ok(())
    })?;
    Ok(best.into_sorted_vec())
}

fn read(
    connection: &Connection,
    space: i64,
    now: Timestamp,
    mut each: impl FnMut(&str, &str) -> Result<(), Unreadable>,
) -> Result<(), Unreadable> {
    let mut statement = connection.prepare_cached(
        "SELECT e.key, coalesce(e.text, b.text), coalesce(e.value, b.value) \
         FROM entry e LEFT JOIN body b ON b.id = e.body \
         WHERE e.space = ?1 AND (e.expires_at IS NULL OR e.expires_at > ?2)",
    )?;
    let mut rows = statement.query(params![space, now.as_millis()])?;
    while let Some(row) = rows.next()? {
        let key = row.get_ref(0)?.as_str().map_err(|_| malformed("key"))?;
        let text = search_text(
            row.get_ref(1)?.as_str_or_null().map_err(|_| malformed("text"))?,
            row.get_ref(2)?.as_str().map_err(|_| malformed("value"))?,
        )?;
        each(key, &text)?;
    }
    Ok(())
}

/// Counts the query's terms in a document; returns its number of tokens.
fn count(analyzer: &mut Analyzer, text: &str, places: &HashMap<&str, usize>, frequencies: &mut [u16]) -> u32 {
    frequencies.fill(0);
    let mut length = 0;
    analyzer.analyze(text, &mut |token| {
        length += 1;
        if let Some(frequency) = places.get(token).and_then(|&place| frequencies.get_mut(place)) {
            *frequency = frequency.saturating_add(1);
        }
    });
    length
}
