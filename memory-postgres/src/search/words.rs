//! Finds the entries that contain words of the query, and scores them.

use std::collections::HashMap;

use memory_core::Key;
use memory_core::Result;
use memory_core::lexical::{Bm25, query_terms};

use crate::error::malformed;
use crate::kv::filter::condition;
use crate::kv::terms::word;
use crate::search::context::Search;
use crate::store::columns::column;
use crate::store::parameters::Values;

/// The scope's live entries that contain a word of the query.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// How many entries contain each word.
    having: Vec<u32>,
    documents: HashMap<Key, Document>,
}

#[derive(Debug, Default)]
struct Document {
    /// The number of its words.
    length: u32,
    /// Whether prefix and filter match.
    passes: bool,
    /// The query's words that it contains, and how often.
    terms: Vec<(usize, u16)>,
}

/// Scores of entries.
#[derive(Debug, Default)]
pub(super) struct Words {
    scores: HashMap<Key, f64>,
    /// Those that match prefix and filter, best first, ties by key.
    pub(super) best: Vec<(Key, f64)>,
}

impl Words {
    pub(super) fn score_of(&self, key: &Key) -> Option<f64> {
        self.scores.get(key).copied()
    }
}

impl Search<'_> {
    pub(super) async fn find_words(&self) -> Result<Found> {
        let terms = query_terms(&self.query.text);
        let mut found = Found { having: vec![0; terms.len()], documents: HashMap::new() };
        if terms.is_empty() {
            return Ok(found);
        }
        let mut values = Values::default();
        let marks = values.int8s(terms.iter().map(|term| word(&self.target.digest, term)).collect());
        let scope = format!(
            "s.tenant = {} AND s.kind = {} AND s.name = {}",
            values.text(self.target.tenant()),
            values.int2(self.target.kind()),
            values.text(self.target.scope.id.as_str())
        );
        let now = values.int8(self.store.time.parameter());
        let passes = self.passes(&mut values);
        // Only the index over terms is scanned: a term belongs to one scope, and few of its entries have it.
        let sql = self.store.named(&format!(
            "SELECT (q.at - 1)::integer, e.key, e.tokens, e.counts[array_position(e.marks, q.mark)], {passes} \
             FROM @schema@.scope s CROSS JOIN unnest({marks}) WITH ORDINALITY q (mark, at) \
             CROSS JOIN LATERAL (SELECT d.* FROM @schema@.entry d WHERE d.marks @> ARRAY[q.mark] OFFSET 0) e \
             WHERE {scope} AND e.tenant = s.tenant AND e.space = s.space AND (e.expires_at IS NULL OR e.expires_at > \
             coalesce({now}, floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint))"
        ));
        for row in self.reading.query_once(&sql, &values.parameters()).await? {
            let at = usize::try_from(column::<i32>(&row, 0, "word")?).map_err(|_| malformed("word"))?;
            let having = found.having.get_mut(at).ok_or_else(|| malformed("word"))?;
            *having += 1;
            let key = Key::new(column::<&str>(&row, 1, "key")?).map_err(|_| malformed("key"))?;
            let count = column::<Option<i32>>(&row, 3, "word")?.and_then(|count| u16::try_from(count).ok());
            let document = found.documents.entry(key).or_default();
            document.length =
                u32::try_from(column::<i32>(&row, 2, "word")?).map_err(|_| malformed("word"))?;
            document.passes = column(&row, 4, "word")?;
            document.terms.push((at, count.ok_or_else(|| malformed("word"))?));
        }
        Ok(found)
    }

    /// The condition for an entry `e` to be a hit.
    pub(super) fn passes(&self, values: &mut Values) -> String {
        let mut passes = String::from("true");
        if !self.query.prefix.is_empty() {
            passes = format!("starts_with(e.key, {})", values.text(self.query.prefix.as_str()));
        }
        if let Some(filter) = &self.query.filter {
            passes = format!("{passes} AND {}", condition(filter, values));
        }
        format!("({passes})")
    }
}

impl Found {
    /// BM25 over the scope's live entries, given their number and that of their words.
    pub(super) fn score(mut self, entries: u64, tokens: u64) -> Words {
        let bm25 = Bm25::new(u32::try_from(entries).unwrap_or(u32::MAX), tokens);
        let idfs: Vec<f64> = self.having.iter().map(|having| bm25.idf(*having)).collect();
        let ceiling = bm25.ceiling(idfs.iter().sum());
        let mut words = Words::default();
        for (key, document) in &mut self.documents {
            // Summed in the query's order, so that every backend rounds alike.
            document.terms.sort_unstable();
            let sum = document.terms.iter().fold(0.0, |sum, (at, count)| {
                let idf = idfs.get(*at).copied().unwrap_or_default();
                sum + bm25.weight(idf, *count, document.length)
            });
            let score = bm25.saturate(sum, ceiling);
            words.scores.insert(key.clone(), score);
            if document.passes {
                words.best.push((key.clone(), score));
            }
        }
        words.best.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        words
    }
}
