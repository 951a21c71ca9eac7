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
    documents: Vec<Document>,
    /// Where each entry is among the documents.
    numbers: HashMap<Key, usize>,
    /// For each word, which documents contain it and how often.
    occurrences: Vec<Vec<(usize, u16)>>,
}

#[derive(Debug, Default)]
struct Document {
    /// The number of its words.
    length: u32,
    /// Whether prefix and filter match.
    passes: bool,
}

/// Scores of entries.
#[derive(Debug, Default)]
pub(super) struct Words {
    numbers: HashMap<Key, usize>,
    scores: Vec<f64>,
    /// The best of those that match prefix and filter, best first, ties by key.
    pub(super) best: Vec<(Key, f64)>,
}

impl Words {
    pub(super) fn score_of(&self, key: &Key) -> Option<f64> {
        self.scores.get(*self.numbers.get(key)?).copied()
    }
}

impl Search<'_> {
    pub(super) async fn find_words(&self) -> Result<Found> {
        let terms = query_terms(&self.query.text);
        let mut found = Found { occurrences: vec![Vec::new(); terms.len()], ..Found::default() };
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
            let key = Key::new(column::<&str>(&row, 1, "key")?).map_err(|_| malformed("key"))?;
            let count = column::<Option<i32>>(&row, 3, "word")?.and_then(|count| u16::try_from(count).ok());
            let count = count.ok_or_else(|| malformed("word"))?;
            let next = found.documents.len();
            let number = *found.numbers.entry(key).or_insert(next);
            if number == next {
                let length = column::<i32>(&row, 2, "word")?;
                let length = u32::try_from(length).map_err(|_| malformed("word"))?;
                found.documents.push(Document { length, passes: column(&row, 4, "word")? });
            }
            found.occurrences.get_mut(at).ok_or_else(|| malformed("word"))?.push((number, count));
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
    /// BM25 over the scope's live entries, given their number and that of their words. Keeps `most` of the best.
    pub(super) fn score(self, entries: u64, tokens: u64, most: usize) -> Words {
        let bm25 = Bm25::new(u32::try_from(entries).unwrap_or(u32::MAX), tokens);
        let having = |word: &Vec<(usize, u16)>| u32::try_from(word.len()).unwrap_or(u32::MAX);
        let idfs: Vec<f64> = self.occurrences.iter().map(|word| bm25.idf(having(word))).collect();
        let ceiling = bm25.ceiling(idfs.iter().sum());
        let mut scores = vec![0.0; self.documents.len()];
        // Summed in the query's order, so that every backend rounds alike.
        for (word, idf) in self.occurrences.iter().zip(&idfs) {
            for (number, count) in word {
                if let (Some(sum), Some(document)) = (scores.get_mut(*number), self.documents.get(*number)) {
                    *sum += bm25.weight(*idf, *count, document.length);
                }
            }
        }
        scores.iter_mut().for_each(|score| *score = bm25.saturate(*score, ceiling));
        let passing = self.numbers.iter().filter_map(|(key, number)| {
            let passes = self.documents.get(*number)?.passes;
            passes.then_some((key, *scores.get(*number)?))
        });
        let mut best: Vec<(&Key, f64)> = passing.collect();
        let best_first = |a: &(&Key, f64), b: &(&Key, f64)| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0));
        if best.len() > most {
            best.select_nth_unstable_by(most, best_first);
            best.truncate(most);
        }
        best.sort_unstable_by(best_first);
        let best = best.into_iter().map(|(key, score)| (key.clone(), score)).collect();
        Words { numbers: self.numbers, scores, best }
    }
}
