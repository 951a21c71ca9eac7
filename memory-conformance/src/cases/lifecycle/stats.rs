//! STA: statistics of a scope.

use memory_core::{BackendExt as _, Embed, ErrorKind, Reducer, Scope, SetOptions};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_some};
use crate::cx::entries::{item, metadata};
use crate::cx::vectors::owned;
use crate::cx::{Cx, json, source, tagged};
use crate::harness::embedder::EmbedFault;

pub(crate) const CASES: &[Case] = &[
    case!("stats.entries.and-bytes", [Kv, Stats], ["STA-1"], |cx, scope: Scope| {
        cx.fill(&scope, &[("a", "1"), ("bb", r#""é""#), ("ccc", "[1, 2]")]).await?;
        let stats = cx.kv().stats(&scope).await?;
        expect_eq!(
            (stats.entries, stats.bytes, stats.expiring),
            (3, 2 + 6 + 9, 0),
            "entries, bytes and expiring"
        );
    }),
    case!("stats.bytes.of-every-part", [Kv, Stats], ["STA-1"], |cx| {
        for (what, options, due) in [
            ("nothing more", SetOptions::default(), 2),
            (
                "metadata",
                tagged(metadata(r#"{"ab":"é","n":1,"x":0.5,"ok":true}"#)?),
                2 + (2 + 2) + (1 + 8) + (1 + 8) + (2 + 1),
            ),
            ("a source", SetOptions::default().with_source(source("chat")?), 6),
            ("a text", SetOptions::default().with_text("tea é"), 8),
            ("an expiry", cx.expiring(1_000), 2),
        ] {
            let scope = cx.scope()?;
            cx.set_with(&scope, "k", "1", options).await?;
            let stats = cx.kv().stats(&scope).await?;
            expect_eq!(stats.bytes, due, "bytes of an entry with {what}");
            expect_eq!(
                cx.live(&scope, "k").await?.size_bytes(),
                due,
                "bytes of the entry as read, with {what}"
            );
        }
    }),
    case!("stats.counts.follow-writes", [Kv, Stats], ["STA-1", "STA-2"], |cx, scope: Scope| {
        cx.stand_still();
        cx.bulk(&scope, vec![item("a", "1")?, item("b", "\"longer\"")?, item("a", "12")?]).await?;
        as_listed(cx, &scope, "a bulk insert").await?;
        cx.set_with(&scope, "a", "\"a longer value\"", cx.expiring(10)).await?;
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
        as_listed(cx, &scope, "a drop").await?;
    }),
    case!("stats.scope.never-written", [Kv, Stats], ["STA-3"], |cx| {
        let stats = cx.kv().stats(&cx.scope()?).await?;
        expect_eq!((stats.entries, stats.bytes, stats.expiring), (0, 0, 0), "entries, bytes and expiring");
        check!(
            stats.models.iter().all(|model| model.rows == 0),
            "a scope never written has vectors: {:?}",
            stats.models
        );
    }),
    case!("stats.models.rows-and-missing", [Kv, Vector, Stats], ["STA-4"], |cx, scope: Scope| {
        owned(cx)?;
        cx.say_all(&scope, &[("a", "tea"), ("b", "coffee"), ("c", "rain"), ("d", "snow")]).await?;
        of_current(cx, &scope, 4, "a bulk insert of four").await?;
        cx.set_with(&scope, "a", "1", SetOptions::default().with_embed(Embed::Never)).await?;
        of_current(cx, &scope, 3, "an overwrite without a vector").await?;
        cx.embedder().fail_next(EmbedFault::Error(ErrorKind::Timeout));
        cx.say(&scope, "b", "espresso").await?;
        of_current(cx, &scope, 2, "an overwrite with a failed embedding").await?;
        cx.delete(&scope, "c").await?;
        of_current(cx, &scope, 1, "a delete").await?;
        cx.set_with(&scope, "e", "\"wind\"", cx.expiring(10)).await?;
        of_current(cx, &scope, 2, "a set with an expiry").await?;
        cx.set(&scope, "blank", "null").await?;
        of_current(cx, &scope, 2, "a set of a value without text").await?;
        cx.advance_ms(10);
        of_current(cx, &scope, 1, "an expiry").await?;
        cx.reembed(&scope, 10).await?;
        of_current(cx, &scope, 3, "a re-embedding").await?;
        cx.kv().drop_scope(&scope).await?;
        let rows = cx.current(&scope).await?.map_or(0, |of| of.rows + of.missing);
        expect_eq!(rows, 0, "rows and missing after a drop");
    }),
    case!("stats.models.current-listed", [Kv, Vector, Stats], ["STA-5"], |cx, scope: Scope| {
        owned(cx)?;
        cx.set_with(&scope, "k", "\"tea\"", SetOptions::default().with_embed(Embed::Never)).await?;
        let of = expect_some!(cx.current(&scope).await?, "the current model if no entry has a vector");
        expect_eq!((of.rows, of.missing, of.bytes), (0, 1, 0), "rows, missing and bytes");
    }),
    case!("stats.models.bytes", [Kv, Vector, Stats], ["STA-4"], |cx, scope: Scope| {
        owned(cx)?;
        let mut last = 0;
        for name in ["a", "b", "c"] {
            cx.say(&scope, name, "tea").await?;
            let of = expect_some!(cx.current(&scope).await?, "the current model");
            // However vectors are packed, each number takes some space.
            check!(
                of.bytes >= last + 8,
                "{} vectors of 64 numbers take {} bytes, one fewer {last}",
                of.rows,
                of.bytes
            );
            last = of.bytes;
        }
        cx.delete(&scope, "a").await?;
        let of = expect_some!(cx.current(&scope).await?, "the current model");
        check!(of.bytes < last, "vectors take {} bytes after a delete, {last} before", of.bytes);
    }),
];

/// Proves that the statistics match the listing.
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

/// Proves the number of vectors of the current model, and that the rest is missing.
async fn of_current(cx: &Cx, scope: &Scope, rows: u64, after: &str) -> CaseResult {
    let entries = cx.kv().stats(scope).await?.entries;
    let of = expect_some!(cx.current(scope).await?, "the current model in the statistics, after {after}");
    expect_eq!((of.rows, of.missing), (rows, entries - rows), "rows and missing after {after}");
    expect_eq!(of.stale, 0, "entries with a vector of another model after {after}");
    Ok(())
}
