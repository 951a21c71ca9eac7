//! STA: what a scope holds.

use memory_core::{BackendExt as _, Reducer, Scope, SetOptions};

use super::given::{item, metadata};
use crate::case::cases;
use crate::check::{CaseResult, check, expect_eq};
use crate::cx::{Cx, expiring, json, source, tagged};

cases! {
    "stats.entries.and-bytes": [Kv, Stats], ["STA-1"] => entries_and_bytes;
    "stats.bytes.of-every-part": [Kv, Stats], ["STA-1"] => every_part;
    "stats.counts.follow-writes": [Kv, Stats], ["STA-1", "STA-2"] => follow_writes;
    "stats.scope.never-written": [Kv, Stats], ["STA-3"] => never_written;
}

async fn entries_and_bytes(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
    cx.fill(&scope, &[("a", "1"), ("bb", r#""é""#), ("ccc", "[1, 2]")]).await?;
    let stats = cx.kv().stats(&scope).await?;
    expect_eq!(
        (stats.entries, stats.bytes, stats.expiring),
        (3, 2 + 6 + 9, 0),
        "entries, bytes and expiring"
    );
    Ok(())
}

async fn every_part(cx: &Cx) -> CaseResult {
    for (what, options, due) in [
        ("nothing more", SetOptions::default(), 2),
        (
            "metadata",
            tagged(metadata(r#"{"ab":"é","n":1,"x":0.5,"ok":true}"#)?),
            2 + (2 + 2) + (1 + 8) + (1 + 8) + (2 + 1),
        ),
        ("a source", SetOptions::default().with_source(source("chat")?), 6),
        ("a text", SetOptions::default().with_text("tea é"), 8),
        ("an expiry", expiring(1_000), 2),
    ] {
        let scope = cx.scope()?;
        cx.set_with(&scope, "k", "1", options).await?;
        let stats = cx.kv().stats(&scope).await?;
        expect_eq!(stats.bytes, due, "bytes of an entry with {what}");
        expect_eq!(cx.live(&scope, "k").await?.size_bytes(), due, "bytes of the entry as read, with {what}");
    }
    Ok(())
}

/// Proves that the statistics are those of what is listed.
async fn as_listed(cx: &Cx, scope: &Scope, after: &str) -> CaseResult {
    let entries = cx.kv().list_all(scope, "").await?;
    let stats = cx.kv().stats(scope).await?;
    let bytes: u64 = entries.iter().map(memory_core::Entry::size_bytes).sum();
    let expiring = entries.iter().filter(|entry| entry.expires_at.is_some()).count() as u64;
    expect_eq!(stats.entries, entries.len() as u64, "entries after {after}");
    expect_eq!(stats.bytes, bytes, "bytes after {after}");
    expect_eq!(stats.expiring, expiring, "expiring entries after {after}");
    Ok(())
}

async fn follow_writes(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
    cx.bulk(&scope, vec![item("a", "1")?, item("b", "\"longer\"")?, item("a", "12")?]).await?;
    as_listed(cx, &scope, "a bulk insert").await?;
    cx.set_with(&scope, "a", "\"a longer value\"", expiring(10)).await?;
    as_listed(cx, &scope, "an overwrite with an expiry").await?;
    cx.set(&scope, "b", "1").await?;
    as_listed(cx, &scope, "an overwrite that shrinks").await?;
    cx.increment(&scope, "b", 99).await?;
    as_listed(cx, &scope, "an increment").await?;
    cx.update(&scope, "l", Reducer::AppendDedupe(json("[1,2,3]")?)).await?;
    as_listed(cx, &scope, "an append").await?;
    cx.delete(&scope, "b").await?;
    as_listed(cx, &scope, "a delete").await?;
    cx.advance_ms(10);
    as_listed(cx, &scope, "an expiry").await?;
    cx.set(&scope, "a", "1").await?;
    as_listed(cx, &scope, "a set over an expired entry").await?;
    cx.kv().drop_scope(&scope).await?;
    as_listed(cx, &scope, "a drop").await
}

async fn never_written(cx: &Cx) -> CaseResult {
    let stats = cx.kv().stats(&cx.scope()?).await?;
    expect_eq!((stats.entries, stats.bytes, stats.expiring), (0, 0, 0), "entries, bytes and expiring");
    check!(
        stats.models.iter().all(|model| model.rows == 0),
        "a scope never written has vectors: {:?}",
        stats.models
    );
    Ok(())
}
