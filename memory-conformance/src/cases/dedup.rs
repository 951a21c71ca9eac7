//! DED: hits that say the same.

use memory_core::{
    Dedup, DedupPolicy, Embed, ErrorKind, Scope, SearchMode, SearchQuery, SearchResults, SetOptions,
};

use crate::case::cases;
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::{Cx, hit_keys};

cases! {
    "dedup.vectorless.pass": [Kv, Lexical], ["DED-3"] => vectorless;
    "dedup.threshold.range": [Kv, Lexical], ["DED-5"] => range;
    "dedup.drop.leaves-out": [Kv, Vector], ["DED-1", "DED-2"] => drops;
    "dedup.merge.names": [Kv, Vector], ["DED-2"] => merges;
    "dedup.keep.counts": [Kv, Vector], ["DED-2"] => keeps;
    "dedup.drop.makes-room": [Kv, Vector], ["DED-4"] => makes_room;
    "dedup.threshold.decides": [Kv, Vector], ["DED-1"] => threshold_decides;
    "dedup.none.keeps-all": [Kv, Vector], ["DED-1"] => none;
    "dedup.vectorless.pass-among-vectors": [Kv, Vector, Lexical], ["DED-3"] => among_vectors;
}

const POLICIES: [DedupPolicy; 3] = [DedupPolicy::Drop, DedupPolicy::Merge, DedupPolicy::Keep];

async fn vectorless(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
    for name in ["a", "b", "c"] {
        cx.set_with(&scope, name, "\"green tea\"", SetOptions::default().with_embed(Embed::Never)).await?;
    }
    for policy in POLICIES {
        for threshold in [0.0, 0.9] {
            let query = SearchQuery::new("green tea").with_mode(SearchMode::Lexical);
            let found = cx.kv().search(&scope, query.with_dedup(Dedup { threshold, policy })).await?;
            expect_eq!(
                hit_keys(&found.hits),
                ["a", "b", "c"],
                "hits without vectors, {policy:?} from {threshold}"
            );
            expect_eq!(found.duplicates, 0, "duplicates among hits without vectors");
        }
    }
    Ok(())
}

async fn range(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
    cx.say(&scope, "a", "tea").await?;
    for threshold in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let dedup = Dedup { threshold, ..Dedup::default() };
        let query = SearchQuery::new("tea").with_mode(SearchMode::Lexical).with_dedup(dedup);
        expect_kind!(
            cx.find(&scope, query).await,
            ErrorKind::InvalidArgument,
            "a dedup threshold of {threshold}"
        );
    }
    Ok(())
}

/// Three that say the same, and two others.
async fn repetitive(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    for (name, sentence) in [
        ("a", "ann drinks green tea"),
        ("b", "ann drinks green tea"),
        ("c", "ann drinks green tea"),
        ("d", "the lighthouse keeper likes green apples"),
        ("e", "bob paints boats near green fields"),
    ] {
        cx.say(&scope, name, sentence).await?;
    }
    Ok(scope)
}

async fn found(
    cx: &Cx,
    scope: &Scope,
    dedup: Option<DedupPolicy>,
    top_k: usize,
) -> CaseResult<SearchResults> {
    let mut query = SearchQuery::new("ann drinks green tea").with_top_k(top_k);
    query.dedup = dedup.map(|policy| Dedup { threshold: 0.99, policy });
    Ok(cx.kv().search(scope, query).await?)
}

fn sorted(results: &SearchResults) -> Vec<&str> {
    let mut keys = hit_keys(&results.hits);
    keys.sort_unstable();
    keys
}

async fn drops(cx: &Cx) -> CaseResult {
    let scope = repetitive(cx).await?;
    let results = found(cx, &scope, Some(DedupPolicy::Drop), 10).await?;
    expect_eq!(sorted(&results), ["a", "d", "e"], "hits with duplicates dropped");
    expect_eq!(results.duplicates, 2, "duplicates counted");
    check!(results.hits.iter().all(|hit| hit.merged.is_empty()), "a policy of drop named what it dropped");
    Ok(())
}

async fn merges(cx: &Cx) -> CaseResult {
    let scope = repetitive(cx).await?;
    let results = found(cx, &scope, Some(DedupPolicy::Merge), 10).await?;
    expect_eq!(sorted(&results), ["a", "d", "e"], "hits with duplicates merged");
    expect_eq!(results.duplicates, 2, "duplicates counted");
    for hit in &results.hits {
        let merged: Vec<&str> = hit.merged.iter().map(|key| key.as_str()).collect();
        let due: &[&str] = if hit.entry.key.as_str() == "a" { &["b", "c"] } else { &[] };
        expect_eq!(merged, due, "what was merged into `{}`", hit.entry.key);
    }
    Ok(())
}

async fn keeps(cx: &Cx) -> CaseResult {
    let scope = repetitive(cx).await?;
    let results = found(cx, &scope, Some(DedupPolicy::Keep), 10).await?;
    expect_eq!(sorted(&results), ["a", "b", "c", "d", "e"], "hits with duplicates kept");
    expect_eq!(results.duplicates, 2, "duplicates counted");
    Ok(())
}

async fn makes_room(cx: &Cx) -> CaseResult {
    let scope = repetitive(cx).await?;
    for top_k in [1, 2, 3] {
        let results = found(cx, &scope, Some(DedupPolicy::Drop), top_k).await?;
        expect_eq!(results.hits.len(), top_k, "hits with top_k {top_k} where three are distinct");
        let best = expect_some!(results.hits.first(), "the best hit");
        expect_eq!(best.entry.key.as_str(), "a", "the best hit with top_k {top_k}");
    }
    Ok(())
}

async fn threshold_decides(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
    let (tea, coffee) = ("ann drinks green tea every morning", "ann drinks black coffee every evening");
    cx.say_all(&scope, &[("coffee", coffee), ("tea", tea)]).await?;
    // Whatever the model, texts that share words do not point in opposite directions, and are not equal.
    for (threshold, due) in [(0.0, 1), (1.0, 2)] {
        let dedup = Dedup { threshold, policy: DedupPolicy::Drop };
        let hits = cx.find(&scope, SearchQuery::new(tea).with_dedup(dedup)).await?;
        expect_eq!(hits.len(), due, "hits of two alike with a dedup threshold of {threshold}");
    }
    Ok(())
}

async fn none(cx: &Cx) -> CaseResult {
    let scope = repetitive(cx).await?;
    let results = found(cx, &scope, None, 10).await?;
    expect_eq!(sorted(&results), ["a", "b", "c", "d", "e"], "hits without dedup");
    expect_eq!(results.duplicates, 0, "duplicates counted without dedup");
    Ok(())
}

async fn among_vectors(cx: &Cx) -> CaseResult {
    let scope = repetitive(cx).await?;
    let bare = SetOptions::default().with_embed(Embed::Never);
    cx.set_with(&scope, "b", "\"ann drinks green tea\"", bare).await?;
    let results = found(cx, &scope, Some(DedupPolicy::Drop), 10).await?;
    expect_eq!(sorted(&results), ["a", "b", "d", "e"], "hits where `b` has no vector and `c` repeats `a`");
    expect_eq!(results.duplicates, 1, "duplicates counted");
    Ok(())
}
