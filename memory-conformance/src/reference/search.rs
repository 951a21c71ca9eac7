//! Search by scanning every live entry of the scope.

use std::collections::BTreeMap;

use memory_core::embed::cosine;
use memory_core::rank::{Candidate, dedup, rank};
use memory_core::{
    EmbeddingModel, Entry, Hit, Key, SearchMode, SearchQuery, SearchResults, Timestamp, lexical,
};

use super::fault::{Fault, Viewer};
use super::faulty_hybrid;
use super::state::{ScopeState, Stored};

/// The query's vector, if the mode needs one.
pub(crate) struct QueryVector {
    pub(crate) model: EmbeddingModel,
    pub(crate) vector: Vec<f32>,
}

impl Stored {
    /// The vector of that model.
    pub(crate) fn vector(&self, model: &EmbeddingModel) -> Option<&[f32]> {
        self.vectors.iter().find(|vector| vector.model == *model).map(|vector| vector.vector.as_slice())
    }
}

/// Answers a query whose mode is not `Auto`, without counting accesses. Near-duplicates are found by vectors of
/// `model`. `foreign_texts` are texts of other scopes, empty in a correct store.
pub(crate) fn search(
    state: &ScopeState,
    now: Timestamp,
    query: &SearchQuery,
    query_vector: Option<&QueryVector>,
    model: Option<&EmbeddingModel>,
    foreign_texts: &[String],
) -> SearchResults {
    let live: Vec<&Stored> = state.all_live(now, Viewer::Search).collect();
    let by_words: BTreeMap<&Key, f64> = if query.mode == SearchMode::Vector {
        BTreeMap::new()
    } else {
        let own = live
            .iter()
            .filter(|stored| !state.faults.has(Fault::StatisticsOfMatches) || matches(&stored.entry, query))
            .map(|stored| (Some(&stored.entry.key), stored.entry.search_text()));
        let documents = own.chain(foreign_texts.iter().map(|text| (None, text.as_str().into())));
        let hits = lexical::rank(&query.text, documents, Option::is_some, usize::MAX);
        hits.into_iter().filter_map(|hit| Some((hit.key?, hit.score))).collect()
    };
    let matching: Vec<&Stored> = live
        .into_iter()
        .filter(|stored| matches(&stored.entry, query) || state.faults.has(Fault::ScaledOverScope))
        .collect();
    let faults = state.faults;
    let vector_of = |stored: &'_ Stored| {
        let query = query_vector?;
        let vector = if faults.has(Fault::ModelsMeet) {
            stored.vectors.first().map(|vector| vector.vector.as_slice())
        } else {
            stored.vector(&query.model)
        }?;
        if faults.has(Fault::DotProduct) {
            return Some(vector.iter().zip(&query.vector).map(|(x, y)| f64::from(x * y)).sum());
        }
        Some(cosine(vector, &query.vector))
    };
    let candidates: Vec<Candidate<'_>> = matching
        .iter()
        .map(|stored| Candidate {
            key: &stored.entry.key,
            lexical: by_words.get(&stored.entry.key).copied(),
            cosine: vector_of(stored),
            updated_at: if state.faults.has(Fault::AgeFromCreation) {
                stored.entry.created_at
            } else {
                stored.entry.updated_at
            },
            source: stored.entry.source.as_ref(),
            access_count: stored.entry.access_count,
        })
        .collect();
    let mut ranked = faulty_hybrid::rank_hybrid(faults, query, &candidates, now)
        .unwrap_or_else(|| rank(query.mode, &candidates, query.threshold, &query.rank, now));
    ranked.retain(|ranked| matching.get(ranked.index).is_some_and(|stored| matches(&stored.entry, query)));
    let (kept, duplicates) = dedup(&ranked, query.top_k, query.dedup.as_ref(), |index| {
        let stored = matching.get(index)?;
        if faults.has(Fault::DedupAcrossModels) {
            return stored.vectors.first().map(|vector| vector.vector.as_slice());
        }
        stored.vector(model?)
    });
    let hits = kept
        .into_iter()
        .filter_map(|kept| {
            let stored = matching.get(kept.ranked.index)?;
            let mut hit = Hit::new(stored.entry.clone(), kept.ranked.score, kept.ranked.rank_score);
            hit.merged = kept
                .merged
                .into_iter()
                .filter_map(|index| matching.get(index).map(|stored| stored.entry.key.clone()))
                .collect();
            Some(hit)
        })
        .collect();
    let mut results = SearchResults::new(hits, query.mode);
    results.duplicates = duplicates;
    results
}

fn matches(entry: &Entry, query: &SearchQuery) -> bool {
    entry.key.as_str().starts_with(&query.prefix)
        && query.filter.as_ref().is_none_or(|filter| filter.matches(entry))
}
