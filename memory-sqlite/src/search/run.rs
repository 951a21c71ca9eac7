//! One search, from query to hits.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use memory_core::backend::embedding::STALE;
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
use crate::vector::cache::Needed;
use crate::vector::nearest::{Ask, Looked, Near, Order, QueryVector};
use crate::vector::rows::{has_stale, model_id};
use crate::vector::scope_matrix::ScopeMatrix;

/// How a search uses the caches. Each pass after the first starts with a new snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// As they are, together with other searches.
    Shared,
    /// They are brought up to date first, by one search at a time.
    CatchUp,
    /// The matrix disagreed with the database, so it is reread first.
    Repair,
    /// Without the matrix, which still disagrees.
    WithoutMatrix,
}

/// What one pass gave.
enum Passed {
    Found(SearchResults),
    Again(Pass),
}

/// Runs a search on a connection without an open transaction. The query's mode is not `Auto`; `model` is the
/// embedder's, if any, and `vector` is given if the mode needs it.
pub(crate) fn search(
    connection: &Connection,
    store: &Store,
    caches: &Caches,
    digest: &ScopeDigest,
    query: &SearchQuery,
    model: Option<&EmbeddingModel>,
    vector: Option<&QueryVector>,
) -> Result<SearchResults, Unreadable> {
    let request = Request { connection, store, caches, digest, query, model, vector };
    let mut pass = Pass::Shared;
    loop {
        match request.pass(pass)? {
            Passed::Found(results) => return Ok(results),
            Passed::Again(next) => pass = next,
        }
    }
}

/// The arguments of a search.
struct Request<'a> {
    connection: &'a Connection,
    store: &'a Store,
    caches: &'a Caches,
    digest: &'a ScopeDigest,
    query: &'a SearchQuery,
    model: Option<&'a EmbeddingModel>,
    vector: Option<&'a QueryVector>,
}

impl Request<'_> {
    fn pass(&self, pass: Pass) -> Result<Passed, Unreadable> {
        let Self { connection, store, caches, digest, query, vector, .. } = *self;
        let nothing = || Ok(Passed::Found(SearchResults::new(Vec::new(), query.mode)));
        let state = match ScopeState::read(connection, digest)? {
            Some(state) if state.entries > 0 => state,
            _ => return nothing(),
        };
        let by_words = query.mode != SearchMode::Vector;
        if pass == Pass::Shared {
            caches.note_search(digest, by_words, vector.is_some() && state.vectors > 0);
        }
        let cached = if by_words { caches.indexes.open(digest, state.bytes) } else { None };
        let cached_matrix = vector
            .filter(|_| state.vectors > 0 && pass != Pass::WithoutMatrix)
            .and_then(|vector| caches.matrices.open_matrix(digest, state.vectors, vector.model.dimensions));
        // Locked before the snapshot begins, so that neither is ever ahead of it. While this search has the turn,
        // nobody else changes the value, so it may release the value in between.
        let in_turn = pass != Pass::Shared;
        let turn = cached.as_ref().filter(|_| in_turn).map(|cached| cached.turn());
        let matrix_turn = cached_matrix.as_ref().filter(|_| in_turn).map(|cached| cached.turn());
        let mut index = cached.as_ref().map(|cached| cached.value());
        let mut matrix = cached_matrix.as_ref().map(|cached| cached.value());
        // Never earlier than the time at which expired documents were last removed, unless the clock was set back.
        let now = store.clock.now();
        let snapshot = connection.unchecked_transaction()?;
        let Some(state) = ScopeState::read(&snapshot, digest)? else { return nothing() };

        if index.as_ref().is_some_and(|index| !index.is_current(state, now)) {
            index = None;
            let Some(turn) = &turn else { return Ok(Passed::Again(Pass::CatchUp)) };
            if caches.indexes.catch_up(digest, turn, &snapshot, state, now)? {
                let current = turn.cached().value();
                if current.is_scattered() && !store.is_read_only() {
                    store.signal.texts();
                }
                index = Some(current);
            }
        }
        let searched = match vector {
            Some(vector) if state.vectors > 0 => model_id(&snapshot, &vector.model)?.map(|id| (vector, id)),
            _ => None,
        };
        if let Some(vector) = vector
            && state.vectors > 0
            && !store.told_stale.load(Ordering::Relaxed)
            && has_stale(&snapshot, state.space, searched.map(|(_, model)| model))?
            && !store.told_stale.swap(true, Ordering::Relaxed)
        {
            let model = &vector.model.model;
            tracing::warn!(model, "{STALE}");
        }
        if let Some((vector, model)) = searched {
            let (dimensions, filter) = (vector.model.dimensions, query.filter.as_ref());
            let needed = Needed { connection: &snapshot, state, model, dimensions, filter };
            let anew = pass == Pass::Repair;
            if matrix.as_ref().is_some_and(|matrix| anew || !needed.is_in(matrix)) {
                matrix = None;
                let Some(turn) = &matrix_turn else { return Ok(Passed::Again(Pass::CatchUp)) };
                if caches.matrices.catch_up(digest, turn, &needed, anew)? {
                    matrix = Some(turn.cached().value());
                }
            }
        }
        drop((turn, matrix_turn));

        let model = match self.model.filter(|_| query.dedup.is_some() && state.vectors > 0) {
            Some(model) => model_id(&snapshot, model)?,
            None => None,
        };
        let most = query.most_matches();
        let mut limit = query.first_matches(model.is_some());
        loop {
            let search = Search { store, snapshot: &snapshot, state, query, now, limit };
            let nearest = match searched {
                Some((vector, model)) => search.nearest(vector, model, matrix.as_deref())?,
                None => Some(Nearest::default()),
            };
            let Some(nearest) = nearest else {
                // If the clock was set back, the search may need rows that were removed as expired; after the repair
                // the matrix is right.
                if pass != Pass::Repair {
                    return Ok(Passed::Again(Pass::Repair));
                }
                tracing::error!("a matrix of vectors disagrees with the database; it was dropped");
                caches.matrices.forget(digest);
                return Ok(Passed::Again(Pass::WithoutMatrix));
            };
            let matches = if by_words {
                search.by_words(index.as_deref(), searched, nearest)?
            } else {
                let near = |near: Near| Match { key: near.key.clone(), near: Some(near), ..Match::default() };
                nearest.found.into_iter().map(near).collect()
            };
            let more = limit < most && matches.len() >= limit;
            if !more {
                // Unlock, so that others can change them while this search reads its hits.
                (index, matrix) = (None, None);
            }
            let answer =
                Answer { store, caches, snapshot: &snapshot, digest, space: state.space, model, query, now };
            if let Some(results) = answer.of(&matches, more)? {
                return Ok(Passed::Found(results));
            }
            limit = most;
        }
    }
}

/// The nearest by vector, best first.
#[derive(Debug, Default)]
struct Nearest {
    found: Vec<Near>,
    /// Whether these are all the entries that match prefix and filter.
    all_that_match: bool,
}

/// One search in its snapshot.
struct Search<'a> {
    store: &'a Store,
    snapshot: &'a Connection,
    state: ScopeState,
    query: &'a SearchQuery,
    now: Timestamp,
    limit: usize,
}

impl Search<'_> {
    /// The nearest by vector, best first. `None` if the matrix disagrees with the database.
    fn nearest(
        &self,
        vector: &QueryVector,
        model: i64,
        matrix: Option<&ScopeMatrix>,
    ) -> Result<Option<Nearest>, Unreadable> {
        let closed = || self.store.is_closed();
        let ask = self.ask(vector, model, &closed);
        let Some(matrix) = matrix else {
            return Ok(Some(Nearest { found: ask.by_scan()?, all_that_match: false }));
        };
        let Looked::Found(found) = ask.by_matrix(matrix)? else { return Ok(None) };
        let all_that_match = found.len() < self.limit
            && self.state.vectors == self.state.entries
            && matrix.holds_all_of(self.snapshot, self.state)?;
        Ok(Some(Nearest { found, all_that_match }))
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
        searched: Option<(&QueryVector, i64)>,
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
                let passes = |key: &str| {
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
                        indexed: Some(hit.version),
                        key: hit.key.to_owned(),
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
        if let Some((vector, model)) = searched {
            self.join(&mut matches, vector, model, nearest, scores)?;
        }
        Ok(matches)
    }

    /// Adds cosines to the best by words, and the nearest that are not among them.
    fn join(
        &self,
        matches: &mut Vec<Match>,
        vector: &QueryVector,
        model: i64,
        nearest: Vec<Near>,
        scores: Vec<Option<f64>>,
    ) -> Result<(), Unreadable> {
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
