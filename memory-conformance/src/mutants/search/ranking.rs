//! SRC-4 to SRC-10, RNK: scores and order.

use memory_core::{Error, Hit, Next, RankOptions, Reply, Request, Result, Source};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::kv;
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "rank.ties-by-insertion": ["SRC-6", "RNK-1"], "ties break by the order of the writes" => answer(|reply| {
        hits(reply).sort_by(|a, b| {
            b.rank_score.total_cmp(&a.rank_score).then_with(|| a.entry.version.cmp(&b.entry.version))
        });
    });
    "rank.worst-first": ["SRC-6"], "the best hit comes last" => answer(|reply| hits(reply).reverse());
    "rank.score-relative": ["SRC-4"], "the best hit always scores 1" => answer(|reply| {
        let best = hits(reply).iter().map(|hit| hit.score).fold(f64::MIN_POSITIVE, f64::max);
        hits(reply).iter_mut().for_each(|hit| hit.score /= best);
    });
    "rank.score-counts-words": ["SRC-4", "SRC-5"], "every hit scores the same"
        => answer(|reply| hits(reply).iter_mut().for_each(|hit| (hit.score, hit.rank_score) = (0.5, 0.5)));
    "rank.score-not-saturated": ["SRC-4"], "scores leave [0, 1]" => answer(|reply| hits(reply).iter_mut().for_each(|hit| hit.score *= 10.0));
    "rank.score-is-rank-score": ["RNK-5"], "rank options change the score"
        => answer(|reply| hits(reply).iter_mut().for_each(|hit| hit.score = hit.rank_score.clamp(0.0, 1.0)));
    "rank.threshold-on-rank-score": ["SRC-10"], "the threshold works on the rank score"
        => around(by_threshold(request, next, |hit, threshold| hit.rank_score >= threshold).await);
    "rank.threshold-inverted": ["SRC-10"], "the threshold keeps the worse hits"
        => around(by_threshold(request, next, |hit, threshold| hit.score <= threshold).await);
    "rank.threshold-exclusive": ["SRC-10"], "a hit at the threshold is left out"
        => around(by_threshold(request, next, |hit, threshold| hit.score > threshold).await);
    "rank.threshold-ignored": ["SRC-10"], "the threshold is not looked at" => query(|query| query.threshold = None);
    "rank.threshold-clamped": ["SRC-10"], "a threshold outside [0, 1] is clamped in silence"
        => query_ahead(|query| query.threshold = query.threshold.map(|t| if t.is_nan() { 0.0 } else { t.clamp(0.0, 1.0) }));
    "rank.half-life-ignored": ["RNK-2"], "recency always halves in 30 days"
        => query(|query| query.rank.half_life_seconds = RankOptions::default().half_life_seconds);
    "rank.half-life-is-e-fold": ["RNK-2"], "recency falls to 1/e at the half-life"
        => query(|query| query.rank.half_life_seconds *= std::f64::consts::LN_2);
    "rank.recency-ignored": ["RNK-1"], "recency weighs nothing" => query(|query| query.rank.recency = 0.0);
    "rank.age-from-creation": ["RNK-2"], "age counts from the creation" => fault(Fault::AgeFromCreation);
    "rank.source-weights-ignored": ["RNK-3"], "sources weigh nothing" => query(|query| query.rank.source = 0.0);
    "rank.source-by-prefix": ["RNK-3"], "`tool` weighs `tool:web` too"
        => around(ranked(request, next, |rank, hit| {
            let Some(source) = hit.entry.source.as_ref().map(Source::as_str) else { return 0.0 };
            let parent = rank
                .source_weights
                .iter()
                .find(|(label, _)| source.strip_prefix(label.as_str()).is_some_and(|rest| rest.starts_with(':')));
            rank.source * parent.map_or(0.0, |(_, weight)| *weight)
        }).await);
    "rank.unlisted-source-weighs": ["RNK-3"], "unlisted sources weigh 1"
        => around(ranked(request, next, |rank, hit| {
            let listed =
                hit.entry.source.as_ref().is_some_and(|source| rank.source_weights.contains_key(source.as_str()));
            if listed { 0.0 } else { rank.source }
        }).await);
    "rank.frequency-ignored": ["RNK-1", "RNK-4"], "accesses weigh nothing" => query(|query| query.rank.frequency = 0.0);
    "rank.frequency-linear": ["RNK-1"], "accesses weigh without a logarithm" => around(frequency_linear);
    "rank.similarity-weight-ignored": ["RNK-1", "RNK-6"], "similarity always weighs 1" => query(|query| query.rank.similarity = 1.0);
    "rank.after-trim": ["RNK-6"], "only the best top_k by similarity are ranked"
        => over(Request::Search { scope, query } => {
            let mut by_similarity = query.clone().with_rank(RankOptions::default());
            by_similarity.dedup = None;
            let best = kv(&next)?.search(&scope, by_similarity).await?;
            let mut results = kv(&next)?.search(&scope, query).await?;
            results.hits.retain(|hit| best.hits.iter().any(|other| other.entry.key == hit.entry.key));
            Ok(Reply::Search(results))
        });
    "rank.options-clamped": ["RNK-7"], "options out of range are clamped in silence" => query_ahead(|query| {
        if query.rank.check().map_err(|error: Error| drop(error)).is_err() {
            query.rank = RankOptions::default();
        }
    });
}

fn hits(reply: &mut Reply) -> &mut [Hit] {
    match reply {
        Reply::Search(results) => &mut results.hits,
        _ => &mut [],
    }
}

/// Applies a custom threshold to all candidates.
async fn by_threshold(request: Request, next: Next<'_>, is_kept: fn(&Hit, f64) -> bool) -> Result<Reply> {
    let Request::Search { scope, mut query } = request else { return next.run(request).await };
    let top_k = query.top_k;
    let threshold = query.threshold.take();
    if threshold.is_some() {
        query.top_k = next.provider().capabilities().max_top_k;
    }
    let mut results = kv(&next)?.search(&scope, query).await?;
    if let Some(threshold) = threshold {
        results.hits.retain(|hit| is_kept(hit, threshold));
    }
    results.hits.truncate(top_k);
    Ok(Reply::Search(results))
}

/// Ranks all candidates with a custom extra term.
async fn ranked(request: Request, next: Next<'_>, extra: fn(&RankOptions, &Hit) -> f64) -> Result<Reply> {
    let Request::Search { scope, mut query } = request else { return next.run(request).await };
    let top_k = query.top_k;
    query.top_k = next.provider().capabilities().max_top_k;
    let rank = query.rank.clone();
    let mut results = kv(&next)?.search(&scope, query).await?;
    results.hits.iter_mut().for_each(|hit| hit.rank_score += extra(&rank, hit));
    results
        .hits
        .sort_by(|a, b| b.rank_score.total_cmp(&a.rank_score).then_with(|| a.entry.key.cmp(&b.entry.key)));
    results.hits.truncate(top_k);
    Ok(Reply::Search(results))
}

#[allow(clippy::cast_precision_loss, reason = "small counts")]
async fn frequency_linear(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    ranked(request, next, |rank, hit| {
        let count = hit.entry.access_count as f64;
        rank.frequency * (count - count.ln_1p())
    })
    .await
}
