//! DED: near-duplicate hits.

use memory_core::{
    Dedup, DedupPolicy, Embed, ErrorKind, Key, Scope, SearchMode, SearchQuery, SearchResults, SetOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::vectors::{by_both, by_vector, by_words, owned};
use crate::cx::{Cx, hit_keys};

pub(crate) const CASES: &[Case] = &[
    case!("dedup.vectorless.pass", [Kv, Lexical], ["DED-3"], |cx, scope: Scope| {
        for name in ["a", "b", "c"] {
            cx.set_with(&scope, name, "\"green tea\"", SetOptions::default().with_embed(Embed::Never))
                .await?;
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
    }),
    case!("dedup.threshold.range", [Kv, Lexical], ["DED-5"], |cx, scope: Scope| {
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
    }),
    case!("dedup.drop.leaves-out", [Kv, Vector], ["DED-1", "DED-2"], |cx| {
        let scope = repetitive(cx).await?;
        let results = found(cx, &scope, Some(DedupPolicy::Drop), 10).await?;
        expect_eq!(sorted(&results), ["a", "d", "e"], "hits with duplicates dropped");
        expect_eq!(results.duplicates, 2, "duplicates counted");
        check!(
            results.hits.iter().all(|hit| hit.merged.is_empty()),
            "a policy of drop named what it dropped"
        );
    }),
    case!("dedup.merge.names", [Kv, Vector], ["DED-2"], |cx| {
        let scope = repetitive(cx).await?;
        let results = found(cx, &scope, Some(DedupPolicy::Merge), 10).await?;
        expect_eq!(sorted(&results), ["a", "d", "e"], "hits with duplicates merged");
        expect_eq!(results.duplicates, 2, "duplicates counted");
        for hit in &results.hits {
            let merged: Vec<&str> = hit.merged.iter().map(|key| key.as_str()).collect();
            let due: &[&str] = if hit.entry.key.as_str() == "a" { &["b", "c"] } else { &[] };
            expect_eq!(merged, due, "what was merged into `{}`", hit.entry.key);
        }
    }),
    case!("dedup.keep.counts", [Kv, Vector], ["DED-2"], |cx| {
        let scope = repetitive(cx).await?;
        let results = found(cx, &scope, Some(DedupPolicy::Keep), 10).await?;
        expect_eq!(sorted(&results), ["a", "b", "c", "d", "e"], "hits with duplicates kept");
        expect_eq!(results.duplicates, 2, "duplicates counted");
    }),
    case!("dedup.drop.makes-room", [Kv, Vector], ["DED-4"], |cx| {
        let scope = repetitive(cx).await?;
        for top_k in [1, 2, 3] {
            let results = found(cx, &scope, Some(DedupPolicy::Drop), top_k).await?;
            expect_eq!(results.hits.len(), top_k, "hits with top_k {top_k} if three are distinct");
            let best = expect_some!(results.hits.first(), "the best hit");
            expect_eq!(best.entry.key.as_str(), "a", "the best hit with top_k {top_k}");
        }
    }),
    case!("dedup.threshold.decides", [Kv, Vector], ["DED-1"], |cx, scope: Scope| {
        let (tea, coffee) = ("ann drinks green tea every morning", "ann drinks black coffee every evening");
        cx.say_all(&scope, &[("coffee", coffee), ("tea", tea)]).await?;
        // Whatever the model, texts that share words are neither opposite nor equal.
        for (threshold, due) in [(0.0, 1), (1.0, 2)] {
            let dedup = Dedup { threshold, policy: DedupPolicy::Drop };
            let hits = cx.find(&scope, SearchQuery::new(tea).with_dedup(dedup)).await?;
            expect_eq!(hits.len(), due, "hits of two alike with a dedup threshold of {threshold}");
        }
    }),
    case!("dedup.none.keeps-all", [Kv, Vector], ["DED-1"], |cx| {
        let scope = repetitive(cx).await?;
        let results = found(cx, &scope, None, 10).await?;
        expect_eq!(sorted(&results), ["a", "b", "c", "d", "e"], "hits without dedup");
        expect_eq!(results.duplicates, 0, "duplicates counted without dedup");
    }),
    case!("dedup.vectorless.pass-among-vectors", [Kv, Vector, Lexical], ["DED-3"], |cx| {
        let scope = repetitive(cx).await?;
        let bare = SetOptions::default().with_embed(Embed::Never);
        cx.set_with(&scope, "b", "\"ann drinks green tea\"", bare).await?;
        let results = found(cx, &scope, Some(DedupPolicy::Drop), 10).await?;
        expect_eq!(sorted(&results), ["a", "b", "d", "e"], "hits if `b` has no vector and `c` repeats `a`");
        expect_eq!(results.duplicates, 1, "duplicates counted");
    }),
    case!("dedup.modes.in-each", [Kv, Vector, Lexical], ["DED-6", "DED-1"], |cx| {
        let scope = repetitive(cx).await?;
        let text = "ann drinks green tea";
        for query in [by_words(text), by_vector(text), by_both(text)] {
            let mode = query.mode;
            let dedup = Dedup { threshold: 0.99, policy: DedupPolicy::Drop };
            let results = cx.kv().search(&scope, query.with_dedup(dedup)).await?;
            expect_eq!(
                sorted(&results),
                ["a", "d", "e"],
                "hits of a search ({mode:?}) with duplicates dropped"
            );
            expect_eq!(results.duplicates, 2, "duplicates counted by a search ({mode:?})");
        }
    }),
    case!("dedup.chain.duplicates-stand-for-nothing", [Kv, Vector], ["DED-7"], |cx| {
        let (scope, threshold) = chained(cx).await?;
        for (policy, due) in [
            (DedupPolicy::Drop, &["a", "c"][..]),
            (DedupPolicy::Merge, &["a", "c"]),
            (DedupPolicy::Keep, &["a", "b", "c"]),
        ] {
            let query = chain_query(0).with_dedup(Dedup { threshold, policy });
            let found = cx.kv().search(&scope, query).await?;
            expect_eq!(
                hit_keys(&found.hits),
                due,
                "hits with {policy:?} if `b` resembles `a` and `c` resembles only `b`"
            );
            expect_eq!(found.duplicates, 1, "duplicates with {policy:?}");
        }
    }),
    case!("dedup.merge.from-better-to-worse", [Kv, Vector], ["DED-8", "DED-2"], |cx| {
        let (scope, threshold) = chained(cx).await?;
        // Both others are similar to `b`; the one nearer to the query ranks higher.
        let near: Vec<String> = {
            let hits = cx.find(&scope, chain_query(1)).await?;
            hit_keys(&hits).into_iter().map(str::to_owned).collect()
        };
        expect_eq!(near.first().map(String::as_str), Some("b"), "the best hit of its own text");
        let dedup = Dedup { threshold, policy: DedupPolicy::Merge };
        let found = cx.kv().search(&scope, chain_query(1).with_dedup(dedup)).await?;
        expect_eq!(hit_keys(&found.hits), ["b"], "hits if both others resemble the best");
        expect_eq!(
            merged(&found, "b"),
            near.split_at(1).1,
            "the keys merged into the best, in the order of their rank"
        );
        expect_eq!(found.duplicates, 2, "duplicates counted");
    }),
    case!("dedup.merge.into-the-first-that-resembles", [Kv, Vector], ["DED-1", "DED-8"], |cx| {
        let (scope, threshold) = chained(cx).await?;
        let source = |label: &str| crate::cx::source(label);
        // `a` and `c` are kept; `b`, similar to both, ranks last and merges into the better one.
        let words = |from: usize| (from..from + 8).map(|n| format!("link{n}")).collect::<Vec<_>>().join(" ");
        for (name, from, label) in [("a", 0, "second"), ("b", 1, "third"), ("c", 2, "first")] {
            let text = format!("\"{}\"", words(from));
            cx.set_with(&scope, name, &text, SetOptions::default().with_source(source(label)?)).await?;
        }
        let rank = memory_core::RankOptions {
            source: 10.0,
            source_weights: [("first".to_owned(), 2.0), ("second".to_owned(), 1.0)].into(),
            ..memory_core::RankOptions::default()
        };
        let dedup = Dedup { threshold, policy: DedupPolicy::Merge };
        let found = cx.kv().search(&scope, chain_query(0).with_rank(rank).with_dedup(dedup)).await?;
        expect_eq!(hit_keys(&found.hits), ["c", "a"], "hits if `b`, the last, resembles both others");
        expect_eq!(merged(&found, "c"), ["b"], "the keys merged into the better of the two");
        expect_eq!(merged(&found, "a").len(), 0, "keys merged into the worse of the two");
    }),
    case!("dedup.threshold.one-and-zero", [Kv, Vector], ["DED-9"], |cx, scope: Scope| {
        owned(cx)?;
        let tea = "ann drinks green tea";
        let away = (0..10_000).map(|n| format!("word{n}")).find(|word| cx.cosine(tea, word) < -0.05);
        let away = expect_some!(away, "a word that points away");
        let near = "ann drinks green tea daily";
        cx.say_all(
            &scope,
            &[("away", &away), ("near", near), ("same", "tea: green, Ann drinks"), ("tea", tea)],
        )
        .await?;
        for (threshold, due, duplicates) in
            [(1.0, &["away", "near", "same"][..], 1), (0.0, &["away", "same"], 2)]
        {
            let query = by_vector(tea).with_dedup(Dedup { threshold, policy: DedupPolicy::Drop });
            let found = cx.kv().search(&scope, query).await?;
            expect_eq!(sorted(&found), due, "hits of four with a dedup threshold of {threshold}");
            expect_eq!(found.duplicates, duplicates, "duplicates with a dedup threshold of {threshold}");
        }
    }),
    case!("dedup.threshold.inclusive", [Kv, Vector], ["DED-1"], |cx| {
        let (scope, _) = chained(cx).await?;
        // Only `a` and `c`, so that their cosine decides.
        cx.delete(&scope, "b").await?;
        let records = cx.export(&scope).await?;
        let vectors: Vec<&[f32]> = records
            .iter()
            .flat_map(|record| &record.vectors)
            .map(|vector| vector.vector.as_slice())
            .collect();
        let [a, c] = vectors.as_slice() else {
            return Err(crate::check::Stop::failed("two entries have not two vectors"));
        };
        let cosine = memory_core::embed::cosine(c, a);
        for (threshold, due) in [(cosine - 1e-6, 1), (cosine + 1e-6, 2)] {
            let query = chain_query(0).with_dedup(Dedup { threshold, policy: DedupPolicy::Drop });
            expect_eq!(
                cx.find(&scope, query).await?.len(),
                due,
                "hits of two of cosine {cosine} from {threshold}"
            );
        }
    }),
    case!("dedup.drop.makes-room-by-vectors", [Kv, Vector], ["DED-4"], |cx, scope: Scope| {
        // More than a search looks at first.
        for at in 0..90 {
            cx.say(&scope, &format!("same/{at:02}"), "ann drinks green tea").await?;
        }
        cx.say_all(&scope, &[("x", "ann drinks water"), ("y", "the lighthouse keeper sleeps")]).await?;
        for (top_k, due) in [(1, &["same/00"][..]), (2, &["same/00", "x"]), (3, &["same/00", "x", "y"])] {
            let dedup = Dedup { threshold: 0.99, policy: DedupPolicy::Drop };
            let query = by_vector("ann drinks green tea").with_top_k(top_k).with_dedup(dedup);
            let found = cx.kv().search(&scope, query).await?;
            expect_eq!(hit_keys(&found.hits), due, "the best {top_k}, where ninety have the same text");
        }
    }),
    case!("dedup.merge.counts-no-access", [Kv, Vector], ["DED-2", "SRC-13"], |cx| {
        let scope = repetitive(cx).await?;
        for policy in [DedupPolicy::Drop, DedupPolicy::Merge] {
            found(cx, &scope, Some(policy), 10).await?;
        }
        for (name, due) in [("a", 2), ("b", 0), ("c", 0), ("d", 2)] {
            let count = cx.live(&scope, name).await?.access_count;
            expect_eq!(
                count,
                due,
                "accesses of `{name}` after two searches that folded `b` and `c` into `a`"
            );
        }
    }),
    case!("dedup.known.among-hundreds", [Kv, Vector], ["DED-1", "DED-2", "EMB-7"], |cx| {
        crate::near_duplicates::near_duplicates(cx, 200, 1).await.map(drop)?;
    }),
    case!("dedup.keep.fills-up", [Kv, Vector], ["DED-2", "SRC-7"], |cx| {
        let scope = repetitive(cx).await?;
        for top_k in [1, 2, 3] {
            let query = by_vector("ann drinks green tea").with_top_k(top_k);
            let dedup = Dedup { threshold: 0.99, policy: DedupPolicy::Keep };
            let found = cx.kv().search(&scope, query.with_dedup(dedup)).await?;
            let due = ["a", "b", "c"];
            expect_eq!(hit_keys(&found.hits), due.split_at(top_k).0, "the best {top_k} with duplicates kept");
        }
    }),
];

const POLICIES: [DedupPolicy; 3] = [DedupPolicy::Drop, DedupPolicy::Merge, DedupPolicy::Keep];

/// Three near-duplicates and two others.
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

/// Ten words, eight of which are in each of three entries: `a` is similar to `b` and `b` to `c`, but `a` less so to
/// `c`.
async fn chained(cx: &Cx) -> CaseResult<(Scope, f64)> {
    owned(cx)?;
    let words: Vec<String> = (0..10).map(|n| format!("link{n}")).collect();
    let text =
        |from: usize| words.iter().skip(from).take(8).map(String::as_str).collect::<Vec<_>>().join(" ");
    let (a, b, c) = (text(0), text(1), text(2));
    let scope = cx.scope()?;
    cx.say_all(&scope, &[("a", &a), ("b", &b), ("c", &c)]).await?;
    let near = cx.cosine(&a, &b).min(cx.cosine(&b, &c));
    let far = cx.cosine(&a, &c);
    check!(near > far + 0.01, "the suite's texts make no chain: {near}, {far}");
    Ok((scope, f64::midpoint(near, far)))
}

fn chain_query(from: usize) -> SearchQuery {
    let words: Vec<String> = (from..from + 8).map(|n| format!("link{n}")).collect();
    by_vector(&words.join(" "))
}

fn merged<'a>(results: &'a SearchResults, name: &str) -> Vec<&'a str> {
    let hit = results.hits.iter().find(|hit| hit.entry.key.as_str() == name);
    hit.map(|hit| hit.merged.iter().map(Key::as_str).collect()).unwrap_or_default()
}
