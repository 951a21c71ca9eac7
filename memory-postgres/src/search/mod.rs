//! Search over one scope, in one snapshot: by words, by vectors, or both.

mod answer;
mod context;
mod nearest;
mod words;

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use memory_core::backend::embedding::STALE;
use memory_core::embed::ask;
use memory_core::{EmbedRole, Embedder, Key, Result, SearchMode, SearchQuery, SearchResults};
use tokio_postgres::IsolationLevel;

use crate::error::vector_unsupported;
use crate::kv::write_result::dimension_mismatch;
use crate::search::answer::{Answer, Match};
use crate::search::context::{Reading, Search, Searched};
use crate::search::nearest::Near;
use crate::search::words::Words;
use crate::store::Store;
use crate::store::scope_ref::ScopeRef;
use crate::vector::numbers::MAX_VECTOR;

/// SRC, VEC, HYB, RNK, DED: searches one scope.
pub(crate) async fn search(
    store: &Store,
    target: &ScopeRef,
    embedder: Option<&dyn Embedder>,
    mut query: SearchQuery,
) -> Result<SearchResults> {
    query.mode = match (query.mode, embedder) {
        (SearchMode::Lexical | SearchMode::Auto, None) => SearchMode::Lexical,
        (SearchMode::Vector | SearchMode::Hybrid, None) => return Err(vector_unsupported("search")),
        (SearchMode::Auto, Some(_)) => SearchMode::Hybrid,
        (mode, Some(_)) => mode,
    };
    let model = embedder.map(Embedder::model);
    let by_vectors = embedder.filter(|_| query.mode != SearchMode::Lexical);
    let (numbers, found) = match by_vectors {
        Some(embedder) => {
            let connection = store.connections.read().await?;
            let reading = Reading::Connection(&connection);
            let search = Search { store, reading, target, query: &query, model };
            // EMB-2, checked before the query is embedded in vain.
            let (found, other) = search.scope_and_mismatch().await?;
            if let Some(other) = other {
                return Err(dimension_mismatch(Some(i64::from(other)), Some(embedder.model())));
            }
            drop(connection);
            if found.is_some_and(|found| found.all_stale) && !store.told_stale.swap(true, Ordering::Relaxed) {
                let model = &embedder.model().model;
                tracing::warn!(model, "{STALE}");
            }
            (ask(embedder, &[&query.text], EmbedRole::Query).await?.into_iter().next(), found)
        }
        None => (None, None),
    };
    let mut connection = store.connections.take().await?;
    if let (Some(numbers), Some(found)) = (&numbers, found)
        && is_simple(&query, &found)
        && numbers.len() <= MAX_VECTOR
    {
        // A single statement has its own snapshot.
        let reading = Reading::Connection(&connection);
        let simple = Search { store, reading, target, query: &query, model };
        if let Some(results) = simple.simple(found, numbers).await? {
            return Ok(results);
        }
    }
    let snapshot = connection.transaction(IsolationLevel::RepeatableRead, true).await?;
    let reading = Reading::Snapshot(&snapshot);
    let results = Search { store, reading, target, query: &query, model }.run(numbers.as_deref()).await;
    snapshot.rollback().await;
    results
}

/// Whether the nearest vectors, found by comparing, are the hits.
fn is_simple(query: &SearchQuery, found: &Searched) -> bool {
    query.mode == SearchMode::Vector
        && query.dedup.is_none()
        && query.is_by_similarity()
        && !found.indexed
        && found.model.is_some()
}

impl Search<'_> {
    async fn run(&self, numbers: Option<&[f32]>) -> Result<SearchResults> {
        let query = self.query;
        let by_words = query.mode != SearchMode::Vector;
        // Both run at the same time, on one connection.
        let (searched, found) = tokio::try_join!(self.searched(), async {
            if by_words { self.find_words().await } else { Ok(words::Found::default()) }
        })?;
        let Some(searched) = searched.filter(|searched| searched.entries > 0) else {
            return Ok(SearchResults::new(Vec::new(), query.mode));
        };
        let most = query.most_matches();
        let words = found.score(searched.entries, searched.tokens, most);
        let model = searched.model.filter(|_| searched.vectors > 0);
        let mut limit = query.first_matches(model.is_some());
        loop {
            let nearest = match (numbers, model) {
                (Some(numbers), Some(model)) => self.nearest(&searched, model, numbers, limit).await?,
                _ => Vec::new(),
            };
            let matches = self.matches(&searched, &words, nearest, numbers, limit).await?;
            let more = limit < most && matches.len() >= limit;
            let answer =
                Answer { store: self.store, reading: self.reading, target: self.target, searched, query };
            if let Some(results) = answer.of(matches, more, HashMap::new()).await? {
                return Ok(results);
            }
            limit = most;
        }
    }

    /// Finds the nearest and reads their entries in one statement, long ones in another. `None` if one of these was
    /// changed in between.
    async fn simple(&self, searched: Searched, numbers: &[f32]) -> Result<Option<SearchResults>> {
        let (Some(model), query) = (searched.model, self.query) else {
            return Ok(Some(SearchResults::new(Vec::new(), self.query.mode)));
        };
        let (nearest, entries) = self.with_entries(&searched, model, numbers, query.top_k).await?;
        let matches = nearest
            .into_iter()
            .map(|near| Match { key: near.key.clone(), lexical: None, near: Some(near) })
            .collect();
        let answer =
            Answer { store: self.store, reading: self.reading, target: self.target, searched, query };
        answer.of(matches, false, entries).await
    }

    /// The best by words and the nearest, each with both similarities.
    async fn matches(
        &self,
        searched: &Searched,
        words: &Words,
        nearest: Vec<Near>,
        numbers: Option<&[f32]>,
        limit: usize,
    ) -> Result<Vec<Match>> {
        let mut matches: Vec<Match> = nearest
            .into_iter()
            .map(|near| Match { key: near.key.clone(), lexical: words.score_of(&near.key), near: Some(near) })
            .collect();
        if self.query.mode == SearchMode::Vector {
            return Ok(matches);
        }
        let known: std::collections::HashSet<Key> = matches.iter().map(|found| found.key.clone()).collect();
        let rest: Vec<&(Key, f64)> =
            words.best.iter().take(limit).filter(|(key, _)| !known.contains(key)).collect();
        let mut near = match (numbers, searched.model.filter(|_| searched.vectors > 0)) {
            (Some(numbers), Some(model)) => {
                let keys: Vec<&str> = rest.iter().map(|(key, _)| key.as_str()).collect();
                self.near_of(searched, model, numbers, &keys).await?
            }
            _ => HashMap::new(),
        };
        matches.extend(rest.into_iter().map(|(key, score)| Match {
            key: key.clone(),
            lexical: Some(*score),
            near: near.remove(key.as_str()),
        }));
        Ok(matches)
    }
}
