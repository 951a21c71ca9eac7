//! SRC-15: what a provider keeps in memory affects only how long a search takes.

use memory_core::rank::{Dedup, RankOptions};
use memory_core::{Metadata, Scope, SearchMode, SearchQuery};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq};
use crate::cx::entries::filter;
use crate::cx::{Cx, ms, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("lexical.small-caches.same-hits", [Kv, Lexical], ["SRC-15"], |cx| {
        same_hits(cx, SearchMode::Lexical).await?;
    }),
    case!("vector.small-caches.same-hits", [Kv, Vector], ["SRC-15"], |cx| {
        same_hits(cx, SearchMode::Vector).await?;
    }),
    case!("hybrid.small-caches.same-hits", [Kv, Lexical, Vector], ["SRC-15"], |cx| {
        same_hits(cx, SearchMode::Hybrid).await?;
    }),
];

const CLOSE: f64 = 1e-9;
const WORDS: [&str; 8] = ["green", "tea", "kettle", "harbour", "lighthouse", "keeper", "coffee", "sleeps"];

/// Every parameter with a code path of its own, each with all hits and with few.
fn queries(mode: SearchMode) -> CaseResult<Vec<(&'static str, SearchQuery)>> {
    let query = || SearchQuery::new("green tea for the keeper").with_mode(mode);
    let recent = RankOptions { recency: 0.3, half_life_seconds: 0.01, ..RankOptions::default() };
    let kinds = vec![
        ("alone", query()),
        ("with a prefix", query().with_prefix("a/")),
        ("with a filter", query().with_filter(filter(r#"{"gte":["metadata.n",3]}"#)?)),
        ("with a threshold", query().with_threshold(0.3)),
        ("without duplicates", query().with_dedup(Dedup::default())),
        ("the recent first", query().with_rank(recent)),
    ];
    Ok(kinds
        .into_iter()
        .flat_map(|(kind, query)| [(kind, query.clone().with_top_k(3)), (kind, query.with_top_k(100))])
        .collect())
}

async fn same_hits(cx: &Cx, mode: SearchMode) -> CaseResult {
    let small = cx.on(cx.store().another_handle_with_small_caches().await?);
    let (scope, mut random) = (cx.scope()?, cx.random());
    for round in 0..3 {
        for _ in 0..40 {
            let folder = if random.below(2) == 0 { "a" } else { "b" };
            let name = format!("{folder}/{}", random.below(20));
            let sentence: Vec<&str> = (0..4).filter_map(|_| random.pick(&WORDS).copied()).collect();
            let labels = Metadata::new().with("n", i64::try_from(random.below(6)).unwrap_or_default());
            let options = match random.below(5) {
                0 => {
                    cx.delete(&scope, &name).await?;
                    continue;
                }
                1 => cx.expiring(2).with_metadata(labels),
                _ => tagged(labels),
            };
            cx.set_with(&scope, &name, &memory_core::Json::string(&sentence.join(" ")).to_string(), options)
                .await?;
        }
        // The second step reaches the millisecond of the expiry.
        for later in [1, 1] {
            cx.clock().advance(ms(later));
            compare(cx, &small, &scope, mode, round).await?;
        }
    }
    Ok(())
}

async fn compare(cx: &Cx, small: &Cx, scope: &Scope, mode: SearchMode, round: u32) -> CaseResult {
    for (kind, query) in queries(mode)? {
        let all = query.top_k == 100;
        let hits = |found: Vec<memory_core::Hit>| {
            let mut hits: Vec<(String, f64, f64)> = found
                .into_iter()
                .map(|hit| (hit.entry.key.as_str().to_owned(), hit.score, hit.rank_score))
                .collect();
            // If two scores are equal but for rounding, either may come first.
            if all {
                hits.sort_by(|a, b| a.0.cmp(&b.0));
            }
            hits
        };
        let (due, found) =
            (hits(cx.find(scope, query.clone()).await?), hits(small.find(scope, query).await?));
        expect_eq!(found.len(), due.len(), "hits with small caches, {kind}, in round {round}");
        for (found, due) in found.iter().zip(&due) {
            check!(!all || found.0 == due.0, "`{}` is found instead of `{}`, {kind}", found.0, due.0);
            check!(
                (found.1 - due.1).abs() < CLOSE && (found.2 - due.2).abs() < CLOSE,
                "with small caches `{}` scores {found:?}, else {due:?}, {kind}, in round {round}",
                found.0
            );
        }
    }
    Ok(())
}
