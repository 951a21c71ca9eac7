//! EMB: several models in one scope, and vector lengths that do not fit.

use memory_core::{
    BackendExt as _, Dedup, DedupPolicy, Embed, Embedding, ErrorKind, ModelStats, Result, Scope, SetOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::detail;
use crate::cx::vectors::{by_both, by_vector, by_words, longer_model, of_model, other_model, owned};
use crate::cx::{Cx, hit_keys};
use crate::harness::embedder::{EmbedFault, TestEmbedder};

pub(crate) const CASES: &[Case] = &[
    case!("embed.models.never-meet", [Kv, Vector], ["EMB-11", "VEC-1"], |cx| {
        let (cx, scope) = switched(cx, other_model()).await?;
        expect_eq!(cx.near(&scope, TEA).await?.len(), 0, "hits by a model that has no vector yet");
        cx.say(&scope, "new1", TEA).await?;
        cx.say(&scope, "new2", KEEPER).await?;
        for text in [TEA, KEEPER, "mountains"] {
            expect_eq!(cx.near(&scope, text).await?, ["new1", "new2"], "hits of `{text}` by the new model");
        }
        let score = expect_some!(cx.near_score(&scope, TEA, "new1").await?, "the hit of its own text");
        check!(score > 0.99, "an entry scores {score} for its own text by the new model");
    }),
    case!("embed.models.two-handles", [Kv, Vector], ["EMB-11"], |cx, scope: Scope| {
        owned(cx)?;
        let other = cx.on(cx.store().another_handle_with(other_model()).await?);
        cx.say(&scope, "a", TEA).await?;
        other.say(&scope, "b", TEA).await?;
        for _ in 0..2 {
            expect_eq!(cx.near(&scope, TEA).await?, ["a"], "hits by the first model");
            expect_eq!(other.near(&scope, TEA).await?, ["b"], "hits by the second model");
        }
        other.say(&scope, "a", TEA).await?;
        expect_eq!(
            cx.near(&scope, TEA).await?.len(),
            0,
            "hits by the first model once the second wrote the entry"
        );
        expect_eq!(other.near(&scope, TEA).await?, ["a", "b"], "hits by the second model");
        cx.delete(&scope, "b").await?;
        expect_eq!(
            other.near(&scope, TEA).await?,
            ["a"],
            "hits by the second model after the first's handle deleted"
        );
    }),
    case!("embed.models.overwriting-replaces", [Kv, Vector], ["EMB-11", "EMB-3"], |cx| {
        let (cx, scope) = switched(cx, other_model()).await?;
        cx.say(&scope, "old1", KEEPER).await?;
        cx.set_with(&scope, "old2", "\"rain\"", SetOptions::default().with_embed(Embed::Never)).await?;
        expect_eq!(cx.near(&scope, KEEPER).await?, ["old1"], "hits by the new model");
        let vectors: Vec<(usize, bool)> = cx
            .export(&scope)
            .await?
            .iter()
            .map(|record| {
                (
                    record.vectors.len(),
                    record.vectors.iter().all(|vector| vector.model.model == "bag-of-words-2"),
                )
            })
            .collect();
        expect_eq!(
            vectors,
            [(1, true), (0, true)],
            "vectors of rewritten entries, and whether all are of the new model"
        );
        let cx = cx.reopened_with(TestEmbedder::new()).await?;
        expect_eq!(
            cx.near(&scope, TEA).await?.len(),
            0,
            "hits by the old model after its entries were rewritten"
        );
    }),
    case!("embed.models.back-again", [Kv, Vector], ["EMB-11"], |cx| {
        let (cx, scope) = switched(cx, other_model()).await?;
        cx.say(&scope, "new", TEA).await?;
        let cx = cx.reopened_with(TestEmbedder::new()).await?;
        expect_eq!(cx.near(&scope, TEA).await?, ["old1", "old2"], "hits by the first model, when it is back");
        let score = expect_some!(cx.near_score(&scope, TEA, "old1").await?, "the hit of its own text");
        check!(score > 0.99, "an entry scores {score} for its own text by the first model, when it is back");
    }),
    case!(
        "embed.models.hybrid-finds-the-others-by-words",
        [Kv, Vector, Lexical],
        ["EMB-11", "HYB-1"],
        |cx| {
            let (cx, scope) = switched(cx, other_model()).await?;
            cx.say(&scope, "new", KEEPER).await?;
            let hits = cx.find(&scope, by_both(TEA)).await?;
            let mut keys = hit_keys(&hits);
            keys.sort_unstable();
            expect_eq!(
                keys,
                ["new", "old1"],
                "hits by both: one by the new model's vector, one by its words"
            );
            let old =
                expect_some!(hits.iter().find(|hit| hit.entry.key.as_str() == "old1"), "the hit by words");
            let words = cx.find(&scope, by_words(TEA)).await?;
            let due = expect_some!(words.first(), "the hit by words").score / 2.0;
            check!(
                (old.score - due).abs() < 1e-6,
                "an entry of another model scores {}, expected {due}",
                old.score
            );
        }
    ),
    case!("embed.models.reembed-moves", [Kv, Vector], ["EMB-4", "EMB-11"], |cx| {
        let (cx, scope) = switched(cx, other_model()).await?;
        cx.say(&scope, "new", TEA).await?;
        let mut due = vec!["new"];
        for (moved, remaining) in [("old1", 1), ("old2", 0)] {
            let step = cx.reembed(&scope, 1).await?;
            expect_eq!(
                (step.embedded, step.remaining, step.failed),
                (1, remaining, 0),
                "embedded, remaining, failed"
            );
            due.push(moved);
            expect_eq!(cx.near(&scope, TEA).await?.len(), due.len(), "hits by the new model after a step");
        }
        let step = cx.reembed(&scope, 1).await?;
        expect_eq!((step.embedded, step.remaining), (0, 0), "embedded and remaining once all are moved");
        let cx = cx.reopened_with(TestEmbedder::new()).await?;
        expect_eq!(cx.near(&scope, TEA).await?.len(), 0, "hits by the first model once all are moved");
    }),
    case!("embed.models.failed-step-takes-nothing", [Kv, Vector], ["EMB-13"], |cx| {
        let (cx, scope) = switched(cx, other_model()).await?;
        cx.embedder().fail_always(Some(EmbedFault::Error(ErrorKind::Unavailable)));
        let step = cx.reembed(&scope, 10).await;
        cx.embedder().fail_always(None);
        expect_kind!(step, ErrorKind::Unavailable, "a re-embedding without its embedder");
        let cx = cx.reopened_with(TestEmbedder::new()).await?;
        expect_eq!(
            cx.near(&scope, TEA).await?,
            ["old1", "old2"],
            "hits by the old model after a move that failed"
        );
    }),
    case!("embed.dimension.refused-before-writing", [Kv, Vector], ["EMB-2"], |cx| {
        let (cx, scope) = switched(cx, longer_model()).await?;
        let before = cx.kv().list_all(&scope, "").await?;
        for (what, ended) in cx.every_write(&scope).await {
            let error =
                expect_kind!(ended, ErrorKind::DimensionMismatch, "`{what}` with vectors of another length");
            expect_eq!(
                (detail(&error, "expected"), detail(&error, "actual")),
                (Some(64), Some(128)),
                "details.expected and details.actual of `{what}`"
            );
        }
        expect_kind!(
            cx.say(&scope, "old1", "rain").await,
            ErrorKind::DimensionMismatch,
            "overwriting with a vector of another length"
        );
        expect_eq!(cx.kv().list_all(&scope, "").await?, before, "the entries after writes that were refused");
        expect_eq!(cx.embedder().calls(), 0, "calls to the embedder for writes that were refused");
    }),
    case!("embed.dimension.bulk-names-the-item", [Kv, Vector], ["EMB-2", "BLK-2"], |cx| {
        let (cx, scope) = switched(cx, longer_model()).await?;
        let mut bare = crate::cx::entries::item("bare", "\"tea\"")?;
        bare.options.embed = Embed::Never;
        let error = expect_kind!(
            cx.bulk(&scope, vec![bare.clone(), crate::cx::entries::item("b", "\"tea\"")?]).await,
            ErrorKind::DimensionMismatch,
            "a bulk insert whose second item would embed"
        );
        expect_eq!(detail(&error, "index"), Some(1), "details.index of the item that is refused");
        expect_eq!(
            cx.all_keys(&scope).await?,
            ["old1", "old2"],
            "the keys after a bulk insert that was refused"
        );
        cx.bulk(&scope, vec![bare]).await?;
    }),
    case!("embed.dimension.search-refused", [Kv, Vector], ["EMB-2"], |cx| {
        let (cx, scope) = switched(cx, longer_model()).await?;
        let mut queries = vec![by_vector(TEA)];
        if cx.capabilities().lexical_search {
            queries.extend([by_both(TEA), memory_core::SearchQuery::new(TEA)]);
        }
        for query in queries {
            let what = format!("a search ({:?}) with vectors of another length", query.mode);
            expect_kind!(cx.find(&scope, query).await, ErrorKind::DimensionMismatch, "{what}");
        }
        let elsewhere = cx.scope()?;
        cx.say(&elsewhere, "k", TEA).await?;
        expect_eq!(cx.near(&elsewhere, TEA).await?, ["k"], "hits in a scope that holds no other length");
    }),
    case!("embed.dimension.the-rest-goes-on", [Kv, Vector], ["EMB-2"], |cx| {
        let (cx, scope) = switched(cx, longer_model()).await?;
        let bare = SetOptions::default().with_embed(Embed::Never);
        cx.set_with(&scope, "bare", "\"green tea\"", bare.clone()).await?;
        cx.set_with(&scope, "old1", "\"rain\"", bare).await?;
        check!(cx.access(&scope, "old2").await?.is_some(), "an entry is not read");
        if cx.capabilities().lexical_search {
            expect_eq!(hit_keys(&cx.words(&scope, "green tea").await?), ["bare"], "hits by words");
        }
        check!(cx.delete(&scope, "old2").await?, "an entry is not deleted");
        // No vector of the other length is left.
        let set = cx.say(&scope, "new", TEA).await?;
        expect_eq!(
            set.embedding,
            Embedding::Stored,
            "the embedding once no vector of the other length is left"
        );
        expect_eq!(cx.near(&scope, TEA).await?, ["new"], "hits by vectors of the new length");
    }),
    case!("embed.dimension.reembed-moves", [Kv, Vector], ["EMB-2", "EMB-4"], |cx| {
        let (cx, scope) = switched(cx, longer_model()).await?;
        let step = cx.reembed(&scope, 1).await?;
        expect_eq!((step.embedded, step.remaining), (1, 1), "embedded and remaining by a first step");
        let set: Result<_> = cx.say(&scope, "new", TEA).await;
        expect_kind!(set, ErrorKind::DimensionMismatch, "a set while a vector of the other length is left");
        let step = cx.reembed(&scope, 10).await?;
        expect_eq!((step.embedded, step.remaining), (1, 0), "embedded and remaining by the last step");
        cx.say(&scope, "new", TEA).await?;
        expect_eq!(cx.near(&scope, TEA).await?, ["new", "old1", "old2"], "hits by vectors of the new length");
    }),
    case!("stats.models.both-listed", [Kv, Vector, Stats], ["STA-4", "STA-5"], |cx| {
        let (cx, scope) = switched(cx, other_model()).await?;
        let first = TestEmbedder::new();
        let mut seen = Vec::new();
        for at in 0..3 {
            let stats = cx.kv().stats(&scope).await?;
            let counts = |of: &ModelStats| (of.rows, of.missing, of.stale);
            let old = of_model(&stats, &first).map(counts);
            let new = of_model(&stats, cx.embedder()).map(counts);
            let sorted = stats.models.is_sorted_by(|a, b| a.model < b.model);
            check!(sorted, "models are not in their order: {:?}", stats.models);
            seen.push((old, new));
            match at {
                0 => drop(cx.say(&scope, "new", TEA).await?),
                _ => drop(cx.reembed(&scope, 1).await?),
            }
        }
        expect_eq!(
            seen,
            [
                (Some((2, 0, 0)), Some((0, 2, 2))),
                (Some((2, 1, 0)), Some((1, 2, 2))),
                (Some((1, 2, 0)), Some((2, 1, 1)))
            ],
            "rows, missing and stale of the old and the new model: at first, after a write, after a step of a re-embedding"
        );
        cx.reembed(&scope, 10).await?;
        let stats = cx.kv().stats(&scope).await?;
        check!(
            of_model(&stats, &first).is_none_or(|of| of.rows == 0 && of.bytes == 0),
            "the old model still has vectors: {:?}",
            stats.models
        );
    }),
    case!("dedup.models.others-pass", [Kv, Vector, Lexical], ["DED-6"], |cx| {
        let (cx, scope) = switched(cx, other_model()).await?;
        cx.say(&scope, "new1", TEA).await?;
        cx.say(&scope, "new2", TEA).await?;
        let dedup = Dedup { threshold: 0.0, policy: DedupPolicy::Drop };
        let found =
            cx.kv().search(&scope, by_words("ann drinks green tea lighthouse").with_dedup(dedup)).await?;
        let mut keys = hit_keys(&found.hits);
        keys.sort_unstable();
        expect_eq!(
            keys,
            ["new1", "old1", "old2"],
            "hits by words, if `new2` repeats `new1` by the current model"
        );
        expect_eq!(found.duplicates, 1, "duplicates counted");
    }),
];

const TEA: &str = "ann drinks green tea";
const KEEPER: &str = "the lighthouse keeper sleeps";

/// A scope with two entries of the first model, in a store reopened with `embedder`.
async fn switched(cx: &Cx, embedder: TestEmbedder) -> CaseResult<(Cx, Scope)> {
    owned(cx)?;
    let cx = cx.on(cx.open().await?);
    let scope = cx.scope()?;
    for (name, text) in [("old1", TEA), ("old2", KEEPER)] {
        let set = cx.say(&scope, name, text).await?;
        expect_eq!(set.embedding, Embedding::Stored, "the embedding of `{name}`");
    }
    Ok((cx.reopened_with(embedder).await?, scope))
}
