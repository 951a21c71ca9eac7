//! GET, SET: one entry at a time.

use memory_core::{ErrorKind, GetOptions, ListQuery, Scope, SetOptions, Ttl};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::metadata;
use crate::cx::{key, ms, source, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("kv.get.never-set", [Kv], ["GET-1"], |cx, scope: Scope| {
        cx.set(&scope, "a", "1").await?;
        for absent in ["b", "A", "a ", "aa"] {
            check!(
                cx.entry(&scope, absent).await?.is_none(),
                "`{absent}` was never set, yet something came back"
            );
        }
        expect_eq!(cx.text(&scope, "a").await?.as_deref(), Some("1"));
    }),
    case!("kv.get.as-stored", [Kv], ["GET-3", "SET-7"], |cx, scope: Scope| {
        let then = cx.now();
        let set = cx.set_with(&scope, "k", r#"{"a":[1]}"#, full()?).await?;
        cx.advance_ms(1_234);
        let entry = cx.live(&scope, "k").await?;
        expect_eq!(entry.key.as_str(), "k");
        expect_eq!(entry.value.as_str(), r#"{"a":[1]}"#);
        expect_eq!(entry.metadata, metadata(r#"{"city":"Oslo","n":7}"#)?);
        expect_eq!(entry.source, Some(source("chat")?));
        expect_eq!(entry.text.as_deref(), Some("lives in Oslo"));
        expect_eq!(entry.version, set.version);
        expect_eq!((entry.created_at, entry.updated_at), (then, then), "created_at and updated_at");
        expect_eq!(entry.expires_at, then.checked_add(ms(60_000)), "expires_at");
        expect_eq!(entry.access_count, 0);
    }),
    case!("kv.get.counts-accesses", [Kv], ["GET-4"], |cx, scope: Scope| {
        cx.fill(&scope, &[("k", "1"), ("other", "1")]).await?;
        for due in 0..4_u64 {
            expect_eq!(
                cx.live(&scope, "k").await?.access_count,
                due,
                "accesses after {due} reads that count"
            );
            cx.access(&scope, "k").await?;
            cx.access(&scope, "absent").await?;
        }
        expect_eq!(cx.live(&scope, "other").await?.access_count, 0, "accesses of a key never read");
    }),
    case!("kv.get.changes-nothing-else", [Kv], ["GET-4"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", "1", full()?).await?;
        let before = cx.live(&scope, "k").await?;
        cx.advance_ms(10);
        cx.access(&scope, "k").await?;
        cx.access(&scope, "k").await?;
        let mut after = cx.live(&scope, "k").await?;
        after.access_count = before.access_count;
        expect_eq!(after, before, "the entry after two reads");
        let set = cx.set(&scope, "k", "2").await?;
        let control = cx.scope()?;
        cx.set_with(&control, "k", "1", full()?).await?;
        let unread = cx.set(&control, "k", "2").await?;
        expect_eq!(set.version, unread.version, "the version after reads, which reads must not change");
    }),
    case!("kv.get-many.in-place", [Kv], ["GET-5"], |cx, scope: Scope| {
        cx.fill(&scope, &[("a", "1"), ("b", "2"), ("c", "3")]).await?;
        let texts = cx
            .texts(
                &scope,
                &["c", "x", "a", "c", "", "b", "a"].map(|name| if name.is_empty() { "y" } else { name }),
            )
            .await?;
        let texts: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
        expect_eq!(texts, [Some("3"), None, Some("1"), Some("3"), None, Some("2"), Some("1")]);
    }),
    case!("kv.get-many.counts-accesses", [Kv], ["GET-4"], |cx, scope: Scope| {
        cx.fill(&scope, &[("a", "1"), ("b", "2"), ("c", "3")]).await?;
        let keys = [key("a")?, key("absent")?, key("b")?];
        cx.kv().get_many(&scope, &keys, GetOptions::default()).await?;
        cx.kv().get_many(&scope, &keys, GetOptions::uncounted()).await?;
        for (name, due) in [("a", 1), ("b", 1), ("c", 0)] {
            expect_eq!(cx.live(&scope, name).await?.access_count, due, "accesses of `{name}`");
        }
    }),
    case!("kv.get-many.repeated-keys-count", [Kv], ["GET-5", "GET-4"], |cx, scope: Scope| {
        cx.fill(&scope, &[("a", "1"), ("b", "2")]).await?;
        let keys = [key("a")?, key("b")?, key("a")?, key("a")?];
        for before in [0, 3] {
            let entries = cx.kv().get_many(&scope, &keys, GetOptions::default()).await?;
            let counts: Vec<u64> = entries.iter().flatten().map(|entry| entry.access_count).collect();
            expect_eq!(
                counts,
                [before, before / 3, before + 1, before + 2],
                "the accesses that one read of `a`, `b`, `a`, `a` shows"
            );
        }
        expect_eq!(
            cx.live(&scope, "a").await?.access_count,
            6,
            "accesses of a key named three times in two reads"
        );
        expect_eq!(cx.live(&scope, "b").await?.access_count, 2, "accesses of a key named once in two reads");
    }),
    case!("kv.get-many.limits", [Kv], ["GET-6"], |cx, scope: Scope| {
        cx.set(&scope, "k999", "1").await?;
        let keys = (0..1_001).map(|at| key(&format!("k{at}"))).collect::<memory_core::Result<Vec<_>>>()?;
        let (most, _) = keys.split_at(1_000);
        let none = cx.kv().get_many(&scope, &[], GetOptions::uncounted()).await?;
        expect_eq!(none.len(), 0, "answers to no keys");
        let answers = cx.kv().get_many(&scope, most, GetOptions::uncounted()).await?;
        expect_eq!(answers.len(), 1_000, "answers to 1,000 keys");
        let found: Vec<usize> =
            (0..).zip(&answers).filter(|(_, answer)| answer.is_some()).map(|(at, _)| at).collect();
        expect_eq!(found, [999], "the places that hold an entry");
        let refused = cx.kv().get_many(&scope, &keys, GetOptions::uncounted()).await;
        expect_kind!(refused, ErrorKind::TooLarge, "1,001 keys");
    }),
    case!("kv.set.seen-by-every-read", [Kv], ["SET-1"], |cx, scope: Scope| {
        for round in ["1", "2", "3"] {
            cx.set(&scope, "k", round).await?;
            expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some(round), "by get");
            expect_eq!(cx.texts(&scope, &["k"]).await?, [Some(round.to_owned())], "by get_many");
            let listed = cx.kv().list(&scope, ListQuery::default()).await?.entries;
            let listed: Vec<&str> = listed.iter().map(|entry| entry.value.as_str()).collect();
            expect_eq!(listed, [round], "by list");
            let exported = cx.export(&scope).await?;
            let exported: Vec<&str> = exported.iter().map(|record| record.entry.value.as_str()).collect();
            expect_eq!(exported, [round], "by export");
        }
    }),
    case!("kv.set.replaces-whole", [Kv], ["SET-2"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", r#"{"a":1,"b":2}"#, full()?).await?;
        cx.set_with(&scope, "k", r#"{"b":3}"#, tagged(metadata(r#"{"n":8}"#)?)).await?;
        let entry = cx.live(&scope, "k").await?;
        expect_eq!(entry.value.as_str(), r#"{"b":3}"#);
        expect_eq!(entry.metadata, metadata(r#"{"n":8}"#)?);
        expect_eq!(entry.source, None);
        expect_eq!(entry.text, None);
    }),
    case!("kv.set.created", [Kv], ["SET-3"], |cx, scope: Scope| {
        check!(cx.set(&scope, "k", "1").await?.created, "a first set did not create");
        check!(!cx.set(&scope, "k", "2").await?.created, "a set over a live entry created");
        check!(!cx.set(&scope, "k", "2").await?.created, "a set of the same value created");
        cx.delete(&scope, "k").await?;
        check!(
            cx.set_with(&scope, "k", "3", cx.expiring(10)).await?.created,
            "a set after a delete did not create"
        );
        cx.advance_ms(9);
        check!(!cx.set(&scope, "k", "4").await?.created, "a set a millisecond before the expiry created");
        cx.advance_ms(1);
        check!(cx.set(&scope, "k", "5").await?.created, "a set after the expiry did not create");
    }),
    case!("kv.set.times", [Kv], ["SET-4"], |cx, scope: Scope| {
        let born = cx.now();
        cx.set(&scope, "k", "1").await?;
        for _ in 0..2 {
            cx.advance_ms(7);
            cx.set(&scope, "k", "1").await?;
            let entry = cx.live(&scope, "k").await?;
            expect_eq!(entry.created_at, born, "created_at after an overwrite");
            expect_eq!(entry.updated_at, cx.now(), "updated_at after an overwrite");
        }
        cx.delete(&scope, "k").await?;
        cx.advance_ms(1);
        cx.set_with(&scope, "k", "2", cx.expiring(5)).await?;
        expect_eq!(cx.live(&scope, "k").await?.created_at, cx.now(), "created_at after a delete");
        cx.advance_ms(5);
        cx.set(&scope, "k", "3").await?;
        expect_eq!(cx.live(&scope, "k").await?.created_at, cx.now(), "created_at after an expiry");
    }),
    case!("kv.set.keeps-accesses", [Kv], ["SET-5"], |cx, scope: Scope| {
        let count = async || -> memory_core::Result<u64> { Ok(cx.live(&scope, "k").await?.access_count) };
        cx.set(&scope, "k", "1").await?;
        cx.access(&scope, "k").await?;
        cx.access(&scope, "k").await?;
        cx.set(&scope, "k", "2").await?;
        expect_eq!(count().await?, 2, "accesses after an overwrite");
        cx.access(&scope, "k").await?;
        cx.delete(&scope, "k").await?;
        cx.set_with(&scope, "k", "3", cx.expiring(5)).await?;
        expect_eq!(count().await?, 0, "accesses after a delete");
        cx.access(&scope, "k").await?;
        cx.advance_ms(5);
        cx.set(&scope, "k", "4").await?;
        expect_eq!(count().await?, 0, "accesses after an expiry");
    }),
    case!("kv.set.refused-changes-nothing", [Kv], ["SET-6"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", "1", full()?).await?;
        let before = cx.live(&scope, "k").await?;
        cx.advance_ms(1);
        let long = crate::cx::entries::string_of(cx.capabilities().max_value_bytes + 1);
        for (text, options, what) in [
            (long.as_str(), SetOptions::default(), "a long value"),
            ("2", SetOptions::default().with_ttl(Ttl::After(ms(0))), "a TTL of 0"),
            ("2", tagged(memory_core::Metadata::new().with("", 1)), "a nameless member"),
            ("2", SetOptions::default().with_text("\0"), "a NUL in the text"),
        ] {
            check!(cx.set_with(&scope, "k", text, options).await.is_err(), "{what} was accepted");
            expect_eq!(cx.live(&scope, "k").await?, before, "the entry after the refusal of {what}");
        }
        let next = cx.set(&scope, "k", "2").await?.version;
        let control = cx.scope()?;
        cx.set(&control, "k", "1").await?;
        expect_eq!(
            next,
            cx.set(&control, "k", "2").await?.version,
            "the next version, which refusals must not change"
        );
    }),
    case!("kv.set.outcome-as-read", [Kv], ["SET-7"], |cx, scope: Scope| {
        for ttl in
            [Ttl::Keep, Ttl::After(ms(60_500)), Ttl::Keep, Ttl::After(ms(30_001)), Ttl::Never, Ttl::Keep]
        {
            let set = cx.set_with(&scope, "k", "1", SetOptions::default().with_ttl(ttl)).await?;
            check!(set.written, "the outcome of a set without precondition says that nothing was written");
            let entry = cx.live(&scope, "k").await?;
            expect_eq!(
                (set.version, set.expires_at),
                (entry.version, entry.expires_at),
                "outcome with {ttl:?}"
            );
        }
    }),
    case!("kv.set.survives-reopening", [Kv], ["SET-8"], |cx| {
        let store = cx.open().await?;
        let scope = cx.scope()?;
        store.kv().set(&scope, &key("k")?, crate::cx::json(r#"{"b":1.0,"a":2}"#)?, full()?).await?;
        store.kv().set(&scope, &key("gone")?, crate::cx::json("1")?, SetOptions::default()).await?;
        store.kv().delete(&scope, &key("gone")?, memory_core::DeleteOptions::default()).await?;
        let before =
            expect_some!(store.kv().get(&scope, &key("k")?, GetOptions::uncounted()).await?, "before");
        let store = store.reopen().await?;
        let after = expect_some!(
            store.kv().get(&scope, &key("k")?, GetOptions::uncounted()).await?,
            "an acknowledged entry, after the store was closed and opened"
        );
        expect_eq!(after, before, "the entry after the store was closed and opened");
        let gone = store.kv().get(&scope, &key("gone")?, GetOptions::uncounted()).await?;
        check!(gone.is_none(), "a deleted entry came back when the store was opened again");
    }),
];

fn full() -> memory_core::Result<SetOptions> {
    Ok(SetOptions::default()
        .with_ttl(Ttl::After(ms(60_000)))
        .with_metadata(metadata(r#"{"city":"Oslo","n":7}"#)?)
        .with_source(source("chat")?)
        .with_text("lives in Oslo"))
}
