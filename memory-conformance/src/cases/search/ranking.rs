//! RNK: ranking of hits beyond similarity.

use memory_core::{
    ErrorKind, Fusion, Hit, Json, NewEntry, RankOptions, Scope, SearchMode, SearchQuery, SetOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::{Cx, hit_keys, key, source};

pub(crate) const CASES: &[Case] = &[
    case!("rank.formula.every-term", [Kv, Lexical], ["RNK-1"], |cx| {
        let scope = varied(cx).await?;
        let labels = weights(&[("chat", 0.7), ("web", -0.4), ("nobody", 50.0)]);
        for rank in [
            RankOptions::default(),
            options(|rank| rank.similarity = 7.5),
            options(|rank| (rank.recency, rank.half_life_seconds) = (0.3, 7_200.0)),
            options(|rank| (rank.source, rank.source_weights) = (1.5, labels.clone())),
            options(|rank| rank.frequency = 0.2),
            options(|rank| {
                (rank.similarity, rank.recency, rank.half_life_seconds) = (0.5, 2.0, 1_000.0);
                (rank.source, rank.source_weights, rank.frequency) = (0.9, labels, 0.4);
            }),
        ] {
            let hits = cx.find(&scope, query("green tea", rank.clone())).await?;
            expect_eq!(hits.len(), 5, "hits with {rank:?}");
            for hit in &hits {
                let due = due(cx, hit, &rank);
                let name = &hit.entry.key;
                check!(
                    (hit.rank_score - due).abs() < 1e-9,
                    "`{name}` ranks {}, expected {due}, with {rank:?}",
                    hit.rank_score
                );
            }
            let ordered = hits.is_sorted_by(|a, b| {
                a.rank_score > b.rank_score || (a.rank_score == b.rank_score && a.entry.key < b.entry.key)
            });
            check!(ordered, "hits are not in order of rank_score: {:?}", hit_keys(&hits));
        }
    }),
    case!("rank.order.ties-by-key", [Kv, Lexical], ["RNK-1"], |cx, scope: Scope| {
        cx.say_all(&scope, &[("b", "tea"), ("é", "tea"), ("a", "tea"), ("Z", "tea"), ("🦀", "tea")]).await?;
        let hits = cx
            .find(&scope, query("tea", options(|rank| (rank.recency, rank.similarity) = (1.0, 3.0))))
            .await?;
        expect_eq!(hit_keys(&hits), ["Z", "a", "b", "é", "🦀"]);
    }),
    case!("rank.recency.halves", [Kv, Lexical], ["RNK-2"], |cx, scope: Scope| {
        cx.stand_still();
        let rank = options(|rank| (rank.similarity, rank.recency, rank.half_life_seconds) = (0.0, 1.0, 10.0));
        cx.say(&scope, "k", "tea").await?;
        for (age, due) in
            [(0_u32, 1.0), (10, 0.5), (20, 0.25), (25, 0.176_776_695_296_636_9), (100, 0.000_976_562_5)]
        {
            let hits = cx.find(&scope, query("tea", rank.clone())).await?;
            let hit = expect_some!(hits.first(), "the hit");
            check!(
                (hit.rank_score - due).abs() < 1e-9,
                "at {age} s of a half-life of 10 s: {}, expected {due}",
                hit.rank_score
            );
            let next = match age {
                0 | 10 => 10_000,
                20 => 5_000,
                _ => 75_000,
            };
            cx.advance_ms(next);
        }
    }),
    case!("rank.recency.from-last-write", [Kv, Lexical], ["RNK-2"], |cx, scope: Scope| {
        cx.say_all(&scope, &[("a", "tea"), ("b", "tea"), ("c", "tea")]).await?;
        cx.advance_ms(60_000);
        cx.say(&scope, "b", "tea").await?;
        cx.access(&scope, "a").await?;
        let rank = options(|rank| (rank.recency, rank.half_life_seconds) = (1.0, 60.0));
        let hits = cx.find(&scope, query("tea", rank)).await?;
        expect_eq!(hit_keys(&hits), ["b", "a", "c"], "hits after `b` was written again and `a` was read");
    }),
    case!("rank.source.exact-label", [Kv, Lexical], ["RNK-3"], |cx, scope: Scope| {
        for (name, label) in [("a", "chat"), ("b", "Chat"), ("c", "chat:1"), ("d", "web"), ("e", "cha_")] {
            let options = SetOptions::default().with_source(source(label)?);
            cx.kv().set(&scope, &key(name)?, Json::string("tea"), options).await?;
        }
        cx.say(&scope, "f", "tea").await?;
        let rank = options(|rank| {
            (rank.similarity, rank.source, rank.source_weights) =
                (0.0, 2.0, weights(&[("chat", 0.5), ("web", -1.0)]));
        });
        let hits = cx.find(&scope, query("tea", rank)).await?;
        let scores: Vec<(&str, f64)> =
            hits.iter().map(|hit| (hit.entry.key.as_str(), hit.rank_score)).collect();
        expect_eq!(scores, [("a", 1.0), ("b", 0.0), ("c", 0.0), ("e", 0.0), ("f", 0.0), ("d", -2.0)]);
    }),
    case!("rank.frequency.before-this-search", [Kv, Lexical], ["RNK-4"], |cx, scope: Scope| {
        cx.say_all(&scope, &[("a", "tea"), ("b", "tea")]).await?;
        let rank = options(|rank| (rank.similarity, rank.frequency) = (0.0, 1.0));
        for (searches, due) in [(0_u32, 0.0_f64), (1, 2.0_f64.ln()), (2, 3.0_f64.ln())] {
            let hits = cx.find(&scope, query("tea", rank.clone())).await?;
            for hit in &hits {
                check!(
                    (hit.rank_score - due).abs() < 1e-9,
                    "after {searches} searches `{}` ranks {}, expected {due}",
                    hit.entry.key,
                    hit.rank_score
                );
            }
        }
        cx.access(&scope, "b").await?;
        let hits = cx.find(&scope, query("tea", rank)).await?;
        expect_eq!(hit_keys(&hits), ["b", "a"], "hits after one more read of `b`");
    }),
    case!("rank.score.unmoved", [Kv, Lexical], ["RNK-5", "SRC-10"], |cx| {
        let scope = varied(cx).await?;
        let plain = cx.find(&scope, query("green tea", RankOptions::default())).await?;
        let boosted = options(|rank| {
            (rank.similarity, rank.recency, rank.frequency, rank.source) = (0.0, 50.0, 50.0, 50.0);
            rank.source_weights = weights(&[("Chat", 1.0)]);
        });
        let hits = cx.find(&scope, query("green tea", boosted.clone())).await?;
        for hit in &hits {
            let due = plain.iter().find(|other| other.entry.key == hit.entry.key).map(|other| other.score);
            expect_eq!(
                Some(hit.score),
                due,
                "the score of `{}`, which no rank option changes",
                hit.entry.key
            );
        }
        // `d` ranks high but scores low: the threshold applies to the score.
        let lowest = expect_some!(plain.last(), "the lowest hit");
        expect_eq!(lowest.entry.key.as_str(), "d", "the lowest score");
        let above = query("green tea", boosted).with_threshold(lowest.score + 1e-6);
        let hits = cx.find(&scope, above).await?;
        expect_eq!(hits.len(), 4, "hits above the lowest score");
        check!(!hit_keys(&hits).contains(&"d"), "a hit of a lower score passed the threshold by its rank");
    }),
    case!("rank.top-k.after-ranking", [Kv, Lexical], ["RNK-6"], |cx| {
        let scope = alike(cx, 150, &[60, 149]).await?;
        for similarity in [1.0, 0.0] {
            let hits = cx.find(&scope, query("tea", by_source(similarity)).with_top_k(3)).await?;
            expect_eq!(
                hit_keys(&hits),
                ["0060", "0149", "0000"],
                "the best three of 150, two of them boosted"
            );
        }
    }),
    case!("rank.pool.best-two-thousand", [Kv, Lexical], ["RNK-6"], |cx| {
        // All score the same, so the best 2,000 are the first by key.
        let scope = alike(cx, 2_002, &[1_999, 2_000, 2_001]).await?;
        let hits = cx.find(&scope, query("tea", by_source(0.0)).with_top_k(2)).await?;
        expect_eq!(
            hit_keys(&hits),
            ["1999", "0000"],
            "the best two, if one boosted entry is in the pool and two are not"
        );
    }),
    case!("rank.similarity.zero", [Kv, Lexical], ["RNK-6"], |cx| {
        let scope = varied(cx).await?;
        let rank =
            options(|rank| (rank.similarity, rank.recency, rank.half_life_seconds) = (0.0, 1.0, 3_600.0));
        let hits = cx.find(&scope, query("green tea", rank)).await?;
        expect_eq!(hit_keys(&hits), ["e", "d", "c", "b", "a"], "hits by recency alone");
        check!(hits.iter().all(|hit| hit.score > 0.0), "a score is missing if similarity has weight 0");
        let nothing = options(|rank| rank.similarity = 0.0);
        let hits = cx.find(&scope, query("green tea", nothing)).await?;
        expect_eq!(hit_keys(&hits), ["a", "b", "c", "d", "e"], "hits if all weights are 0");
    }),
    case!("rank.options.range", [Kv, Lexical], ["RNK-7"], |cx| {
        let scope = varied(cx).await?;
        for (what, bad) in [
            ("similarity −1", options(|rank| rank.similarity = -1.0)),
            ("similarity 101", options(|rank| rank.similarity = 101.0)),
            ("similarity NaN", options(|rank| rank.similarity = f64::NAN)),
            ("recency −0.1", options(|rank| rank.recency = -0.1)),
            ("recency ∞", options(|rank| rank.recency = f64::INFINITY)),
            ("half-life 0", options(|rank| rank.half_life_seconds = 0.0)),
            ("half-life −1", options(|rank| rank.half_life_seconds = -1.0)),
            ("half-life 1e300", options(|rank| rank.half_life_seconds = 1e300)),
            ("source 101", options(|rank| rank.source = 101.0)),
            ("source weight 101", options(|rank| rank.source_weights = weights(&[("a", 101.0)]))),
            ("source weight NaN", options(|rank| rank.source_weights = weights(&[("a", f64::NAN)]))),
            ("frequency −1", options(|rank| rank.frequency = -1.0)),
            ("fusion 1.5", options(|rank| rank.fusion = Fusion::Weighted { vector: 1.5 })),
            ("fusion k 0", options(|rank| rank.fusion = Fusion::ReciprocalRank { k: 0 })),
        ] {
            expect_kind!(cx.find(&scope, query("tea", bad)).await, ErrorKind::InvalidArgument, "{what}");
        }
    }),
];

fn query(text: &str, rank: RankOptions) -> SearchQuery {
    SearchQuery::new(text).with_mode(SearchMode::Lexical).with_rank(rank)
}

/// The default with some fields changed.
fn options(change: impl FnOnce(&mut RankOptions)) -> RankOptions {
    let mut options = RankOptions::default();
    change(&mut options);
    options
}

fn weights(labels: &[(&str, f64)]) -> std::collections::BTreeMap<String, f64> {
    labels.iter().map(|(label, weight)| ((*label).to_owned(), *weight)).collect()
}

/// Entries with different words, age, source and accesses.
async fn varied(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    for (name, sentence, label, reads) in [
        ("a", "green tea", Some("chat"), 0),
        ("b", "green tea in a somewhat longer sentence", Some("web"), 5),
        ("c", "tea", None, 1),
        ("d", "green water", Some("Chat"), 2),
        ("e", "green tea", Some("chat"), 9),
    ] {
        let mut options = SetOptions::default();
        options.source = label.map(source).transpose()?;
        cx.kv().set(&scope, &key(name)?, Json::string(sentence), options).await?;
        for _ in 0..reads {
            cx.access(&scope, name).await?;
        }
        cx.advance_ms(3_600_000);
    }
    Ok(scope)
}

/// The formula, term by term.
fn due(cx: &Cx, hit: &Hit, rank: &RankOptions) -> f64 {
    let age = cx.now().saturating_since(hit.entry.updated_at).as_secs_f64();
    let label = hit.entry.source.as_ref().map(|source| source.as_str());
    let weight = label.and_then(|label| rank.source_weights.get(label)).copied().unwrap_or(0.0);
    let accesses = u32::try_from(hit.entry.access_count).unwrap_or(u32::MAX);
    rank.similarity * hit.score
        + rank.recency * 0.5_f64.powf(age / rank.half_life_seconds)
        + rank.source * weight
        + rank.frequency * f64::from(accesses).ln_1p()
}

/// Entries with one text, and the source of the last of them.
async fn alike(cx: &Cx, count: usize, chosen: &[usize]) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let mut items = Vec::new();
    for at in 0..count {
        let mut item = NewEntry::new(key(&format!("{at:04}"))?, Json::string("tea"));
        if chosen.contains(&at) {
            item.options.source = Some(source("chosen")?);
        }
        items.push(item);
    }
    cx.bulk(&scope, items).await?;
    Ok(scope)
}

fn by_source(similarity: f64) -> RankOptions {
    options(|rank| {
        (rank.similarity, rank.source, rank.source_weights) = (similarity, 10.0, weights(&[("chosen", 1.0)]));
    })
}
