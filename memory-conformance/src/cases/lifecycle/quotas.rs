//! QUO: how much a scope may hold.

use memory_core::{
    BulkOptions, Error, ErrorKind, ImportOptions, NewEntry, Quota, Reducer, Result, Scope, SetOptions,
    SetOutcome, UpdateOptions,
};
use serde_json::Value;

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind};
use crate::cx::entries::{bytes, detail, entries, item, item_with, metadata, string_of};
use crate::cx::{Cx, json, key, source};
use crate::stream;

pub(crate) const CASES: &[Case] = &[
    case!("quota.entries.exact", [Kv, Quotas], ["QUO-1", "QUO-2"], |cx, scope: Scope| {
        for name in ["a", "b", "c"] {
            set(cx, &scope, name, "1", entries(3)).await?;
        }
        let error = expect_kind!(
            set(cx, &scope, "d", "1", entries(3)).await,
            ErrorKind::QuotaExceeded,
            "a fourth of three"
        );
        expect_figures(&error, "entries", 3, 3, 4)?;
        set(cx, &scope, "a", "\"much longer than before\"", entries(3)).await?;
        cx.delete(&scope, "b").await?;
        set(cx, &scope, "d", "1", entries(3)).await?;
        expect_eq!(cx.all_keys(&scope).await?, ["a", "c", "d"]);
        let none = set(cx, &cx.scope()?, "a", "1", entries(0)).await;
        expect_kind!(none, ErrorKind::QuotaExceeded, "an entry under a quota of none");
    }),
    case!("quota.bytes.exact", [Kv, Quotas], ["QUO-1", "QUO-2"], |cx, scope: Scope| {
        set(cx, &scope, "a", "1234", bytes(10)).await?;
        let error = expect_kind!(
            set(cx, &scope, "b", "12345", bytes(10)).await,
            ErrorKind::QuotaExceeded,
            "11 bytes of 10"
        );
        expect_figures(&error, "bytes", 10, 5, 11)?;
        set(cx, &scope, "b", "1234", bytes(10)).await?;
        // Bytes, not characters.
        let wide = set(cx, &cx.scope()?, "é", "\"é\"", bytes(5)).await;
        let error = expect_kind!(wide, ErrorKind::QuotaExceeded, "6 bytes of 5");
        expect_figures(&error, "bytes", 5, 0, 6)?;
    }),
    case!("quota.bytes.of-every-part", [Kv, Quotas], ["QUO-1", "QUO-2"], |cx| {
        for (what, options, size) in [
            (
                "metadata",
                SetOptions::default().with_metadata(metadata(r#"{"ab":"é","n":1,"ok":true}"#)?),
                2 + 4 + 9 + 3,
            ),
            ("a source", SetOptions::default().with_source(source("chat")?), 6),
            ("a text", SetOptions::default().with_text("tea é"), 8),
        ] {
            let scope = cx.scope()?;
            let over = cx.set_with(&scope, "k", "1", options.clone().with_quota(bytes(size - 1))).await;
            let error = expect_kind!(over, ErrorKind::QuotaExceeded, "an entry with {what}, one byte over");
            expect_figures(&error, "bytes", size - 1, 0, size)?;
            cx.set_with(&scope, "k", "1", options.with_quota(bytes(size))).await?;
        }
    }),
    case!("quota.overwrite.counts-the-growth", [Kv, Quotas], ["QUO-1", "QUO-2"], |cx, scope: Scope| {
        set(cx, &scope, "a", "123456", bytes(20)).await?;
        set(cx, &scope, "b", "123456", bytes(20)).await?;
        // 14 bytes are used; 6 more fit.
        let over = set(cx, &scope, "a", &string_of(13), bytes(20)).await;
        let error = expect_kind!(over, ErrorKind::QuotaExceeded, "an overwrite to 21 bytes of 20");
        expect_figures(&error, "bytes", 20, 14, 21)?;
        set(cx, &scope, "a", &string_of(12), bytes(20)).await?;
        set(cx, &scope, "a", &string_of(12), bytes(20)).await?;
        set(cx, &scope, "a", "1", bytes(20)).await?;
        set(cx, &scope, "b", &string_of(17), bytes(20)).await?;
    }),
    case!("quota.increment.counts-digits", [Kv, Quotas], ["QUO-1", "QUO-2"], |cx, scope: Scope| {
        let add = async |delta, quota| {
            cx.kv().increment(&scope, &key("n")?, delta, UpdateOptions::default().with_quota(quota)).await
        };
        let error =
            expect_kind!(add(1, bytes(1)).await, ErrorKind::QuotaExceeded, "a counter of 2 bytes if 1 fits");
        expect_figures(&error, "bytes", 1, 0, 2)?;
        expect_kind!(add(1, entries(0)).await, ErrorKind::QuotaExceeded, "a counter if no entry fits");
        expect_eq!(add(9, bytes(2)).await?.value, 9);
        let error =
            expect_kind!(add(1, bytes(2)).await, ErrorKind::QuotaExceeded, "a second digit if one fits");
        expect_figures(&error, "bytes", 2, 2, 3)?;
        expect_eq!(add(-1, bytes(2)).await?.value, 8, "a counter at the quota that does not grow");
        expect_kind!(add(-9, bytes(2)).await, ErrorKind::QuotaExceeded, "a minus sign if none fits");
        expect_eq!(add(2, bytes(3)).await?.value, 10);
        expect_eq!(add(-1, bytes(2)).await?.value, 9, "a counter that shrinks to the quota");
    }),
    case!("quota.update.counts-the-growth", [Kv, Quotas], ["QUO-1", "QUO-2"], |cx, scope: Scope| {
        let apply = async |name: &str, reducer, quota| {
            cx.kv().update(&scope, &key(name)?, reducer, UpdateOptions::default().with_quota(quota)).await
        };
        let merge = |patch: &str| -> Result<Reducer> { Ok(Reducer::Merge(json(patch)?)) };
        // `{"a":1}` has 7 bytes, `{"a":1,"b":2}` 13; the key has one.
        expect_kind!(
            apply("o", merge(r#"{"a":1}"#)?, bytes(7)).await,
            ErrorKind::QuotaExceeded,
            "8 bytes of 7"
        );
        apply("o", merge(r#"{"a":1}"#)?, bytes(8)).await?;
        let error = expect_kind!(
            apply("o", merge(r#"{"b":2}"#)?, bytes(13)).await,
            ErrorKind::QuotaExceeded,
            "a merge to 14 bytes of 13"
        );
        expect_figures(&error, "bytes", 13, 8, 14)?;
        apply("o", merge(r#"{"a":2}"#)?, bytes(8)).await?;
        apply("o", merge(r#"{"b":2}"#)?, bytes(14)).await?;
        expect_kind!(
            apply("p", merge("{}")?, entries(1)).await,
            ErrorKind::QuotaExceeded,
            "a second entry of one"
        );
        let append = || -> Result<Reducer> { Ok(Reducer::AppendDedupe(json("1")?)) };
        apply("l", append()?, bytes(18)).await?;
        apply("l", append()?, bytes(18)).await?;
        let bounded = |limit| -> Result<Reducer> { Ok(Reducer::BoundedList { item: json("2")?, limit }) };
        expect_kind!(
            apply("l", bounded(2)?, bytes(18)).await,
            ErrorKind::QuotaExceeded,
            "a longer list at the quota"
        );
        apply("l", bounded(1)?, bytes(18)).await?;
    }),
    case!("quota.refused.changes-nothing", [Kv, Quotas], ["QUO-1", "SET-6"], |cx, scope: Scope| {
        set(cx, &scope, "a", "1", bytes(100)).await?;
        let before = cx.export(&scope).await?;
        cx.advance_ms(1);
        for quota in [bytes(3), entries(1)] {
            expect_kind!(
                set(cx, &scope, "b", &string_of(50), quota).await,
                ErrorKind::QuotaExceeded,
                "a set past {quota:?}"
            );
            expect_eq!(cx.export(&scope).await?, before, "the entries after the refusal");
        }
        expect_kind!(
            set(cx, &scope, "a", "12", bytes(2)).await,
            ErrorKind::QuotaExceeded,
            "an overwrite that grows"
        );
        expect_eq!(cx.export(&scope).await?, before, "the entries after the refusal of an overwrite");
        let control = cx.scope()?;
        cx.set(&control, "a", "1").await?;
        let due = cx.set(&control, "a", "2").await?.version;
        expect_eq!(
            cx.set(&scope, "a", "2").await?.version,
            due,
            "the next version, which refusals must not change"
        );
    }),
    case!("quota.over.shrinking-works", [Kv, Quotas], ["QUO-3"], |cx| {
        let tight = Quota { max_entries: Some(1), max_bytes: Some(5) };
        let scope = over(cx).await?;
        set(cx, &scope, "a", "12345", tight).await?;
        set(cx, &scope, "a", "54321", tight).await?;
        let options = UpdateOptions::default().with_quota(tight);
        cx.kv().increment(&scope, &key("b")?, 1, options).await?;
        cx.kv().increment(&scope, &key("b")?, -123_450, options).await?;
        cx.set(&scope, "l", "[1,2,3]").await?;
        let shorter = Reducer::BoundedList { item: json("4")?, limit: 1 };
        cx.kv().update(&scope, &key("l")?, shorter, options).await?;
        cx.kv().bulk_insert(&scope, vec![item("c", "1")?], BulkOptions::default().with_quota(tight)).await?;
        let texts = cx.texts(&scope, &["a", "b", "c", "l"]).await?;
        expect_eq!(
            texts,
            ["54321", "7", "1", "[4]"].map(|text| Some(text.to_owned())),
            "what is stored after shrinking"
        );
        expect_kind!(
            set(cx, &scope, "a", "543210", tight).await,
            ErrorKind::QuotaExceeded,
            "growth far over the quota"
        );
    }),
    case!("quota.over.deleting-works", [Kv, Quotas], ["QUO-3"], |cx| {
        let scope = over(cx).await?;
        let tight = entries(1);
        expect_kind!(
            set(cx, &scope, "d", "1", tight).await,
            ErrorKind::QuotaExceeded,
            "a fourth entry of one"
        );
        check!(cx.delete(&scope, "a").await?, "a delete over the quota deleted nothing");
        check!(cx.delete(&scope, "b").await?, "a delete over the quota deleted nothing");
        expect_kind!(
            set(cx, &scope, "d", "1", tight).await,
            ErrorKind::QuotaExceeded,
            "a second entry of one"
        );
        expect_eq!(cx.kv().drop_scope(&scope).await?.entries, 1, "entries dropped");
        set(cx, &scope, "d", "1", tight).await?;
    }),
    case!("quota.expired.not-counted", [Kv, Quotas], ["QUO-4", "TTL-5"], |cx, scope: Scope| {
        cx.set_with(&scope, "a", "123456", cx.expiring(10)).await?;
        expect_kind!(
            set(cx, &scope, "b", "1", entries(1)).await,
            ErrorKind::QuotaExceeded,
            "a second entry of one"
        );
        cx.advance_ms(10);
        set(cx, &scope, "b", "1234", Quota { max_entries: Some(1), max_bytes: Some(5) }).await?;
        // An overwrite no longer replaces the expired entry.
        let again = set(cx, &scope, "a", "1", entries(1)).await;
        let error = expect_kind!(again, ErrorKind::QuotaExceeded, "a set over an expired entry at the quota");
        expect_figures(&error, "entries", 1, 1, 2)?;
    }),
    case!("quota.bulk.as-a-whole", [Kv, Quotas], ["QUO-6", "BLK-2"], |cx, scope: Scope| {
        cx.fill(&scope, &[("a", "123456")]).await?;
        let before = cx.export(&scope).await?;
        let three =
            || -> Result<Vec<NewEntry>> { Ok(vec![item("b", "1")?, item("c", "1")?, item("d", "1")?]) };
        let error = expect_kind!(
            insert(cx, &scope, three()?, entries(3)).await,
            ErrorKind::QuotaExceeded,
            "three more entries if two fit"
        );
        expect_figures(&error, "entries", 3, 1, 4)?;
        let error = expect_kind!(
            insert(cx, &scope, three()?, bytes(12)).await,
            ErrorKind::QuotaExceeded,
            "six more bytes if five fit"
        );
        expect_figures(&error, "bytes", 12, 7, 13)?;
        expect_eq!(cx.export(&scope).await?, before, "the entries after the refusals");
        insert(cx, &scope, three()?, Quota { max_entries: Some(4), max_bytes: Some(13) }).await?;
        // An item that grows first and shrinks later counts by its sum.
        insert(cx, &scope, vec![item("b", &string_of(6))?, item("a", "1")?], bytes(13)).await?;
        // An item's quota is separate from the call's.
        let tight = SetOptions::default().with_quota(entries(1));
        insert(cx, &scope, vec![item_with("e", "1", tight)?], Quota::default()).await?;
    }),
    case!("quota.bulk.same-key-counts-once", [Kv, Quotas], ["QUO-6", "BLK-3"], |cx, scope: Scope| {
        let items = vec![item("a", &string_of(50))?, item("a", "1")?, item("b", "1")?, item("a", "2")?];
        insert(cx, &scope, items, Quota { max_entries: Some(2), max_bytes: Some(4) }).await?;
        expect_eq!(
            cx.texts(&scope, &["a", "b"]).await?,
            ["2", "1"].map(|text| Some(text.to_owned())),
            "what is stored"
        );
    }),
    case!("quota.import.record-by-record", [Kv, Quotas], ["QUO-6"], |cx| {
        let (from, to) = (over(cx).await?, cx.scope()?);
        for (quota, resource) in [(entries(2), "entries"), (bytes(20), "bytes")] {
            cx.kv().drop_scope(&to).await?;
            let records = cx.export(&from).await?.into_iter().map(Ok).collect();
            let options = ImportOptions::default().with_quota(quota);
            let result = cx.kv().import_scope(&to, stream::records(records), options).await;
            let error = expect_kind!(result, ErrorKind::QuotaExceeded, "three records if two fit");
            let named = error.details().get("resource").and_then(Value::as_str);
            expect_eq!(named, Some(resource), "details.resource");
            expect_eq!(cx.all_keys(&to).await?, ["a", "b"], "the keys stored before the quota was met");
        }
    }),
    case!("quota.concurrent.holds" * 3, [Kv, Quotas], ["QUO-5"], |cx, scope: Scope| {
        let (scope, most) = (&scope, 5);
        let results = cx.threads(
            (0..12)
                .map(|at| {
                    let write = async move { set(cx, scope, &format!("{at}"), "1", entries(most)).await };
                    Box::pin(write) as crate::harness::executor::BoxFuture<'_, _>
                })
                .collect(),
        )?;
        let mut written = 0;
        for result in results {
            match result {
                Ok(_) => written += 1,
                refused => drop(expect_kind!(refused, ErrorKind::QuotaExceeded, "one of twelve writers")),
            }
        }
        expect_eq!(written, most, "entries that twelve writers stored if five fit");
        expect_eq!(cx.all_keys(scope).await?.len() as u64, most, "keys stored");
    }),
    case!("quota.concurrent.bytes-hold" * 3, [Kv, Quotas], ["QUO-5"], |cx, scope: Scope| {
        let most = 100;
        let scope = &scope;
        let results = cx.threads(
            (0..8)
                .map(|at| {
                    let name = format!("{at}");
                    let write = async move {
                        for length in 2..20 {
                            match set(cx, scope, &name, &string_of(length), bytes(most)).await {
                                Err(error) if error.kind() != ErrorKind::QuotaExceeded => return Err(error),
                                _ => {}
                            }
                        }
                        Ok(())
                    };
                    Box::pin(write) as crate::harness::executor::BoxFuture<'_, Result<()>>
                })
                .collect(),
        )?;
        results.into_iter().collect::<Result<()>>()?;
        let held: u64 = cx.export(scope).await?.iter().map(|record| record.entry.size_bytes()).sum();
        check!(held <= most, "eight writers grew the scope to {held} bytes although {most} fit");
        check!(held + 1 >= most, "writers that grow byte by byte filled {held} of {most} bytes only");
    }),
];

async fn set(cx: &Cx, scope: &Scope, name: &str, text: &str, quota: Quota) -> Result<SetOutcome> {
    cx.set_with(scope, name, text, SetOptions::default().with_quota(quota)).await
}

/// Fails unless the error names the resource and these figures.
#[track_caller]
fn expect_figures(error: &Error, resource: &str, limit: u64, used: u64, requested: u64) -> CaseResult {
    let named = error.details().get("resource").and_then(Value::as_str);
    let figures = ["limit", "used", "requested"].map(|name| detail(error, name));
    if named == Some(resource) && figures == [Some(limit), Some(used), Some(requested)] {
        return Ok(());
    }
    Err(Stop::failed(format_args!(
        "the refusal's details are {named:?} with limit, used and requested {figures:?},, expected {resource} with {:?}",
        [limit, used, requested]
    )))
}

/// Three entries of 7 bytes each, before a smaller quota is set.
async fn over(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    cx.fill(&scope, &[("a", "123456"), ("b", "123456"), ("c", "123456")]).await?;
    Ok(scope)
}

async fn insert(cx: &Cx, scope: &Scope, items: Vec<NewEntry>, quota: Quota) -> Result<Vec<SetOutcome>> {
    cx.kv().bulk_insert(scope, items, BulkOptions::default().with_quota(quota)).await
}
