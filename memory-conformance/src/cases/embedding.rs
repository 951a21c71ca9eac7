//! EMB: vectors beside the entries.

use memory_core::{
    Embed, Embedding, EmbeddingOwner, ErrorKind, OnExisting, ReembedOptions, SearchMode, SearchQuery,
    SetOptions,
};

use super::given::item;
use crate::case::cases;
use crate::check::{CaseResult, Stop, check, expect_eq, expect_some};
use crate::cx::{Cx, hit_keys, json};
use crate::embedder::EmbedFault;

cases! {
    "embed.failure.write-stands": [Kv, Vector], ["EMB-1"] => write_stands;
    "embed.failure.bulk-and-update-stand": [Kv, Vector], ["EMB-1"] => others_stand;
    "embed.overwrite.no-stale-vector": [Kv, Vector], ["EMB-3"] => no_stale_vector;
    "embed.never.not-found-by-vector": [Kv, Vector], ["EMB-3"] => never;
    "embed.reembed.in-steps": [Kv, Vector], ["EMB-4"] => in_steps;
    "embed.reembed.from-the-text": [Kv, Vector], ["EMB-4"] => from_the_text;
    "embed.vectors.exported-and-imported": [Kv, Vector], ["EXP-1", "EXP-4"] => transferred;
}

/// Skips the case where the provider does not embed with the fixture's embedder.
fn owned(cx: &Cx) -> CaseResult {
    if cx.capabilities().embedding == EmbeddingOwner::Embedder {
        Ok(())
    } else {
        Err(Stop::skipped("the provider embeds by itself, so no failure can be made"))
    }
}

/// The keys that a search by vectors finds, in byte order.
async fn near(cx: &Cx, scope: &memory_core::Scope, text: &str) -> memory_core::Result<Vec<String>> {
    let hits = cx.find(scope, SearchQuery::new(text).with_mode(SearchMode::Vector)).await?;
    let mut keys: Vec<String> = hit_keys(&hits).into_iter().map(str::to_owned).collect();
    keys.sort();
    Ok(keys)
}

async fn write_stands(cx: &Cx) -> CaseResult {
    owned(cx)?;
    for fault in [
        EmbedFault::Error(ErrorKind::Unavailable),
        EmbedFault::Error(ErrorKind::TooLarge),
        EmbedFault::NotANumber,
        EmbedFault::Zero,
        EmbedFault::TooFew,
    ] {
        let scope = cx.scope()?;
        cx.embedder().fail_always(Some(fault));
        let set = cx.say(&scope, "k", "green tea").await;
        cx.embedder().fail_always(None);
        let set = set?;
        check!(
            matches!(set.embedding, Embedding::Failed(_)),
            "the outcome where the embedder fails with {fault:?}: {set:?}"
        );
        expect_eq!(cx.live(&scope, "k").await?.version, set.version, "the version stored, with {fault:?}");
        expect_eq!(
            near(cx, &scope, "green tea").await?.len(),
            0,
            "hits by a vector that was not made, with {fault:?}"
        );
        let again = cx.say(&scope, "k", "green tea").await?;
        expect_eq!(again.embedding, Embedding::Stored, "the outcome where the embedder works again");
    }
    Ok(())
}

async fn others_stand(cx: &Cx) -> CaseResult {
    owned(cx)?;
    let scope = cx.scope()?;
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
    Ok(())
}

async fn no_stale_vector(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
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
    expect_eq!(near(cx, &scope, "ann drinks green tea").await?, due, "entries that have a vector");
    let query = SearchQuery::new("the lighthouse keeper sleeps").with_mode(SearchMode::Vector);
    let hits = cx.find(&scope, query).await?;
    let fresh = expect_some!(hits.iter().find(|hit| hit.entry.key.as_str() == "fresh"), "the fresh vector");
    check!(fresh.score > 0.99, "a vector of the new text has a score of {} for that text", fresh.score);
    Ok(())
}

async fn never(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
    let set =
        cx.set_with(&scope, "k", "\"green tea\"", SetOptions::default().with_embed(Embed::Never)).await?;
    expect_eq!(set.embedding, Embedding::Skipped);
    expect_eq!(near(cx, &scope, "green tea").await?.len(), 0, "hits by a vector that was not wanted");
    Ok(())
}

async fn in_steps(cx: &Cx) -> CaseResult {
    owned(cx)?;
    let scope = cx.scope()?;
    cx.embedder().fail_always(Some(EmbedFault::Error(ErrorKind::Unavailable)));
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        let set = cx.say(&scope, name, "green tea").await;
        check!(set.is_ok(), "a write failed with its embedding");
    }
    cx.embedder().fail_always(None);
    let before = cx.export(&scope).await?;
    let options = |limit, dry_run| {
        let mut options = ReembedOptions::default();
        (options.limit, options.dry_run) = (limit, dry_run);
        options
    };
    let dry = cx.kv().reembed(&scope, options(2, true)).await?;
    expect_eq!((dry.embedded, dry.remaining), (2, 5), "to embed and remaining by a dry run of 2");
    for (embedded, remaining) in [(2, 3), (2, 1), (1, 0), (0, 0)] {
        let step = cx.kv().reembed(&scope, options(2, false)).await?;
        expect_eq!(
            (step.embedded, step.remaining, step.failed),
            (embedded, remaining, 0),
            "embedded, remaining, failed"
        );
    }
    expect_eq!(near(cx, &scope, "green tea").await?, names, "hits by vector once all are embedded");
    for record in before {
        let mut now = cx.live(&scope, record.entry.key.as_str()).await?;
        now.access_count = record.entry.access_count;
        expect_eq!(now, record.entry, "the entry after its embedding");
    }
    Ok(())
}

async fn from_the_text(cx: &Cx) -> CaseResult {
    owned(cx)?;
    let scope = cx.scope()?;
    cx.embedder().fail_next(EmbedFault::Error(ErrorKind::Unavailable));
    let options = SetOptions::default().with_text("ann drinks green tea");
    cx.set_with(&scope, "k", "\"rain tomorrow\"", options).await?;
    cx.kv().reembed(&scope, ReembedOptions::default()).await?;
    let query = SearchQuery::new("ann drinks green tea").with_mode(SearchMode::Vector);
    let hits = cx.find(&scope, query).await?;
    let hit = expect_some!(hits.first(), "the hit by the text's vector");
    check!(hit.score > 0.99, "the vector of the explicit text has a score of {} for that text", hit.score);
    Ok(())
}

async fn transferred(cx: &Cx) -> CaseResult {
    let (scope, copy) = (cx.scope()?, cx.scope()?);
    cx.say_all(&scope, &[("a", "ann drinks green tea"), ("b", "rain tomorrow")]).await?;
    cx.kv()
        .set(&scope, &crate::cx::key("c")?, json("1")?, SetOptions::default().with_embed(Embed::Never))
        .await?;
    let records = cx.export(&scope).await?;
    let vectors: Vec<usize> = records.iter().map(|record| record.vectors.len()).collect();
    expect_eq!(vectors, [1, 1, 0], "vectors in the records");
    cx.import(&copy, records, OnExisting::Skip).await?;
    for text in ["ann drinks green tea", "rain tomorrow"] {
        expect_eq!(near(cx, &copy, text).await?, ["a", "b"], "hits by vector in the copy");
    }
    Ok(())
}
