//! HYB: hybrid search.

use memory_core::{Fusion, Next, Reply, Request, Result, SearchMode, SearchQuery, SearchResults};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::kv;
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "hybrid.vectors-alone": ["HYB-1", "HYB-2"], "hybrid search ignores words"
        => around(by_one(request, next, SearchMode::Vector).await);
    "hybrid.words-alone": ["HYB-1", "HYB-2"], "hybrid search ignores vectors"
        => around(by_one(request, next, SearchMode::Lexical).await);
    "hybrid.both-sides-needed": ["HYB-1"], "only entries found by both words and vectors are hits" => around(both_needed);
    "hybrid.pool-of-hundred": ["HYB-1"], "candidates are the best hundred of each side" => fault(Fault::PoolOfHundred);
    "hybrid.pool-of-all": ["HYB-1"], "everything found by either side is a candidate" => fault(Fault::PoolOfAll);
    "hybrid.pool-sides-alone": ["HYB-1"], "a candidate gets only the similarities of the side that found it" => fault(Fault::PoolSidesAlone);
    "hybrid.scaled-over-scope": ["HYB-1", "HYB-3"], "scores are scaled over the whole scope, whatever the filter" => fault(Fault::ScaledOverScope);
    "hybrid.scaled-over-threshold": ["HYB-6"], "scores are scaled over what passes the threshold" => fault(Fault::ScaledOverThreshold);
    "hybrid.score-is-rank": ["HYB-2"], "the score is the rank"
        => results_of(SearchMode::Hybrid, |_, results| results.hits.iter_mut().for_each(|hit| hit.score = hit.rank_score.clamp(0.0, 1.0)));
    "hybrid.unscaled": ["HYB-3"], "scores are not scaled" => around(changed(request, next, |query, results| {
        if query.rank.is_similarity_only() && matches!(query.rank.fusion, Fusion::Weighted { .. }) {
            results.hits.iter_mut().for_each(|hit| hit.rank_score = hit.score);
            by_rank(results);
        }
    }).await);
    "hybrid.weight-ignored": ["HYB-2", "HYB-5"], "the weight is always a half"
        => ask(|request| fusion(request, |fusion| match fusion {
            Fusion::Weighted { .. } => Fusion::Weighted { vector: 0.5 },
            other => other,
        }));
    "hybrid.weight-turned": ["HYB-2", "HYB-5"], "the weight applies to the words"
        => ask(|request| fusion(request, |fusion| match fusion {
            Fusion::Weighted { vector } => Fusion::Weighted { vector: 1.0 - vector },
            other => other,
        }));
    "hybrid.reciprocal-ignored": ["HYB-4"], "reciprocal rank fusion is silently ignored" => ask(|request| fusion(request, |_| Fusion::default()));
    "hybrid.reciprocal-k-ignored": ["HYB-4"], "k is always 60"
        => ask(|request| fusion(request, |fusion| match fusion {
            Fusion::ReciprocalRank { .. } => Fusion::ReciprocalRank { k: 60 },
            other => other,
        }));
    "hybrid.reciprocal-unscaled": ["HYB-4"], "reciprocal ranks are not scaled to 1" => results_of(SearchMode::Hybrid, reciprocal_unscaled);
    "hybrid.reciprocal-from-zero": ["HYB-4"], "ranks start at 0"
        => ask(|request| fusion(request, |fusion| match fusion {
            Fusion::ReciprocalRank { k } => Fusion::ReciprocalRank { k: k.saturating_sub(1) },
            other => other,
        }));
    "hybrid.ties-backwards": ["HYB-3", "RNK-1"], "ties break by key in reverse" => results_of(SearchMode::Hybrid, ties_backwards);
    "hybrid.threshold-on-rank": ["HYB-6", "SRC-10"], "the threshold applies to the rank"
        => over(Request::Search { scope, mut query } => {
            let threshold = if query.mode == SearchMode::Hybrid { query.threshold.take() } else { None };
            let mut results = kv(&next)?.search(&scope, query).await?;
            results.hits.retain(|hit| threshold.is_none_or(|threshold| hit.rank_score >= threshold));
            Ok(Reply::Search(results))
        });
    "hybrid.rank-ignored": ["RNK-1"], "hybrid search ignores rank options" => query(|query| {
        if query.mode == SearchMode::Hybrid {
            query.rank =
                memory_core::RankOptions { fusion: query.rank.fusion, ..memory_core::RankOptions::default() };
        }
    });
    "hybrid.counts-all-found": ["SRC-13"], "all candidates count as accessed"
        => over(Request::Search { scope, mut query } => {
            let top_k = query.top_k;
            if query.mode == SearchMode::Hybrid {
                query.top_k = next.provider().capabilities().max_top_k;
            }
            let mut results = kv(&next)?.search(&scope, query).await?;
            results.hits.truncate(top_k);
            Ok(Reply::Search(results))
        });
}

/// Changes the results of hybrid searches; `fusion` is that of the query.
async fn changed(
    request: Request,
    next: Next<'_>,
    change: impl FnOnce(&SearchQuery, &mut SearchResults) + Send,
) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    let mut results = kv(&next)?.search(&scope, query.clone()).await?;
    if query.mode == SearchMode::Hybrid {
        change(&query, &mut results);
    }
    Ok(Reply::Search(results))
}

async fn by_one(request: Request, next: Next<'_>, mode: SearchMode) -> Result<Reply> {
    let Request::Search { scope, mut query } = request else { return next.run(request).await };
    let hybrid = query.mode == SearchMode::Hybrid;
    if hybrid {
        query.mode = mode;
    }
    let mut results = kv(&next)?.search(&scope, query).await?;
    if hybrid {
        results.mode = SearchMode::Hybrid;
    }
    Ok(Reply::Search(results))
}

async fn both_needed(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    let mut results = kv(&next)?.search(&scope, query.clone()).await?;
    if query.mode == SearchMode::Hybrid {
        for mode in [SearchMode::Lexical, SearchMode::Vector] {
            let mut one = query.clone().with_mode(mode).with_top_k(next.provider().capabilities().max_top_k);
            (one.threshold, one.dedup) = (None, None);
            let found = kv(&next)?.search(&scope, one).await?;
            results.hits.retain(|hit| found.hits.iter().any(|other| other.entry.key == hit.entry.key));
        }
    }
    Ok(Reply::Search(results))
}

fn by_rank(results: &mut SearchResults) {
    results
        .hits
        .sort_by(|a, b| b.rank_score.total_cmp(&a.rank_score).then_with(|| a.entry.key.cmp(&b.entry.key)));
}

fn fusion(request: &mut Request, change: fn(Fusion) -> Fusion) {
    if let Request::Search { query, .. } = request {
        query.rank.fusion = change(query.rank.fusion);
    }
}

fn reciprocal_unscaled(query: &SearchQuery, results: &mut SearchResults) {
    if let Fusion::ReciprocalRank { k } = query.rank.fusion {
        results.hits.iter_mut().for_each(|hit| hit.rank_score *= 2.0 / (f64::from(k) + 1.0));
    }
}

fn ties_backwards(_: &SearchQuery, results: &mut SearchResults) {
    results
        .hits
        .sort_by(|a, b| b.rank_score.total_cmp(&a.rank_score).then_with(|| b.entry.key.cmp(&a.entry.key)));
}
