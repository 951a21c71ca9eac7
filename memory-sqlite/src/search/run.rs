//! One search, from query to hits.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard};

use memory_core::limits::{HYBRID_POOL, RANK_POOL};
use memory_core::{EmbeddingModel, Result, ScopeDigest, SearchMode, SearchQuery, SearchResults, Timestamp};
use rusqlite::Connection;

use super::answer::Answer;
use super::caches::Caches;
use super::index::ScopeIndex;
use super::matches::Match;
use super::scan;
use crate::commit::store::Store;
use crate::error::Unreadable;
use crate::kv::described::Screen;
use crate::kv::state::ScopeState;
use crate::vector::cache::CachedMatrix;
use crate::vector::nearest::{Ask, Looked, Near, Order, QueryVector};
use crate::vector::rows::model_id;
use crate::vector::scope_matrix::ScopeMatrix;

/// Runs a search on a connection without an open transaction. The query's mode is not `Auto`; `model` is the
/// embedder's, if there is one, and `vector` is given if the mode needs it.
pub(crate) fn search(
    connection: &Connection,
    store: &Store,
    caches: &Caches,
    digest: &ScopeDigest,
    query: &SearchQuery,
    model: Option<&EmbeddingModel>,
    vector: Option<&QueryVector>,
) -> Result<SearchResults, Unreadable> {
    let now = store.clock.now();
    let nothing = || SearchResults::new(Vec::new(), query.mode);
    let state = match ScopeState::read(connection, digest)? {
        Some(state) if state.entries > 0 => state,
        _ => return Ok(nothing()),
    };
    let by_words = query.mode != SearchMode::Vector;
    let cached = if by_words { caches.indexes.open(digest, state.bytes) } else { None };
    let cached_matrix = vector
        .filter(|_| state.vectors > 0)
        .and_then(|vector| caches.matrices.open_matrix(digest, state.vectors, vector.model.dimensions));
    // Locked before the snapshot begins, so that neither is ever ahead of it.
    let mut index = cached.as_ref().map(|cached| cached.value());
    let mut held = cached_matrix.as_ref().map(|cached| (cached, cached.value()));
    let snapshot = connection.unchecked_transaction()?;
    let Some(state) = ScopeState::read(&snapshot, digest)? else { return Ok(nothing()) };
    let mut usable = false;
    if let (Some(cached), Some(index)) = (&cached, &mut index) {
        usable = caches.indexes.catch_up(digest, cached, index, &snapshot, state, now)?;
    }
    let mut index = index.filter(|_| usable);

    let model = match model.filter(|_| query.dedup.is_some() && state.vectors > 0) {
        Some(model) => model_id(&snapshot, model)?,
        None => None,
    };
    let most = most(query);
    let mut limit = match query.dedup {
        // Usually few of the best are duplicates.
        Some(_) if model.is_some() && query.mode != SearchMode::Hybrid && is_by_similarity(query) => {
            query.top_k.saturating_mul(2).saturating_add(32).min(most)
        }
        _ => most,
    };
    loop {
        let search = Search { store, caches, snapshot: &snapshot, digest, state, query, now, limit };
        let nearest = match vector {
            Some(vector) if state.vectors > 0 => search.nearest(vector, held.as_mut())?,
            _ => Nearest::default(),
        };
        let matches = if by_words {
            search.by_words(index.as_deref(), vector, nearest)?
        } else {
            let near = |near: Near| Match { key: near.key.clone(), near: Some(near), ..Match::default() };
            nearest.found.into_iter().map(near).collect()
        };
        let more = limit < most && matches.len() >= limit;
        if !more {
            // Unlock, so that others can search while this one reads its hits.
            (index, held) = (None, None);
        }
        let answer =
            Answer { store, caches, snapshot: &snapshot, digest, space: state.space, model, query, now };
        if let Some(results) = answer.of(&matches, more)? {
            return Ok(results);
        }
        limit = most;
    }
}

fn is_by_similarity(query: &SearchQuery) -> bool {
    query.rank.is_similarity_only() && query.rank.similarity == 1.0
}

/// Most matches that may become hits: all of them if similarity alone does not determine the order (a weight may
/// round two similarities to the same value, which changes the tie), or if some may be left out as duplicates.
fn most(query: &SearchQuery) -> usize {
    match query.mode {
        SearchMode::Hybrid | SearchMode::Auto => HYBRID_POOL,
        _ if is_by_similarity(query) && query.dedup.is_none() => query.top_k,
        _ => RANK_POOL,
    }
}

/// The nearest by vector, best first.
#[derive(Debug, Default)]
struct Nearest {
    found: Vec<Near>,
    /// Whether these are all the entries that match prefix and filter.
    all_that_match: bool,
}

/// One search.
struct Search<'a> {
    store: &'a Store,
    caches: &'a Caches,
    snapshot: &'a Connection,
    digest: &'a ScopeDigest,
    state: ScopeState,
    query: &'a SearchQuery,
    now: Timestamp,
    limit: usize,
}

impl Search<'_> {
    /// The nearest by vector, best first.
    fn nearest(
        &self,
        vector: &QueryVector,
        held: Option<&mut (&Arc<CachedMatrix>, MutexGuard<'_, ScopeMatrix>)>,
    ) -> Result<Nearest, Unreadable> {
        let Some(model) = model_id(self.snapshot, &vector.model)? else { return Ok(Nearest::default()) };
        let closed = || self.store.is_closed();
        let ask = self.ask(vector, model, &closed);
        if let Some((cached, held)) = held {
            let matrices = &self.caches.matrices;
            let dimensions = vector.model.dimensions;
            let mut usable =
                matrices.catch_up(self.digest, cached, held, self.snapshot, self.state, model, dimensions)?;
            // If the clock was set back, the search may need rows that were removed as expired; after the repair it
            // is right.
            for _ in 0..2 {
                if !usable {
                    break;
                }
                let looked = ask.by_matrix(held)?;
                matrices.weigh(self.digest, cached, held, self.state);
                match looked {
                    Looked::Found(found) => {
                        let all_that_match = found.len() < self.limit
                            && self.state.vectors == self.state.entries
                            && held.holds_all_of(self.snapshot, self.state)?;
                        return Ok(Nearest { found, all_that_match });
                    }
                    Looked::Stale => usable = matrices.repair(held, self.snapshot, self.state)?,
                }
            }
            if usable {
                tracing::error!("a matrix of vectors disagrees with the database; it was dropped");
            }
            matrices.forget(self.digest);
        }
        Ok(Nearest { found: ask.by_scan()?, all_that_match: false })
    }

    fn ask<'a>(&'a self, vector: &'a QueryVector, model: i64, cancelled: &'a dyn Fn() -> bool) -> Ask<'a> {
        Ask {
            connection: self.snapshot,
            space: self.state.space,
            model,
            vector,
            query: self.query,
            now: self.now,
            limit: self.limit,
            order: if self.query.mode == SearchMode::Vector { Order::Score } else { Order::Cosine },
            cancelled,
        }
    }

    /// The best by words; for hybrid search joined with the nearest, each with both similarities.
    fn by_words(
        &self,
        index: Option<&ScopeIndex>,
        vector: Option<&QueryVector>,
        nearest: Nearest,
    ) -> Result<Vec<Match>, Unreadable> {
        let Nearest { found: nearest, all_that_match } = nearest;
        let matching: Option<HashSet<&str>> =
            all_that_match.then(|| nearest.iter().map(|near| near.key.as_str()).collect());
        let mut screen = Screen { connection: self.snapshot, space: self.state.space, query: self.query };
        let mut passes = |key: &str| match &matching {
            Some(matching) => Ok(matching.contains(key)),
            None => screen.passes(key),
        };
        let (mut matches, scores) = match index {
            Some(index) => {
                let mut failed = None;
                let keys: Vec<&str> = nearest.iter().map(|near| near.key.as_str()).collect();
                let passes = |key: &Arc<str>| {
                    failed.is_none()
                        && passes(key).unwrap_or_else(|error| {
                            failed = Some(error);
                            false
                        })
                };
                let (hits, scores) =
                    index.documents.search_and_score(&self.query.text, passes, self.limit, &keys);
                if let Some(error) = failed {
                    return Err(error);
                }
                let matches: Vec<Match> = hits
                    .into_iter()
                    .map(|hit| Match {
                        indexed: index.version(&hit.key),
                        key: hit.key.to_string(),
                        lexical: Some(hit.score),
                        near: None,
                    })
                    .collect();
                (matches, scores)
            }
            None => {
                let places: HashMap<&str, usize> =
                    nearest.iter().enumerate().map(|(place, near)| (near.key.as_str(), place)).collect();
                let mut scores = vec![None; nearest.len()];
                let found = scan::search(
                    self.snapshot,
                    self.state.space,
                    self.now,
                    &self.query.text,
                    passes,
                    self.limit,
                    |key, score| {
                        if let Some(place) = places.get(key).and_then(|&place| scores.get_mut(place)) {
                            *place = Some(score);
                        }
                    },
                )?;
                let matches = found
                    .into_iter()
                    .map(|found| Match { key: found.key, lexical: Some(found.score), ..Match::default() })
                    .collect();
                (matches, scores)
            }
        };
        if let Some(vector) = vector {
            self.join(&mut matches, vector, nearest, scores)?;
        }
        Ok(matches)
    }

    /// Adds cosines to the best by words, and the nearest that are not among them.
    fn join(
        &self,
        matches: &mut Vec<Match>,
        vector: &QueryVector,
        nearest: Vec<Near>,
        scores: Vec<Option<f64>>,
    ) -> Result<(), Unreadable> {
        let model = model_id(self.snapshot, &vector.model)?.filter(|_| self.state.vectors > 0);
        let Some(model) = model else { return Ok(()) };
        let ask = self.ask(vector, model, &|| false);
        let mut nearest: HashMap<String, (Near, Option<f64>)> =
            nearest.into_iter().zip(scores).map(|(near, score)| (near.key.clone(), (near, score))).collect();
        for found in matches.iter_mut() {
            found.near = match nearest.remove(&found.key) {
                Some((near, _)) => Some(near),
                None => ask.of_key(&found.key)?,
            };
        }
        let rest = nearest.into_iter();
        matches.extend(rest.map(|(key, (near, lexical))| Match {
            key,
            lexical,
            indexed: None,
            near: Some(near),
        }));
        Ok(())
    }
}
