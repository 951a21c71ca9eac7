//! EMB: re-embedding, step by step.

use memory_core::{
    Embed, Embedder as _, Embedding, Entry, ErrorKind, Json, OnExisting, Record, RecordVector, Scope,
    SetOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::vectors::{other_model, owned, step};
use crate::cx::{Cx, key};
use crate::harness::embedder::EmbedFault;

pub(crate) const CASES: &[Case] = &[
    case!("embed.reembed.in-steps", [Kv, Vector], ["EMB-4", "EMB-12"], |cx, scope: Scope| {
        owned(cx)?;
        cx.embedder().fail_always(Some(EmbedFault::Error(ErrorKind::Unavailable)));
        let names = ["a", "b", "c", "d", "e"];
        for name in names {
            let set = cx.say(&scope, name, "green tea").await;
            check!(set.is_ok(), "a write failed with its embedding");
        }
        cx.embedder().fail_always(None);
        let before = cx.export(&scope).await?;
        let dry = cx.kv().reembed(&scope, step(2, true)).await?;
        expect_eq!((dry.embedded, dry.remaining), (2, 5), "to embed and remaining by a dry run of 2");
        for (embedded, remaining) in [(2, 3), (2, 1), (1, 0), (0, 0)] {
            let step = cx.reembed(&scope, 2).await?;
            expect_eq!(
                (step.embedded, step.remaining, step.failed),
                (embedded, remaining, 0),
                "embedded, remaining, failed"
            );
        }
        expect_eq!(cx.near(&scope, "green tea").await?, names, "hits by vector once all are embedded");
        for record in before {
            let mut now = cx.live(&scope, record.entry.key.as_str()).await?;
            now.access_count = record.entry.access_count;
            expect_eq!(now, record.entry, "the entry after its embedding");
        }
    }),
    case!("embed.reembed.from-the-text", [Kv, Vector], ["EMB-4", "EMB-10"], |cx, scope: Scope| {
        owned(cx)?;
        cx.embedder().fail_next(EmbedFault::Error(ErrorKind::Unavailable));
        let options = SetOptions::default().with_text("ann drinks green tea");
        cx.set_with(&scope, "k", "\"rain tomorrow\"", options).await?;
        cx.kv().reembed(&scope, step(1_000, false)).await?;
        let score = expect_some!(cx.near_score(&scope, TEA, "k").await?, "the hit by the text's vector");
        check!(score > 0.99, "the vector of the explicit text has a score of {score} for that text");
    }),
    case!("embed.reembed.bare-entries-too", [Kv, Vector], ["EMB-4", "EMB-6"], |cx| {
        let scope = bare(cx, &["a", "b"]).await?;
        cx.set(&scope, "blank", "null").await?;
        let step = cx.reembed(&scope, 10).await?;
        expect_eq!(
            (step.embedded, step.remaining, step.failed),
            (2, 0, 0),
            "embedded, remaining, failed of two written with `never` and one without text"
        );
        expect_eq!(cx.near(&scope, TEA).await?, ["a", "b"], "hits once all are embedded");
    }),
    case!("embed.reembed.except-a-prefix", [Kv, Vector], ["EMB-17"], |cx| {
        let scope = bare(cx, &["a", "~b", "~b/%_1", "~b/2", "~c"]).await?;
        let mut options = step(10, true);
        options.except = "~b/".to_owned();
        let dry = cx.kv().reembed(&scope, options.clone()).await?;
        expect_eq!((dry.embedded, dry.remaining), (3, 3), "to embed and remaining by a dry run");
        options.dry_run = false;
        let step = cx.kv().reembed(&scope, options).await?;
        expect_eq!((step.embedded, step.remaining), (3, 0), "embedded and remaining");
        expect_eq!(cx.near(&scope, TEA).await?, ["a", "~b", "~c"], "hits by vector afterwards");
    }),
    case!("embed.reembed.embedded-are-left", [Kv, Vector], ["EMB-4", "EMB-7"], |cx| {
        owned(cx)?;
        let scope = bare(cx, &["a"]).await?;
        for name in ["b", "c"] {
            expect_eq!(
                cx.say(&scope, name, TEA).await?.embedding,
                Embedding::Stored,
                "the embedding of `{name}`"
            );
        }
        for (embedded, asked) in [(1, 1), (0, 0)] {
            let texts = cx.embedder().texts();
            let step = cx.reembed(&scope, 10).await?;
            expect_eq!((step.embedded, step.remaining), (embedded, 0), "embedded and remaining");
            expect_eq!(cx.embedder().texts() - texts, asked, "texts given to the embedder");
        }
    }),
    case!("embed.reembed.changes-nothing-else", [Kv, Vector], ["EMB-12"], |cx| {
        let scope = bare(cx, &["a"]).await?;
        let options = cx
            .expiring(60_000)
            .with_embed(Embed::Never)
            .with_text(TEA)
            .with_source(crate::cx::source("chat")?)
            .with_metadata(crate::cx::entries::metadata(r#"{"n":1}"#)?);
        cx.set_with(&scope, "b", r#"{"x":[1.0, 2]}"#, options).await?;
        cx.access(&scope, "b").await?;
        let before = [cx.live(&scope, "a").await?, cx.live(&scope, "b").await?];
        cx.advance_ms(1_000);
        cx.reembed(&scope, 10).await?;
        for entry in before {
            let now = cx.live(&scope, entry.key.as_str()).await?;
            expect_eq!(now, entry, "the entry after its re-embedding");
        }
        expect_eq!(cx.near(&scope, TEA).await?, ["a", "b"], "hits after the re-embedding");
        cx.advance_ms(59_000);
        expect_eq!(cx.near(&scope, TEA).await?, ["a"], "hits once `b` has expired");
    }),
    case!("embed.reembed.goes-on-after-a-failure", [Kv, Vector], ["EMB-13", "EMB-4"], |cx| {
        owned(cx)?;
        let scope = bare(cx, &["a", "b", "c", "d", "e"]).await?;
        expect_eq!(cx.reembed(&scope, 2).await?.remaining, 3, "remaining after a step of two");
        for fault in EmbedFault::ALL {
            if fault == EmbedFault::Error(ErrorKind::TooLarge) {
                continue;
            }
            cx.embedder().fail_always(Some(fault));
            let failed = cx.reembed(&scope, 2).await;
            cx.embedder().fail_always(None);
            match fault {
                EmbedFault::Error(kind) => {
                    expect_kind!(failed, kind, "a step whose embedder fails with {fault:?}");
                }
                _ => {
                    check!(failed.is_err(), "a step whose embedder fails with {fault:?} reports {failed:?}");
                }
            }
            expect_eq!(cx.near(&scope, TEA).await?.len(), 2, "hits after a step that failed with {fault:?}");
        }
        for (embedded, remaining) in [(2, 1), (1, 0)] {
            let step = cx.reembed(&scope, 2).await?;
            expect_eq!(
                (step.embedded, step.remaining),
                (embedded, remaining),
                "embedded and remaining after the failures"
            );
        }
        expect_eq!(cx.near(&scope, TEA).await?.len(), 5, "hits once all are embedded");
    }),
    case!("embed.reembed.refused-text", [Kv, Vector], ["EMB-14"], |cx| {
        owned(cx)?;
        let scope = bare(cx, &["a", "c"]).await?;
        let options = SetOptions::default().with_embed(Embed::Never);
        cx.set_with(&scope, "b", "\"poison\"", options).await?;
        cx.embedder().refuse_texts_with(Some("poison"));
        let step = cx.reembed(&scope, 10).await;
        cx.embedder().refuse_texts_with(None);
        let step = step?;
        expect_eq!(
            (step.embedded, step.remaining, step.failed),
            (2, 1, 1),
            "embedded, remaining, failed, if the embedder refuses one of three texts"
        );
        expect_eq!(cx.near(&scope, TEA).await?, ["a", "c"], "hits after one text was refused");
        let step = cx.reembed(&scope, 10).await?;
        expect_eq!((step.embedded, step.remaining), (1, 0), "embedded and remaining once it refuses none");
    }),
    case!("embed.reembed.past-refused-texts", [Kv, Vector], ["EMB-14", "EMB-4"], |cx| {
        owned(cx)?;
        let scope = bare(cx, &["x", "y", "z"]).await?;
        let options = SetOptions::default().with_embed(Embed::Never);
        for name in ["a", "b", "c"] {
            cx.set_with(&scope, name, "\"poison\"", options.clone()).await?;
        }
        cx.embedder().refuse_texts_with(Some("poison"));
        let mut steps = Vec::new();
        for _ in 0..4 {
            let step = cx.reembed(&scope, 1).await;
            steps.push(step.map(|step| (step.embedded, step.remaining)));
        }
        cx.embedder().refuse_texts_with(None);
        let steps = steps.into_iter().collect::<Result<Vec<_>, _>>()?;
        expect_eq!(
            steps,
            [(1, 5), (1, 4), (1, 3), (0, 3)],
            "embedded and remaining by steps of one, with three texts first that are refused"
        );
        expect_eq!(cx.near(&scope, TEA).await?, ["x", "y", "z"], "hits after refused texts");
    }),
    case!("embed.reembed.text-that-was-embedded", [Kv, Vector], ["EMB-4", "EXP-10"], |cx| {
        owned(cx)?;
        let (scope, other) = (cx.scope()?, other_model());
        let mut record = Record::from(Entry::new(key("k")?, Json::string("rain tomorrow"), 1, cx.now()));
        record.vectors = vec![RecordVector {
            model: other.model().clone(),
            vector: other.vector(TEA),
            text: Some(TEA.to_owned()),
        }];
        cx.import(&scope, vec![record], OnExisting::Fail).await?;
        expect_eq!(cx.reembed(&scope, 10).await?.embedded, 1, "embedded");
        let score = expect_some!(cx.near_score(&scope, TEA, "k").await?, "the hit by the text's vector");
        check!(score > 0.99, "an entry scores {score} for the text that was embedded with it before");
        let texts: Vec<Option<String>> = cx
            .export(&scope)
            .await?
            .into_iter()
            .flat_map(|record| record.vectors)
            .map(|vector| vector.text)
            .collect();
        expect_eq!(
            texts,
            [Some(TEA.to_owned())],
            "the vector's text in an export, because it is not the entry's"
        );
        // A write with an explicit text.
        cx.say(&scope, "k", "rain tomorrow").await?;
        let score = expect_some!(cx.near_score(&scope, "rain tomorrow", "k").await?, "the hit after a write");
        check!(score > 0.99, "after a write the entry scores {score} for its text");
    }),
    case!("embed.reembed.dry-run", [Kv, Vector], ["EMB-15"], |cx| {
        let scope = bare(cx, &["a", "b", "c"]).await?;
        let calls = cx.embedder().calls();
        for _ in 0..2 {
            for (limit, embedded) in [(2, 2), (10, 3)] {
                let dry = cx.kv().reembed(&scope, step(limit, true)).await?;
                expect_eq!(
                    (dry.embedded, dry.remaining, dry.failed),
                    (embedded, 3, 0),
                    "to embed, remaining, failed by a dry run of {limit}"
                );
            }
        }
        expect_eq!(cx.embedder().calls(), calls, "calls to the embedder by dry runs");
        expect_eq!(cx.near(&scope, TEA).await?.len(), 0, "hits after dry runs");
    }),
    case!("embed.reembed.limit-range", [Kv, Vector], ["EMB-15"], |cx| {
        let scope = bare(cx, &["a"]).await?;
        for dry in [true, false] {
            let zero = cx.kv().reembed(&scope, step(0, dry)).await;
            expect_kind!(zero, ErrorKind::InvalidArgument, "a limit of 0");
            let over = cx.kv().reembed(&scope, step(10_001, dry)).await;
            expect_kind!(over, ErrorKind::TooLarge, "a limit of 10,001");
        }
        expect_eq!(cx.reembed(&scope, 10_000).await?.embedded, 1, "embedded with a limit of 10,000");
    }),
    case!("embed.reembed.scope-apart", [Kv, Vector], ["EMB-4", "ISO-1"], |cx| {
        let (scope, other) = (bare(cx, &["a"]).await?, bare(cx, &["b"]).await?);
        let step = cx.reembed(&scope, 10).await?;
        expect_eq!((step.embedded, step.remaining), (1, 0), "embedded and remaining of the scope alone");
        expect_eq!(cx.near(&other, TEA).await?.len(), 0, "hits in a scope that was not re-embedded");
    }),
];

const TEA: &str = "ann drinks green tea";

/// Entries without vectors.
async fn bare(cx: &Cx, names: &[&str]) -> CaseResult<memory_core::Scope> {
    let scope = cx.scope()?;
    for name in names {
        let options = SetOptions::default().with_embed(Embed::Never);
        cx.set_with(&scope, name, "\"ann drinks green tea\"", options).await?;
    }
    Ok(scope)
}
