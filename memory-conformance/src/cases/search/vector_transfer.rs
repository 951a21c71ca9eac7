//! EXP, EMB: vectors moving between stores.

use memory_core::{Embed, ErrorKind, Json, OnExisting, Record, RecordVector, Scope, SetOptions};

use super::embedding::asked;
use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::detail;
use crate::cx::vectors::{other_model, owned};
use crate::cx::{Cx, json, key};

pub(crate) const CASES: &[Case] = &[
    case!(
        "embed.vectors.exported-and-imported",
        [Kv, Vector],
        ["EXP-1", "EXP-4", "EXP-10"],
        |cx, scope: Scope, copy: Scope| {
            cx.say_all(&scope, &[("a", "ann drinks green tea"), ("b", "rain tomorrow")]).await?;
            cx.kv().set(&scope, &key("c")?, json("1")?, never_embed()).await?;
            let records = cx.export(&scope).await?;
            let vectors: Vec<usize> = records.iter().map(|record| record.vectors.len()).collect();
            expect_eq!(vectors, [1, 1, 0], "vectors in the records");
            cx.import(&copy, records, OnExisting::Skip).await?;
            for text in ["ann drinks green tea", "rain tomorrow"] {
                expect_eq!(cx.near(&copy, text).await?, ["a", "b"], "hits by vector in the copy");
            }
        }
    ),
    case!("export.vectors.model-and-numbers", [Kv, Vector], ["EXP-10", "EXP-3"], |cx, scope: Scope| {
        owned(cx)?;
        cx.say_all(&scope, &[("a", TEA), ("b", KEEPER)]).await?;
        let records = cx.export(&scope).await?;
        for (record, text) in records.iter().zip([TEA, KEEPER]) {
            let name = &record.entry.key;
            let models: Vec<&str> = record.vectors.iter().map(|vector| vector.model.model.as_str()).collect();
            expect_eq!(models, ["bag-of-words-1"], "the models of the vectors of `{name}`");
            for vector in &record.vectors {
                let cosine = memory_core::embed::cosine(&vector.vector, &cx.embedder().vector(text));
                check!(
                    cosine > 1.0 - 1e-6,
                    "the exported vector of `{name}` is not that of its text (cosine {cosine})"
                );
            }
            let text = serde_json::to_string(record)?;
            let back: Record = serde_json::from_str(&text)?;
            check!(back == *record, "the record of `{name}` does not survive JSON with its vector");
        }
    }),
    case!("import.vectors.embed-nothing", [Kv, Vector], ["EXP-10"], |cx, scope: Scope, copy: Scope| {
        owned(cx)?;
        cx.say(&scope, "a", TEA).await?;
        cx.set_with(&scope, "bare", "\"ann drinks green tea\"", never_embed()).await?;
        let records = cx.export(&scope).await?;
        expect_eq!(
            asked(cx, cx.import(&copy, records, OnExisting::Skip)).await?,
            (0, 0),
            "calls and texts of an import"
        );
        expect_eq!(cx.near(&copy, TEA).await?, ["a"], "hits in the copy");
        expect_eq!(cx.reembed(&copy, 10).await?.embedded, 1, "entries of the copy that had no vector");
    }),
    case!("import.vectors.of-another-model", [Kv, Vector], ["EXP-10", "EXP-1", "EMB-11"], |cx| {
        owned(cx)?;
        let (scope, other) = (cx.scope()?, other_model());
        let mut both = vec![vector_of(cx.embedder(), TEA), vector_of(&other, TEA)];
        both.sort_by(|a, b| b.model.cmp(&a.model));
        let records = vec![
            record(cx, "both", TEA, both)?,
            record(cx, "other", TEA, vec![vector_of(&other, TEA)])?,
            record(cx, "own", TEA, vec![vector_of(cx.embedder(), TEA)])?,
        ];
        cx.import(&scope, records, OnExisting::Skip).await?;
        expect_eq!(cx.near(&scope, TEA).await?, ["both", "own"], "hits by the current model");
        let exported = cx.export(&scope).await?;
        let counts: Vec<usize> = exported.iter().map(|record| record.vectors.len()).collect();
        expect_eq!(counts, [2, 1, 1], "vectors in an export after an import");
        for record in &exported {
            let is_sorted = record.vectors.is_sorted_by(|a, b| a.model < b.model);
            check!(is_sorted, "vectors are exported in another order than that of their models");
        }
        let repair = cx.reembed(&scope, 10).await?;
        expect_eq!(
            (repair.embedded, repair.remaining),
            (1, 0),
            "embedded and remaining of those of the other model alone"
        );
        expect_eq!(cx.near(&scope, TEA).await?, ["both", "other", "own"], "hits once all are embedded");
    }),
    case!("import.vectors.replaced", [Kv, Vector], ["EXP-10", "EMB-3"], |cx, scope: Scope| {
        owned(cx)?;
        cx.say_all(&scope, &[("bare", TEA), ("k", TEA), ("kept", TEA)]).await?;
        cx.advance_ms(1);
        let new = vec![
            record(cx, "bare", "rain", Vec::new())?,
            record(cx, "k", KEEPER, vec![vector_of(cx.embedder(), KEEPER)])?,
        ];
        cx.import(&scope, new, OnExisting::Replace).await?;
        expect_eq!(
            cx.near(&scope, TEA).await?,
            ["k", "kept"],
            "hits after a record without a vector replaced `bare`"
        );
        let score = expect_some!(cx.near_score(&scope, KEEPER, "k").await?, "the hit `k`");
        check!(score > 0.99, "an entry that a record replaced scores {score} for the record's text");
    }),
    case!("import.vectors.malformed", [Kv], ["EXP-11", "EXP-9"], |cx, scope: Scope| {
        let sound = vector_of(&crate::TestEmbedder::named("m", 4), TEA);
        let bad = |change: &dyn Fn(&mut RecordVector)| {
            let mut vector = sound.clone();
            change(&mut vector);
            vec![vector]
        };
        for (what, vectors) in [
            ("zero", bad(&|vector| vector.vector.fill(0.0))),
            ("with a NaN", bad(&|vector| vector.vector.iter_mut().take(1).for_each(|x| *x = f32::NAN))),
            (
                "with an infinity",
                bad(&|vector| vector.vector.iter_mut().take(1).for_each(|x| *x = f32::INFINITY)),
            ),
            ("too short", bad(&|vector| vector.vector.truncate(3))),
            ("too long", bad(&|vector| vector.vector.push(1.0))),
            (
                "of no length",
                bad(&|vector| {
                    vector.vector.clear();
                    vector.model.dimensions = 0;
                }),
            ),
            (
                "of 16,385 numbers",
                bad(&|vector| {
                    vector.vector = vec![1.0; 16_385];
                    vector.model.dimensions = 16_385;
                }),
            ),
            ("of a model without a name", bad(&|vector| vector.model.model.clear())),
            ("of a provider without a name", bad(&|vector| vector.model.provider.clear())),
            ("of a model with a long name", bad(&|vector| vector.model.model = "m".repeat(257))),
            ("twice of one model", vec![sound.clone(), sound.clone()]),
        ] {
            let records = vec![
                record(cx, "before", "1", Vec::new())?,
                record(cx, "bad", TEA, vectors)?,
                record(cx, "after", "1", Vec::new())?,
            ];
            let error = expect_kind!(
                cx.import(&scope, records, OnExisting::Replace).await,
                ErrorKind::InvalidArgument,
                "a record with a vector {what}"
            );
            expect_eq!(detail(&error, "index"), Some(1), "details.index of a record with a vector {what}");
            expect_eq!(cx.all_keys(&scope).await?, ["before"], "the keys stored, with a vector {what}");
        }
    }),
];

const TEA: &str = "ann drinks green tea";
const KEEPER: &str = "the lighthouse keeper sleeps";

fn never_embed() -> SetOptions {
    SetOptions::default().with_embed(Embed::Never)
}

/// The record of an entry with these vectors.
fn record(cx: &Cx, name: &str, text: &str, vectors: Vec<RecordVector>) -> memory_core::Result<Record> {
    let mut record = Record::from(memory_core::Entry::new(key(name)?, Json::string(text), 1, cx.now()));
    record.vectors = vectors;
    Ok(record)
}

fn vector_of(embedder: &crate::TestEmbedder, text: &str) -> RecordVector {
    let model = memory_core::Embedder::model(embedder).clone();
    RecordVector { model, vector: embedder.vector(text), text: None }
}
