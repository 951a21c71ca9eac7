//! EMB-9: concurrent operations while an embedder works.

use memory_core::{Embed, Embedding, Scope, SetOptions};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_some};
use crate::cx::vectors::owned;
use crate::harness::executor::BoxFuture;

pub(crate) const CASES: &[Case] = &[
    case!("embed.late.after-an-overwrite", [Kv, Vector], ["EMB-9"], |cx, scope: Scope| {
        owned(cx)?;
        let hold = cx.embedder().hold_next();
        let mut late: BoxFuture<'_, _> = Box::pin(cx.say(&scope, "bare", TEA));
        hold.catches(&mut late).await?;
        cx.set_with(&scope, "bare", "\"ann drinks green tea\"", never_embed()).await?;
        hold.release();
        let outcome = late.await?;
        check!(outcome.embedding != Embedding::Stored, "a vector that came too late is reported as stored");
        expect_eq!(cx.near(&scope, TEA).await?.len(), 0, "hits by a vector that came late");

        let hold = cx.embedder().hold_next();
        let mut late: BoxFuture<'_, _> = Box::pin(cx.say(&scope, "k", TEA));
        hold.catches(&mut late).await?;
        let newer = cx.say(&scope, "k", KEEPER).await?;
        expect_eq!(newer.embedding, Embedding::Stored, "the embedding of the newer write");
        hold.release();
        late.await?;
        let score = expect_some!(cx.near_score(&scope, KEEPER, "k").await?, "the hit of the newer text");
        check!(score > 0.99, "after an older write's vector came late, the newer text scores {score}");
        expect_eq!(cx.live(&scope, "k").await?.version, newer.version, "the version of the newer write");
    }),
    case!("embed.late.after-a-delete", [Kv, Vector], ["EMB-9"], |cx, scope: Scope| {
        owned(cx)?;
        for again in [false, true] {
            let hold = cx.embedder().hold_next();
            let mut late: BoxFuture<'_, _> = Box::pin(cx.say(&scope, "k", TEA));
            hold.catches(&mut late).await?;
            check!(cx.delete(&scope, "k").await?, "the entry is not there while its text is embedded");
            if again {
                cx.set_with(&scope, "k", "\"ann drinks green tea\"", never_embed()).await?;
            }
            hold.release();
            late.await?;
            expect_eq!(
                cx.near(&scope, TEA).await?.len(),
                0,
                "hits by a late vector (deleted, set again: {again})"
            );
            expect_eq!(cx.entry(&scope, "k").await?.is_some(), again, "whether the entry is there");
        }
    }),
    case!("embed.late.reembed", [Kv, Vector], ["EMB-9", "EMB-4"], |cx, scope: Scope| {
        owned(cx)?;
        cx.set_with(&scope, "k", "\"ann drinks green tea\"", never_embed()).await?;
        let hold = cx.embedder().hold_next();
        let mut late: BoxFuture<'_, _> = Box::pin(cx.reembed(&scope, 10));
        hold.catches(&mut late).await?;
        cx.set_with(&scope, "k", "\"the lighthouse keeper sleeps\"", never_embed()).await?;
        hold.release();
        late.await?;
        expect_eq!(
            cx.near(&scope, TEA).await?.len(),
            0,
            "hits by a re-embedding of a text that was overwritten"
        );
    }),
    case!("embed.late.others-go-on", [Kv, Vector], ["EMB-9", "CON-2"], |cx, scope: Scope| {
        owned(cx)?;
        cx.say(&scope, "a", TEA).await?;
        let hold = cx.embedder().hold_next();
        let mut late: BoxFuture<'_, _> = Box::pin(cx.say(&scope, "k", KEEPER));
        hold.catches(&mut late).await?;
        expect_eq!(
            cx.text(&scope, "k").await?.as_deref(),
            Some("\"the lighthouse keeper sleeps\""),
            "the entry whose text is being embedded"
        );
        cx.set_with(&scope, "b", "1", never_embed()).await?;
        cx.increment(&scope, "n", 1).await?;
        cx.say(&scope, "c", "green apples").await?;
        cx.delete(&scope, "b").await?;
        expect_eq!(cx.near(&scope, TEA).await?, ["a", "c", "n"], "hits while another text is being embedded");
        hold.release();
        expect_eq!(late.await?.embedding, Embedding::Stored, "the slow embedding");
        expect_eq!(cx.near(&scope, TEA).await?, ["a", "c", "k", "n"], "hits once it ended");
    }),
    case!("embed.late.dropped-future", [Kv, Vector], ["EMB-9", "CON-2"], |cx, scope: Scope| {
        owned(cx)?;
        let hold = cx.embedder().hold_next();
        let mut late: BoxFuture<'_, _> = Box::pin(cx.say(&scope, "k", TEA));
        hold.catches(&mut late).await?;
        drop(late);
        hold.release();
        check!(
            cx.entry(&scope, "k").await?.is_some(),
            "a write whose future was dropped while embedding is lost"
        );
        // Only the vector is missing.
        let repair = cx.reembed(&scope, 10).await?;
        check!(repair.remaining == 0, "{} entries are still without a vector", repair.remaining);
        expect_eq!(cx.near(&scope, TEA).await?, ["k"], "hits once it is embedded");
        cx.say(&scope, "k", KEEPER).await?;
        let score = expect_some!(cx.near_score(&scope, KEEPER, "k").await?, "the hit of the newer text");
        check!(score > 0.99, "after a dropped future the newer text scores {score}");
    }),
];

const TEA: &str = "ann drinks green tea";
const KEEPER: &str = "the lighthouse keeper sleeps";

fn never_embed() -> SetOptions {
    SetOptions::default().with_embed(Embed::Never)
}
