//! TTL: how long entries live, to the millisecond.

use memory_core::limits::MAX_TTL_MILLIS;
use memory_core::rank::RankOptions;
use memory_core::{
    ErrorKind, Expect, ListQuery, Reducer, Scope, ScopesQuery, SearchMode, SearchQuery, SetOptions,
    Timestamp, Ttl, UpdateOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::entries::{expect_conflict, item, item_with};
use crate::cx::{Cx, hit_keys, json, key, ms};

pub(crate) const CASES: &[Case] = &[
    case!("ttl.after.ends-to-the-millisecond", [Kv], ["TTL-1"], |cx, scope: Scope| {
        for life in [1, 2, 999, 1_000, 1_001, 60_000, 86_400_000, MAX_TTL_MILLIS] {
            let start = cx.now();
            let set = cx.set_with(&scope, "k", "1", cx.expiring(life)).await?;
            expect_eq!(set.expires_at, start.checked_add(ms(life)), "expires_at of a lifetime of {life} ms");
            cx.advance_ms(life - 1);
            check!(cx.entry(&scope, "k").await?.is_some(), "a life of {life} ms ended a millisecond early");
            cx.advance_ms(1);
            check!(
                cx.entry(&scope, "k").await?.is_none(),
                "an entry with a lifetime of {life} ms was alive in its last millisecond"
            );
            cx.clock().set(start);
            cx.delete(&scope, "k").await?;
        }
    }),
    case!("ttl.after.begins-anew", [Kv], ["TTL-1"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", "1", cx.expiring(10)).await?;
        cx.advance_ms(9);
        cx.set_with(&scope, "k", "2", cx.expiring(10)).await?;
        cx.advance_ms(9);
        expect_eq!(
            cx.text(&scope, "k").await?.as_deref(),
            Some("2"),
            "9 ms after the second of two lifetimes of 10"
        );
        cx.set_with(&scope, "k", "3", cx.expiring(3)).await?;
        cx.advance_ms(3);
        expect_eq!(cx.text(&scope, "k").await?, None, "after a write shortened the lifetime");
    }),
    // In every mode, including those where the order needs more than similarity.
    case!(
        "ttl.after.found-to-the-millisecond",
        [Kv, Lexical],
        ["TTL-1", "TTL-5", "SRC-2"],
        |cx, scope: Scope| {
            cx.say(&scope, "stays", "a cup of green tea").await?;
            cx.set_with(&scope, "goes", "\"green tea\"", cx.expiring(10)).await?;
            let recent = RankOptions { recency: 0.5, ..RankOptions::default() };
            let modes = if cx.capabilities().vector_search {
                vec![SearchMode::Lexical, SearchMode::Vector, SearchMode::Hybrid]
            } else {
                vec![SearchMode::Lexical]
            };
            for (later, due) in [(9, vec!["goes", "stays"]), (1, vec!["stays"])] {
                cx.advance_ms(later);
                for mode in &modes {
                    let query = SearchQuery::new("green tea").with_mode(*mode);
                    for query in [query.clone().with_rank(recent.clone()), query.clone().with_top_k(2), query]
                    {
                        let hits = cx.find(&scope, query).await?;
                        let mut found = hit_keys(&hits);
                        found.sort_unstable();
                        expect_eq!(
                            found,
                            due,
                            "hits by {mode:?}, `goes` having a lifetime of 10 ms, after {later} ms more"
                        );
                    }
                }
            }
        }
    ),
    case!("ttl.keep.keeps", [Kv], ["TTL-2"], |cx, scope: Scope| {
        let keep = || SetOptions::default().with_ttl(Ttl::Keep);
        expect_eq!(
            cx.set_with(&scope, "new", "1", keep()).await?.expires_at,
            None,
            "the expiry of a new entry"
        );
        let first = cx.set_with(&scope, "k", "1", cx.expiring(10)).await?;
        cx.advance_ms(4);
        let second = cx.set_with(&scope, "k", "2", keep()).await?;
        expect_eq!(second.expires_at, first.expires_at, "the expiry of a live entry");
        cx.advance_ms(6);
        check!(cx.entry(&scope, "k").await?.is_none(), "an entry outlived the expiry that was kept");
        let third = cx.set_with(&scope, "k", "3", keep()).await?;
        expect_eq!(third.expires_at, None, "the expiry of a new entry over an expired one");
        cx.advance_ms(1_000_000);
        check!(cx.entry(&scope, "k").await?.is_some(), "an entry that never expires is gone");
    }),
    case!("ttl.never.clears", [Kv], ["TTL-3"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", "1", cx.expiring(10)).await?;
        let set = cx.set_with(&scope, "k", "1", SetOptions::default().with_ttl(Ttl::Never)).await?;
        expect_eq!(set.expires_at, None);
        expect_eq!(cx.live(&scope, "k").await?.expires_at, None);
        cx.advance_ms(10);
        check!(cx.entry(&scope, "k").await?.is_some(), "an entry expired although its expiry was cleared");
    }),
    case!("ttl.range.refused", [Kv], ["TTL-4"], |cx, scope: Scope| {
        cx.fill(&scope, &[("k", "1")]).await?;
        let before = cx.live(&scope, "k").await?;
        let k = key("k")?;
        for life in [
            ms(0),
            std::time::Duration::from_micros(999),
            ms(MAX_TTL_MILLIS + 1),
            std::time::Duration::from_secs(u64::MAX),
            std::time::Duration::MAX,
        ] {
            let ttl = Ttl::After(life);
            let set = SetOptions::default().with_ttl(ttl);
            let update = UpdateOptions::default().with_ttl(ttl);
            let kind = ErrorKind::InvalidArgument;
            expect_kind!(cx.set_with(&scope, "k", "2", set.clone()).await, kind, "set with {life:?}");
            expect_kind!(cx.bulk(&scope, vec![item_with("k", "2", set)?]).await, kind, "bulk with {life:?}");
            expect_kind!(cx.kv().increment(&scope, &k, 1, update).await, kind, "increment with {life:?}");
            let merge = Reducer::Merge(json("{}")?);
            expect_kind!(cx.kv().update(&scope, &k, merge, update).await, kind, "update with {life:?}");
            expect_eq!(cx.live(&scope, "k").await?, before, "the entry after refusals of {life:?}");
        }
    }),
    case!("ttl.expired.reads-as-missing", [Kv], ["GET-2", "TTL-5"], |cx| {
        let scope = with_a_dead_one(cx).await?;
        check!(cx.entry(&scope, "b").await?.is_none(), "get gave an expired entry");
        check!(cx.access(&scope, "b").await?.is_none(), "a get that counts gave an expired entry");
        let tea = Some("\"tea\"".to_owned());
        expect_eq!(cx.texts(&scope, &["a", "b", "c"]).await?, [tea.clone(), None, tea], "by get_many");
    }),
    case!("ttl.expired.not-listed", [Kv], ["TTL-5"], |cx| {
        let scope = with_a_dead_one(cx).await?;
        expect_eq!(cx.keys(&scope, ListQuery::default()).await?, ["a", "c"]);
        expect_eq!(
            cx.keys(&scope, ListQuery::prefix("b")).await?.len(),
            0,
            "keys under the expired key as prefix"
        );
        cx.advance_ms(1);
        let page = cx.kv().list(&scope, ListQuery::default().with_limit(1)).await?;
        check!(page.next.is_none(), "a cursor leads to nothing but expired entries");
        let empty = cx.scope()?;
        cx.set_with(&empty, "b", "1", cx.expiring(1)).await?;
        cx.advance_ms(1);
        let scopes = cx.kv().scopes(&cx.tenant(), ScopesQuery::default()).await?.scopes;
        let listed: Vec<&memory_core::Scope> = scopes.iter().map(|info| &info.scope).collect();
        expect_eq!(listed, [&scope], "the scopes that hold live entries");
        expect_eq!(scopes.iter().map(|info| info.entries).sum::<u64>(), 1, "their entries");
    }),
    case!("ttl.expired.pages-fill-up", [Kv], ["TTL-5", "LST-3"], |cx, scope: Scope| {
        let mut items = Vec::new();
        for at in 0..30 {
            let options = if at % 10 == 9 { SetOptions::default() } else { cx.expiring(5) };
            items.push(item_with(&format!("{at:02}"), "1", options)?);
        }
        cx.bulk(&scope, items).await?;
        cx.advance_ms(5);
        let pages = cx.pages(&scope, ListQuery::default().with_limit(2)).await?;
        let due: [&[&str]; 2] = [&["09", "19"], &["29"]];
        expect_eq!(pages, due, "pages of two, among thirty entries with three live ones");
    }),
    case!("ttl.expired.not-exported", [Kv], ["TTL-5"], |cx| {
        let scope = with_a_dead_one(cx).await?;
        let records = cx.export(&scope).await?;
        let exported: Vec<&str> = records.iter().map(|record| record.entry.key.as_str()).collect();
        expect_eq!(exported, ["a", "c"]);
    }),
    case!("ttl.expired.not-found", [Kv, Lexical], ["TTL-5", "SRC-2"], |cx| {
        let scope = with_a_dead_one(cx).await?;
        let hits = cx.words(&scope, "tea").await?;
        expect_eq!(crate::cx::hit_keys(&hits), ["a", "c"]);
        let alone = cx.scope()?;
        cx.fill(&alone, &[("a", "\"tea\""), ("c", "\"tea\"")]).await?;
        let scores = |hits: &[memory_core::Hit]| -> Vec<f64> { hits.iter().map(|hit| hit.score).collect() };
        expect_eq!(
            scores(&hits),
            scores(&cx.words(&alone, "tea").await?),
            "scores, which the expired entry must not change"
        );
    }),
    case!("ttl.expired.not-counted", [Kv, Stats], ["TTL-5", "STA-1", "STA-2"], |cx| {
        let scope = with_a_dead_one(cx).await?;
        let stats = cx.kv().stats(&scope).await?;
        expect_eq!((stats.entries, stats.bytes, stats.expiring), (2, 12, 1), "entries, bytes and expiring");
    }),
    case!("ttl.expired.not-dropped-or-deleted", [Kv], ["TTL-5", "DEL-1", "SCO-4"], |cx| {
        let scope = with_a_dead_one(cx).await?;
        check!(!cx.delete(&scope, "b").await?, "an expired entry was there to delete");
        let scope = with_a_dead_one(cx).await?;
        expect_eq!(cx.kv().drop_scope(&scope).await?.entries, 2, "live entries dropped");
    }),
    case!("ttl.expired.absent-to-preconditions", [Kv, Cas], ["TTL-5", "VER-3"], |cx, scope: Scope| {
        let set = cx.set_with(&scope, "k", "1", cx.expiring(10)).await?;
        cx.advance_ms(10);
        for expect in
            [Expect::Version(set.version), Expect::Sha256(memory_core::entry::value_sha256(&json("1")?))]
        {
            let options = SetOptions::default().with_expect(expect);
            let refused = cx.set_with(&scope, "k", "2", options).await;
            expect_conflict(refused, None, "a set that expects an expired entry")?;
        }
        let absent = SetOptions::default().with_expect(Expect::Absent);
        let created = cx.set_with(&scope, "k", "3", absent).await?;
        check!(
            created.created && created.written,
            "a set over an expired entry that expects none: {created:?}"
        );
    }),
    case!("ttl.expired.absent-to-reducers", [Kv], ["TTL-5", "INC-1", "UPD-5"], |cx, scope: Scope| {
        for (name, text) in [("n", "41"), ("o", r#"{"a":1}"#), ("l", "[1]"), ("b", "[1]")] {
            cx.set_with(&scope, name, text, cx.expiring(10)).await?;
        }
        cx.advance_ms(10);
        expect_eq!(cx.increment(&scope, "n", 1).await?, 1, "an expired counter incremented");
        expect_eq!(cx.merge(&scope, "o", r#"{"b":2}"#).await?, r#"{"b":2}"#, "an expired object merged");
        let appended = cx.update(&scope, "l", Reducer::AppendDedupe(json("1")?)).await?;
        expect_eq!(
            (appended.value.as_str(), appended.appended),
            ("[1]", Some(true)),
            "an expired list appended to"
        );
        let bounded = cx.update(&scope, "b", Reducer::BoundedList { item: json("2")?, limit: 5 }).await?;
        expect_eq!(bounded.value.as_str(), "[2]", "an expired bounded list");
        for name in ["n", "o", "l", "b"] {
            let entry = cx.live(&scope, name).await?;
            expect_eq!(
                (entry.created_at, entry.expires_at),
                (cx.now(), None),
                "creation and expiry of `{name}`"
            );
        }
    }),
    case!("ttl.expired.set-creates", [Kv], ["TTL-6"], |cx, scope: Scope| {
        let first = cx.set_with(&scope, "k", "1", cx.expiring(10)).await?;
        cx.access(&scope, "k").await?;
        cx.advance_ms(10);
        let second = cx.set_with(&scope, "k", "1", SetOptions::default().with_ttl(Ttl::Keep)).await?;
        check!(second.created, "a set over an expired entry did not create");
        check!(second.version > first.version, "version {} came after {}", second.version, first.version);
        let entry = cx.live(&scope, "k").await?;
        expect_eq!(
            (entry.created_at, entry.access_count, entry.expires_at),
            (cx.now(), 0, None),
            "the new entry"
        );
    }),
    case!("ttl.expired.bulk-creates", [Kv], ["TTL-6"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", "1", cx.expiring(10)).await?;
        cx.access(&scope, "k").await?;
        cx.advance_ms(10);
        let outcomes = cx.bulk(&scope, vec![item("k", "1")?]).await?;
        check!(
            outcomes.iter().all(|outcome| outcome.created),
            "an item over an expired entry did not create"
        );
        let entry = cx.live(&scope, "k").await?;
        expect_eq!(
            (entry.created_at, entry.access_count, entry.expires_at),
            (cx.now(), 0, None),
            "the new entry"
        );
    }),
    case!("ttl.increment.as-set", [Kv], ["TTL-7"], |cx, scope: Scope| {
        for (ttl, due) in lives(cx.now()) {
            let options = UpdateOptions::default().with_ttl(ttl);
            let outcome = cx.kv().increment(&scope, &key("n")?, 1, options).await?;
            expect_eq!(outcome.expires_at, due, "the outcome with {ttl:?}");
            expect_eq!(cx.live(&scope, "n").await?.expires_at, due, "the expiry with {ttl:?}");
            cx.advance_ms(2);
        }
    }),
    case!("ttl.update.as-set", [Kv], ["TTL-7"], |cx, scope: Scope| {
        for reducer in [
            Reducer::Merge(json(r#"{"a":1}"#)?),
            Reducer::AppendDedupe(json("1")?),
            Reducer::BoundedList { item: json("1")?, limit: 2 },
        ] {
            cx.delete(&scope, "k").await?;
            for (ttl, due) in lives(cx.now()) {
                let options = UpdateOptions::default().with_ttl(ttl);
                let outcome = cx.kv().update(&scope, &key("k")?, reducer.clone(), options).await?;
                expect_eq!(outcome.expires_at, due, "the outcome of {reducer:?} with {ttl:?}");
                expect_eq!(
                    cx.live(&scope, "k").await?.expires_at,
                    due,
                    "the expiry after {reducer:?} with {ttl:?}"
                );
                cx.advance_ms(2);
            }
        }
    }),
    case!("ttl.reclaim.invisible", [Kv], ["TTL-8", "VER-2"], |cx, scope: Scope| {
        let mut items = Vec::new();
        for at in 0..40 {
            items.push(item_with(
                &format!("{at:02}"),
                "1",
                if at < 20 { cx.expiring(10) } else { SetOptions::default() },
            )?);
        }
        let last = cx.bulk(&scope, items).await?.iter().map(|outcome| outcome.version).max().unwrap_or(0);
        let page = cx.kv().list(&scope, ListQuery::default().with_limit(15)).await?;
        // Long enough for any sweeper, with writes and reads for one that runs along with those.
        cx.advance_ms(10 * 86_400_000);
        for at in 0..30 {
            cx.set(&scope, &format!("new-{at:02}"), "1").await?;
            cx.keys(&scope, ListQuery::default()).await?;
        }
        let rest = cx.keys(&scope, ListQuery::default().with_cursor(page.next)).await?;
        expect_eq!(
            rest.first().map(String::as_str),
            Some("20"),
            "the first key after a cursor at a reclaimed one"
        );
        expect_eq!(rest.len(), 50, "keys after the cursor");
        let again = cx.set(&scope, "05", "1").await?;
        check!(again.created, "a set over a reclaimed entry did not create");
        check!(again.version > last, "version {} came after {last}, across reclaiming", again.version);
    }),
];

/// A scope with an expired entry between two live ones.
async fn with_a_dead_one(cx: &Cx) -> CaseResult<memory_core::Scope> {
    let scope = cx.scope()?;
    cx.set(&scope, "a", "\"tea\"").await?;
    cx.set_with(&scope, "b", "\"tea\"", cx.expiring(10)).await?;
    cx.set_with(&scope, "c", "\"tea\"", cx.expiring(11)).await?;
    cx.advance_ms(10);
    Ok(scope)
}

/// Successive lifetimes, two milliseconds apart, and the resulting expiry of each.
fn lives(start: Timestamp) -> [(Ttl, Option<Timestamp>); 5] {
    let after = |millis| start.checked_add(ms(millis));
    [
        (Ttl::After(ms(100)), after(100)),
        (Ttl::Keep, after(100)),
        (Ttl::After(ms(30)), after(34)),
        (Ttl::Never, None),
        (Ttl::Keep, None),
    ]
}
