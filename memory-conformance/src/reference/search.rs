//! Search by reading every live entry of the scope.

use std::collections::BTreeMap;

use memory_core::embed::cosine;
use memory_core::rank::{Candidate, dedup, rank};
use memory_core::{
    EmbeddingModel, Entry, Hit, Key, SearchMode, SearchQuery, SearchResults, Timestamp, lexical,
};

use super::fault::{Eyes, Fault};
use super::state::{ScopeState, Stored};

/// The query's vector, where the mode needs one.
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

/// Answers a query whose mode is not `Auto`; does not count accesses. `strangers` are texts of other
/// scopes, of which a sound store knows nothing.
pub(crate) fn search(
    state: &ScopeState,
    now: Timestamp,
    query: &SearchQuery,
    query_vector: Option<&QueryVector>,
    strangers: &[String],
) -> SearchResults {
    let live: Vec<&Stored> = state.all_live(now, Eyes::Search).collect();
    let by_words: BTreeMap<&Key, f64> = if query.mode == SearchMode::Vector {
        BTreeMap::new()
    } else {
        let own = live
            .iter()
            .filter(|stored| !state.faults.has(Fault::StatisticsOfMatches) || matches(&stored.entry, query))
            .map(|stored| (Some(&stored.entry.key), stored.entry.search_text()));
        let documents = own.chain(strangers.iter().map(|text| (None, text.as_str().into())));
        let hits = lexical::rank(&query.text, documents, Option::is_some, usize::MAX);
        hits.into_iter().filter_map(|hit| Some((hit.key?, hit.score))).collect()
    };
    let matching: Vec<&Stored> = live.into_iter().filter(|stored| matches(&stored.entry, query)).collect();
    let vector_of = |stored: &'_ Stored| {
        query_vector.and_then(|query| Some(cosine(stored.vector(&query.model)?, &query.vector)))
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
    let ranked = rank(query.mode, &candidates, query.threshold, &query.rank, now);
    let (kept, duplicates) = dedup(&ranked, query.top_k, query.dedup.as_ref(), |index| {
        let stored = matching.get(index)?;
        let model = query_vector.map(|query| &query.model);
        match model {
            Some(model) => stored.vector(model),
            None => stored.vectors.first().map(|vector| vector.vector.as_slice()),
        }
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
