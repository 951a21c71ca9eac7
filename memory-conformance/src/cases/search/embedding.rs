//! EMB: embedding of entries.

use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::{
    Embed, Embedding, EmbeddingOwner, ErrorKind, Expect, Json, Reducer, Scope, SetOptions, Ttl,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::{entries, item, item_with, string_of};
use crate::cx::vectors::{by_vector, by_words, owned, step};
use crate::cx::{Cx, hit_keys, json, ms};
use crate::harness::embedder::EmbedFault;

pub(crate) const CASES: &[Case] = &[
    case!("embed.failure.write-stands", [Kv, Vector], ["EMB-1", "EMB-5"], |cx| {
        owned(cx)?;
        for fault in EmbedFault::ALL {
            let scope = cx.scope()?;
            cx.embedder().fail_always(Some(fault));
            let set = cx.say(&scope, "k", "green tea").await;
            cx.embedder().fail_always(None);
            let set = set?;
            check!(
                matches!(set.embedding, Embedding::Failed(_)),
                "the outcome if the embedder fails with {fault:?}: {set:?}"
            );
            expect_eq!(
                cx.live(&scope, "k").await?.version,
                set.version,
                "the version stored, with {fault:?}"
            );
            expect_eq!(
                cx.near(&scope, "green tea").await?.len(),
                0,
                "hits by a vector that was not stored, with {fault:?}"
            );
            let again = cx.say(&scope, "k", "green tea").await?;
            expect_eq!(again.embedding, Embedding::Stored, "the outcome once the embedder works again");
        }
    }),
    case!("embed.failure.bulk-and-update-stand", [Kv, Vector], ["EMB-1"], |cx, scope: Scope| {
        owned(cx)?;
        cx.embedder().fail_always(Some(EmbedFault::Error(ErrorKind::Unavailable)));
        let bulk = cx.bulk(&scope, vec![item("a", "\"green tea\"")?, item("b", "\"coffee\"")?]).await;
        let merged = cx.merge(&scope, "c", r#"{"tea":"green"}"#).await;
        let counted = cx.increment(&scope, "n", 41).await;
        cx.embedder().fail_always(None);
        let failed = bulk?.iter().filter(|outcome| matches!(outcome.embedding, Embedding::Failed(_))).count();
        expect_eq!(failed, 2, "outcomes of two items that say that embedding failed");
        merged?;
        counted?;
        expect_eq!(cx.all_keys(&scope).await?, ["a", "b", "c", "n"], "the keys stored");
    }),
    case!(
        "embed.failure.found-by-words-and-repaired",
        [Kv, Vector, Lexical, Stats],
        ["EMB-5", "STA-4"],
        |cx, scope: Scope| {
            owned(cx)?;
            cx.say(&scope, "sound", KEEPER).await?;
            for (at, fault) in EmbedFault::ALL.into_iter().enumerate() {
                let name = format!("k{at}");
                cx.embedder().fail_always(Some(fault));
                let set = cx.say(&scope, &name, TEA).await;
                cx.embedder().fail_always(None);
                set?;
                let words = cx.words(&scope, "green tea").await?;
                expect_eq!(
                    hit_keys(&words),
                    [name.as_str()],
                    "hits by words after embedding failed with {fault:?}"
                );
                expect_eq!(
                    cx.near(&scope, TEA).await?,
                    ["sound"],
                    "hits by vectors after embedding failed with {fault:?}"
                );
                let of = expect_some!(cx.current(&scope).await?, "the current model in the statistics");
                expect_eq!(
                    (of.rows, of.missing),
                    (1, 1),
                    "rows and missing after embedding failed with {fault:?}"
                );
                let repair = cx.reembed(&scope, 10).await?;
                expect_eq!(
                    (repair.embedded, repair.remaining),
                    (1, 0),
                    "embedded and remaining by the repair"
                );
                let score =
                    expect_some!(cx.near_score(&scope, TEA, &name).await?, "the hit after the repair");
                check!(score > 0.99, "a repaired entry scores {score} for its own text");
                cx.delete(&scope, &name).await?;
            }
        }
    ),
    case!("embed.failure.reason", [Kv, Vector], ["EMB-5", "ERR-2"], |cx, scope: Scope| {
        owned(cx)?;
        for fault in EmbedFault::ALL {
            cx.embedder().fail_always(Some(fault));
            let set = cx.say(&scope, "k", "the secret is hunter2").await;
            let updated = cx.update(&scope, "l", Reducer::AppendDedupe(json("\"hunter2\"")?)).await;
            cx.embedder().fail_always(None);
            for embedding in [set?.embedding, updated?.embedding] {
                match embedding {
                    Embedding::Failed(reason) => {
                        check!(
                            !reason.trim().is_empty() && !reason.contains("hunter2"),
                            "the reason of {fault:?} is empty or quotes the text: `{reason}`"
                        );
                    }
                    other => {
                        return Err(crate::check::Stop::failed(format_args!("{fault:?} ends as {other:?}")));
                    }
                }
            }
        }
    }),
    case!("embed.overwrite.no-stale-vector", [Kv, Vector], ["EMB-3"], |cx, scope: Scope| {
        for name in ["bare", "failed", "fresh"] {
            let set = cx.say(&scope, name, "ann drinks green tea").await?;
            expect_eq!(set.embedding, Embedding::Stored, "the embedding of `{name}`");
        }
        cx.say(&scope, "fresh", "the lighthouse keeper sleeps").await?;
        cx.set_with(&scope, "bare", "\"rain\"", SetOptions::default().with_embed(Embed::Never)).await?;
        let mut due = vec!["failed", "fresh"];
        if cx.capabilities().embedding == EmbeddingOwner::Embedder {
            cx.embedder().fail_always(Some(EmbedFault::Error(ErrorKind::Unavailable)));
            let set = cx.say(&scope, "failed", "rain").await;
            cx.embedder().fail_always(None);
            set?;
            due = vec!["fresh"];
        }
        expect_eq!(cx.near(&scope, "ann drinks green tea").await?, due, "entries that have a vector");
        let query = by_vector(KEEPER);
        let hits = cx.find(&scope, query).await?;
        let fresh =
            expect_some!(hits.iter().find(|hit| hit.entry.key.as_str() == "fresh"), "the fresh vector");
        check!(fresh.score > 0.99, "a vector of the new text has a score of {} for that text", fresh.score);
    }),
    case!("embed.never.not-found-by-vector", [Kv, Vector], ["EMB-3"], |cx, scope: Scope| {
        let set =
            cx.set_with(&scope, "k", "\"green tea\"", SetOptions::default().with_embed(Embed::Never)).await?;
        expect_eq!(set.embedding, Embedding::Skipped);
        expect_eq!(cx.near(&scope, "green tea").await?.len(), 0, "hits by a vector that was not wanted");
    }),
    case!("embed.always.embeds", [Kv, Vector], ["EMB-1", "VEC-5"], |cx, scope: Scope| {
        let options = SetOptions::default().with_embed(Embed::Always);
        let set = cx.set_with(&scope, "k", "\"ann drinks green tea\"", options).await?;
        expect_eq!(set.embedding, Embedding::Stored, "the outcome of a set with `always`");
        let score = expect_some!(cx.near_score(&scope, TEA, "k").await?, "the hit");
        check!(score > 0.99, "an entry scores {score} for its own text");
    }),
    case!("embed.blank.skipped", [Kv, Vector], ["EMB-6"], |cx, scope: Scope| {
        owned(cx)?;
        cx.say(&scope, "text", TEA).await?;
        let calls = cx.embedder().calls();
        for (name, text, explicit) in [
            ("empty", "\"\"", None),
            ("spaces", "\" \\n\\t\"", None),
            ("null", "null", None),
            ("bool", "[true,false]", None),
            ("explicit", "\"green tea\"", Some("")),
            ("explicit spaces", "\"green tea\"", Some(" \n")),
        ] {
            let mut options = SetOptions::default();
            options.text = explicit.map(str::to_owned);
            let set = cx.set_with(&scope, name, text, options).await?;
            expect_eq!(set.embedding, Embedding::Skipped, "the embedding of `{name}`, which has no text");
        }
        expect_eq!(cx.embedder().calls(), calls, "calls to the embedder after texts with nothing in them");
        expect_eq!(cx.near(&scope, TEA).await?, ["text"], "hits by vectors");
        let cleared = SetOptions::default().with_text("");
        cx.set_with(&scope, "text", "\"ann drinks green tea\"", cleared).await?;
        expect_eq!(cx.near(&scope, TEA).await?.len(), 0, "hits after the text was removed");
    }),
    case!("embed.calls.one-for-a-write", [Kv, Vector], ["EMB-7"], |cx, scope: Scope| {
        owned(cx)?;
        expect_eq!(asked(cx, cx.say(&scope, "a", TEA)).await?, (1, 1), "calls and texts of a set");
        expect_eq!(asked(cx, cx.say(&scope, "a", KEEPER)).await?, (1, 1), "calls and texts of an overwrite");
        expect_eq!(asked(cx, cx.increment(&scope, "n", 7)).await?, (1, 1), "calls and texts of an increment");
        expect_eq!(
            asked(cx, cx.merge(&scope, "m", "{\"a\":\"tea\"}")).await?,
            (1, 1),
            "calls and texts of an update"
        );
        let items = (0..5)
            .map(|n| item(&format!("b{n}"), &format!("\"green tea {n}\"")))
            .collect::<Result<_, _>>()?;
        let (calls, texts) = asked(cx, cx.bulk(&scope, items)).await?;
        expect_eq!(texts, 5, "texts of a bulk insert of five");
        check!((1..=5).contains(&calls), "a bulk insert of five makes {calls} calls");
        expect_eq!(
            asked(cx, cx.find(&scope, by_vector(TEA))).await?,
            (1, 1),
            "calls and texts of a search by vectors"
        );
    }),
    case!("embed.calls.none-for-the-rest", [Kv, Vector], ["EMB-7"], |cx, scope: Scope| {
        owned(cx)?;
        cx.say_all(&scope, &[("a", TEA), ("b", KEEPER)]).await?;
        let calls = cx.embedder().calls();
        cx.set_with(&scope, "c", "\"green tea\"", never_embed()).await?;
        cx.access(&scope, "a").await?;
        cx.all_keys(&scope).await?;
        cx.export(&scope).await?;
        cx.delete(&scope, "a").await?;
        cx.kv().reembed(&scope, step(10, true)).await?;
        if cx.capabilities().lexical_search {
            cx.find(&scope, by_words(TEA)).await?;
        }
        if cx.capabilities().stats {
            cx.kv().stats(&scope).await?;
        }
        cx.kv().drop_scope(&scope).await?;
        expect_eq!(cx.embedder().calls(), calls, "calls to the embedder by work that needs no vector");
    }),
    case!(
        "embed.calls.none-for-refused-writes",
        [Kv, Vector, Cas, Quotas],
        ["EMB-7", "EMB-1"],
        |cx, scope: Scope| {
            owned(cx)?;
            cx.say(&scope, "a", TEA).await?;
            let calls = cx.embedder().calls();
            let refused = |options| cx.set_with(&scope, "a", "\"coffee\"", options);
            let absent = refused(SetOptions::default().with_expect(Expect::Absent)).await;
            expect_kind!(absent, ErrorKind::Conflict, "a set that expects nothing there");
            let stale = refused(SetOptions::default().with_expect(Expect::Version(u64::MAX >> 2))).await;
            expect_kind!(stale, ErrorKind::Conflict, "a set that expects another version");
            let full = cx.set_with(&scope, "b", "1", SetOptions::default().with_quota(entries(1))).await;
            expect_kind!(full, ErrorKind::QuotaExceeded, "a set over the quota");
            let never = refused(SetOptions::default().with_ttl(Ttl::After(ms(0)))).await;
            expect_kind!(never, ErrorKind::InvalidArgument, "a set without a lifetime");
            let long = SetOptions::default().with_text("x".repeat(MAX_TEXT_BYTES + 1));
            expect_kind!(refused(long).await, ErrorKind::TooLarge, "a set with a text that is too long");
            let value = string_of(cx.capabilities().max_value_bytes + 1);
            expect_kind!(cx.set(&scope, "a", &value).await, ErrorKind::TooLarge, "a value that is too long");
            expect_kind!(cx.increment(&scope, "a", 1).await, ErrorKind::WrongType, "an increment of a text");
            let second = item_with("a", "1", SetOptions::default().with_expect(Expect::Absent))?;
            let bulk = cx.bulk(&scope, vec![item("c", "\"tea\"")?, second]).await;
            expect_kind!(bulk, ErrorKind::Conflict, "a bulk insert whose second item conflicts");
            expect_eq!(cx.embedder().calls(), calls, "calls to the embedder by writes that were refused");
            expect_eq!(cx.near(&scope, TEA).await?, ["a"], "hits after writes that were refused");
        }
    ),
    case!("embed.retry.not-again", [Kv, Vector, Cas], ["EMB-7", "VER-7"], |cx, scope: Scope| {
        owned(cx)?;
        let options = || SetOptions::default().with_expect(Expect::Absent);
        cx.set_with(&scope, "k", "\"ann drinks green tea\"", options()).await?;
        let again = cx.set_with(&scope, "k", "\"ann drinks green tea\"", options());
        expect_eq!(
            asked(cx, again).await?,
            (0, 0),
            "calls and texts of a set whose result was already stored"
        );
        expect_eq!(cx.near(&scope, TEA).await?, ["k"], "hits after the retry");
    }),
    case!("embed.update.embeds-anew", [Kv, Vector], ["EMB-8"], |cx, scope: Scope| {
        cx.set(&scope, "list", "[\"ann drinks green tea\"]").await?;
        let reducer = Reducer::BoundedList { item: Json::string(KEEPER), limit: 1 };
        let updated = cx.update(&scope, "list", reducer).await?;
        expect_eq!(updated.embedding, Embedding::Stored, "the embedding of an update");
        let (old, new) =
            (cx.near_score(&scope, TEA, "list").await?, cx.near_score(&scope, KEEPER, "list").await?);
        check!(
            old.is_some_and(|score| score < 0.9) && new.is_some_and(|score| score > 0.99),
            "an updated entry scores {old:?} for its old text and {new:?} for its new one"
        );
    }),
    case!("embed.increment.embeds-anew", [Kv, Vector], ["EMB-8"], |cx, scope: Scope| {
        cx.set(&scope, "n", "41").await?;
        cx.increment(&scope, "n", 1).await?;
        let (old, new) = (cx.near_score(&scope, "41", "n").await?, cx.near_score(&scope, "42", "n").await?);
        check!(
            old.is_some_and(|score| score < 0.9) && new.is_some_and(|score| score > 0.99),
            "a counter scores {old:?} for its old text and {new:?} for its new one"
        );
    }),
    case!("embed.text.explicit-first", [Kv, Vector], ["EMB-10"], |cx, scope: Scope| {
        let options = SetOptions::default().with_text(TEA);
        cx.set_with(&scope, "explicit", "\"the lighthouse keeper sleeps\"", options).await?;
        cx.set(&scope, "members", r#"{"ann":{"drinks":["green","tea"]}}"#).await?;
        for name in ["explicit", "members"] {
            let score = expect_some!(cx.near_score(&scope, TEA, name).await?, "the hit `{name}`");
            check!(score > 0.99, "`{name}` scores {score} for its text");
        }
    }),
    case!("embed.bulk.each-as-it-wants", [Kv, Vector], ["EMB-16"], |cx, scope: Scope| {
        let items = vec![
            item("a", "\"ann drinks green tea\"")?,
            item_with("b", "\"ann drinks green tea\"", never_embed())?,
            item("c", "null")?,
            item_with("d", "\"x\"", SetOptions::default().with_text(KEEPER).with_embed(Embed::Always))?,
            item("e", "\"bob paints boats\"")?,
        ];
        let outcomes: Vec<Embedding> =
            cx.bulk(&scope, items).await?.into_iter().map(|of| of.embedding).collect();
        let (stored, skipped) = (Embedding::Stored, Embedding::Skipped);
        expect_eq!(
            outcomes,
            [stored.clone(), skipped.clone(), skipped, stored.clone(), stored],
            "embeddings of items, the second without embedding and the third without text"
        );
        expect_eq!(cx.near(&scope, TEA).await?, ["a", "d", "e"], "hits by vectors");
        for (name, text) in [("a", TEA), ("d", KEEPER), ("e", "bob paints boats")] {
            let score = expect_some!(cx.near_score(&scope, text, name).await?, "the hit `{name}`");
            check!(score > 0.99, "`{name}` scores {score} for its own text");
        }
    }),
    case!("embed.bulk.later-of-a-key", [Kv, Vector], ["EMB-16", "BLK-3"], |cx, scope: Scope| {
        let items = vec![
            item("k", "\"ann drinks green tea\"")?,
            item("bare", "\"ann drinks green tea\"")?,
            item("k", "\"the lighthouse keeper sleeps\"")?,
            item_with("bare", "\"ann drinks green tea\"", never_embed())?,
        ];
        cx.bulk(&scope, items).await?;
        expect_eq!(cx.near(&scope, KEEPER).await?, ["k"], "hits if the later item of `bare` skips embedding");
        let score = expect_some!(cx.near_score(&scope, KEEPER, "k").await?, "the hit `k`");
        check!(score > 0.99, "of two items with one key the later's text scores {score}");
    }),
    case!("embed.ttl.kept-by-vectors", [Kv, Vector], ["VEC-5", "TTL-5"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", "\"ann drinks green tea\"", cx.expiring(1_000)).await?;
        cx.advance_ms(999);
        expect_eq!(cx.near(&scope, TEA).await?, ["k"], "hits a millisecond before the expiry");
        cx.set_with(&scope, "k", "\"ann drinks green tea\"", cx.expiring(1_000)).await?;
        cx.advance_ms(999);
        expect_eq!(cx.near(&scope, TEA).await?, ["k"], "hits of a lifetime that was renewed");
        cx.advance_ms(1);
        expect_eq!(cx.near(&scope, TEA).await?.len(), 0, "hits at the millisecond of the expiry");
        expect_eq!(cx.reembed(&scope, 10).await?.embedded, 0, "expired entries that were embedded");
        cx.set_with(&scope, "k", "\"ann drinks green tea\"", never_embed()).await?;
        expect_eq!(cx.near(&scope, TEA).await?.len(), 0, "hits by the vector of an expired life");
    }),
];

const TEA: &str = "ann drinks green tea";
const KEEPER: &str = "the lighthouse keeper sleeps";

fn never_embed() -> SetOptions {
    SetOptions::default().with_embed(Embed::Never)
}

/// The embedder's calls and texts caused by some work.
pub(crate) async fn asked<T>(
    cx: &Cx,
    work: impl Future<Output = memory_core::Result<T>>,
) -> CaseResult<(u64, u64)> {
    let before = (cx.embedder().calls(), cx.embedder().texts());
    work.await?;
    Ok((cx.embedder().calls() - before.0, cx.embedder().texts() - before.1))
}
