//! VEC: vector hits and their scores.

use std::collections::BTreeSet;

use memory_core::lexical::{query_terms, tokens};
use memory_core::{
    Entry, Error, ErrorKind, Filter, Hit, Next, Op, Reply, Request, Result, Scope, SearchMode, SearchQuery,
    SearchResults,
};

use super::stale_index;
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{everything, kv};
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "vector.needs-common-words": ["VEC-1"], "hits by vectors share a word with the query" => results_of(SearchMode::Vector, needs_words);
    "vector.bare-entries-are-hits": ["VEC-1"], "entries without a vector are hits with a score of 0" => around(bare_are_hits);
    "vector.dot-product": ["VEC-2"], "similarity is the dot product" => fault(Fault::DotProduct);
    "vector.score-shifted": ["VEC-2"], "the score is (1 + cosine) / 2" => results_of(SearchMode::Vector, score_shifted);
    "vector.score-coarse": ["VEC-2"], "the score is one of a hundred steps"
        => results_of(SearchMode::Vector, |_, results| results.hits.iter_mut().for_each(|hit| hit.score = (hit.score * 100.0).round() / 100.0));
    "vector.approximate": ["VEC-2"], "a near hit is missed now and then"
        => over(Request::Search { scope, mut query } => {
            let (top_k, misses) = (query.top_k, query.mode == SearchMode::Vector && query.top_k > 5);
            if misses {
                query.top_k += 1;
            }
            let mut results = kv(&next)?.search(&scope, query).await?;
            if misses && results.hits.len() > top_k {
                results.hits.remove(4);
            }
            Ok(Reply::Search(results))
        });
    "vector.first-thousand": ["VEC-2"], "only a scope's first thousand vectors are compared"
        => results_of(SearchMode::Vector, |_, results| {
            results.hits.retain(|hit| !hit.entry.key.as_str().parse().is_ok_and(|n: u32| n >= 1_000));
        });
    "vector.ties-backwards": ["VEC-2", "SRC-6"], "ties break by key, backwards" => results_of(SearchMode::Vector, ties_backwards);
    "vector.negative-left-out": ["VEC-3"], "entries that point away are no hits"
        => results_of(SearchMode::Vector, |_, results| results.hits.retain(|hit| hit.score > 0.0));
    "vector.negative-cut-first": ["VEC-3"], "hits are cut to top_k before those that score 0 are ordered by key"
        => around(cut_before_order);
    "vector.filter-on-the-best": ["VEC-4"], "the best fifty are filtered"
        => around(among_best(request, next, |query| query.filter = None).await);
    "vector.prefix-on-the-best": ["VEC-4"], "the prefix is looked at among the best fifty"
        => around(among_best(request, next, |query| query.prefix.clear()).await);
    "vector.deleted-found": ["VEC-5", "DEL-4"], "a deleted entry is still found by its vector" => around(stale_index::deleted(memory, request, next, finds).await);
    "vector.dropped-found": ["VEC-5", "SCO-4"], "entries of a dropped scope are still found" => around(stale_index::dropped(memory, request, next, finds).await);
    "vector.lags": ["VEC-5"], "the latest write is not found" => around(lags);
    "vector.own-writes-only": ["VEC-5", "VEC-8"], "a handle finds only its own writes" => around(own_writes);
    "vector.falls-back-to-words": ["VEC-6"], "without a query vector the search falls back to words"
        => around(instead(request, next, true).await);
    "vector.failure-finds-nothing": ["VEC-6"], "without a query vector nothing is found"
        => around(instead(request, next, false).await);
    "vector.failure-is-internal": ["VEC-6"], "without a query vector the error is `internal`"
        => refuse(|op, error| {
            let of_embedder = matches!(
                error.kind(),
                ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::RateLimited | ErrorKind::TooLarge
            );
            if op == Op::Search && of_embedder {
                return Error::internal("the query could not be embedded; try again");
            }
            error
        });
    "vector.words-need-the-embedder": ["VEC-6", "EMB-7"], "a lexical search embeds the query"
        => ask(Request::Search { scope, query } if query.mode == SearchMode::Lexical && next.provider().capabilities().vector_search => {
            let nowhere =
                Scope::new(scope.tenant.clone(), scope.kind, memory_core::ScopeId::new("nowhere at all")?);
            kv(&next)?.search(&nowhere, SearchQuery::new("words").with_mode(SearchMode::Vector)).await?;
        });
    "vector.query-as-document": ["VEC-7"], "queries are embedded as documents" => fault(Fault::QueryAsDocument);
    "vector.document-as-query": ["VEC-7"], "documents are embedded as queries" => fault(Fault::DocumentAsQuery);
    "vector.other-scopes-found": ["VEC-9", "ISO-1"], "vector hits come from all scopes" => around(other_scopes);
    "vector.score-among-scopes": ["VEC-9", "ISO-3"], "scores depend on the number of scopes" => around({
        if let Request::BulkInsert { scope, .. } = &request {
            memory.lock().scopes.insert(scope.clone());
        }
        changed(request, next, |_, results| {
            if memory.lock().scopes.len() > 1 {
                results.hits.iter_mut().for_each(|hit| hit.score *= 0.999);
            }
        })
        .await
    });
    "vector.not-counted": ["SRC-13"], "vector hits are not counted as accesses" => fault(Fault::VectorSearchDoesNotCount);
    "vector.rank-ignored": ["RNK-1"], "vector search ignores rank options"
        => query_of(SearchMode::Vector, |query| query.rank = memory_core::RankOptions::default());
    "vector.threshold-ignored": ["SRC-10"], "vector search ignores the threshold" => query_of(SearchMode::Vector, |query| query.threshold = None);
    "vector.mode-untold": ["SRC-12"], "a vector search reports the hybrid mode" => results(|_, results| {
        if results.mode == SearchMode::Vector {
            results.mode = SearchMode::Hybrid;
        }
    });
    "vector.top-k-doubled": ["SRC-7"], "a vector search returns twice as many hits" => query_of(SearchMode::Vector, |query| query.top_k *= 2);
}

/// Changes the results of searches by vectors.
async fn changed(
    request: Request,
    next: Next<'_>,
    change: impl FnOnce(&SearchQuery, &mut SearchResults) + Send,
) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    let mut results = kv(&next)?.search(&scope, query.clone()).await?;
    if query.mode == SearchMode::Vector {
        change(&query, &mut results);
    }
    Ok(Reply::Search(results))
}

fn needs_words(query: &SearchQuery, results: &mut SearchResults) {
    let terms = query_terms(&query.text);
    results.hits.retain(|hit| {
        let words: BTreeSet<String> = tokens(&hit.entry.search_text()).into_iter().collect();
        terms.iter().any(|term| words.contains(term))
    });
}

fn matches(query: &SearchQuery, entry: &Entry) -> bool {
    entry.key.as_str().starts_with(&query.prefix)
        && query.filter.as_ref().is_none_or(|filter: &Filter| filter.matches(entry))
        && query.threshold.is_none_or(|threshold| threshold <= 0.0)
}

async fn bare_are_hits(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    let mut results = kv(&next)?.search(&scope, query.clone()).await?;
    if query.mode == SearchMode::Vector {
        for entry in everything(&next, &scope).await? {
            let known = results.hits.iter().any(|hit| hit.entry.key == entry.key);
            if !known && results.hits.len() < query.top_k && matches(&query, &entry) {
                results.hits.push(Hit::new(entry, 0.0, 0.0));
            }
        }
    }
    Ok(Reply::Search(results))
}

fn score_shifted(_: &SearchQuery, results: &mut SearchResults) {
    for hit in &mut results.hits {
        let shifted = f64::midpoint(1.0, hit.score);
        (hit.score, hit.rank_score) = (shifted, shifted);
    }
}

fn ties_backwards(_: &SearchQuery, results: &mut SearchResults) {
    results
        .hits
        .sort_by(|a, b| b.rank_score.total_cmp(&a.rank_score).then_with(|| b.entry.key.cmp(&a.entry.key)));
}

/// Takes the best fifty of all, then those that match.
async fn among_best(request: Request, next: Next<'_>, loosen: fn(&mut SearchQuery)) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    if query.mode != SearchMode::Vector {
        return next.run(Request::Search { scope, query }).await;
    }
    let mut loose = query.clone();
    loosen(&mut loose);
    loose.top_k = 50;
    let mut results = kv(&next)?.search(&scope, loose).await?;
    results.hits.retain(|hit| {
        hit.entry.key.as_str().starts_with(&query.prefix)
            && query.filter.as_ref().is_none_or(|filter| filter.matches(&hit.entry))
    });
    results.hits.truncate(query.top_k);
    Ok(Reply::Search(results))
}

/// Whether a vector search finds an entry in a stale index.
fn finds(query: &SearchQuery, _: &Entry) -> bool {
    query.mode == SearchMode::Vector
}

async fn lags(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Set { scope, key, value, options } => {
            memory.lock().positions = [(key.as_str().to_owned(), 0)].into();
            Ok(Reply::Set(kv(&next)?.set(&scope, &key, value, options).await?))
        }
        Request::Search { .. } => {
            changed(request, next, |_, results| {
                let memory = memory.lock();
                results.hits.retain(|hit| !memory.positions.contains_key(hit.entry.key.as_str()));
            })
            .await
        }
        request => next.run(request).await,
    }
}

async fn own_writes(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match &request {
        Request::Set { key, .. } | Request::Increment { key, .. } | Request::Update { key, .. } => {
            memory.lock().positions.insert(key.as_str().to_owned(), 0);
        }
        Request::BulkInsert { items, .. } => {
            let mut memory = memory.lock();
            memory.positions.extend(items.iter().map(|item| (item.key.as_str().to_owned(), 0)));
        }
        // Entries embedded or imported through this handle are known to it.
        Request::Reembed { .. } | Request::ImportScope { .. } => memory.lock().flag = true,
        _ => {}
    }
    changed(request, next, |_, results| {
        let memory = memory.lock();
        results.hits.retain(|hit| memory.flag || memory.positions.contains_key(hit.entry.key.as_str()));
    })
    .await
}

/// Changes the answer when the query cannot be embedded.
async fn instead(request: Request, next: Next<'_>, words: bool) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    match kv(&next)?.search(&scope, query.clone()).await {
        Err(error) if query.mode != SearchMode::Lexical && error.kind() != ErrorKind::Unsupported => {
            if words {
                let query = query.with_mode(SearchMode::Lexical);
                return Ok(Reply::Search(kv(&next)?.search(&scope, query).await?));
            }
            Ok(Reply::Search(SearchResults::new(Vec::new(), query.mode)))
        }
        reply => Ok(Reply::Search(reply?)),
    }
}

async fn cut_before_order(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    if query.mode != SearchMode::Vector {
        return next.run(Request::Search { scope, query }).await;
    }
    let mut results = kv(&next)?.search(&scope, query.clone().with_top_k(100)).await?;
    let positive = results.hits.partition_point(|hit| hit.score > 0.0);
    // The last by key take the place of the nearest.
    let excess = results.hits.len().saturating_sub(query.top_k);
    let end = (positive + excess).min(results.hits.len());
    results.hits.drain(positive..end);
    results.hits.truncate(query.top_k);
    Ok(Reply::Search(results))
}

async fn other_scopes(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::BulkInsert { scope, items, options } => {
            memory.lock().scopes.insert(scope.clone());
            Ok(Reply::BulkInsert(kv(&next)?.bulk_insert(&scope, items, options).await?))
        }
        Request::Search { scope, query } => {
            let mut results = kv(&next)?.search(&scope, query.clone()).await?;
            let others: Vec<Scope> =
                memory.lock().scopes.iter().filter(|other| **other != scope).cloned().collect();
            for other in others.iter().filter(|_| query.mode == SearchMode::Vector) {
                results.hits.extend(kv(&next)?.search(other, query.clone()).await?.hits);
            }
            results.hits.sort_by(|a, b| b.rank_score.total_cmp(&a.rank_score));
            results.hits.truncate(query.top_k);
            Ok(Reply::Search(results))
        }
        request => next.run(request).await,
    }
}
