//! CON: concurrency.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use memory_core::{
    BulkOptions, DeleteOptions, ErrorKind, Expect, GetOptions, ListQuery, NewEntry, Reducer, Result, Scope,
    SetOptions, SetOutcome, UpdateOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::item;
use crate::cx::{Cx, Store, json, key};
use crate::harness::executor::BoxFuture;

pub(crate) const CASES: &[Case] = &[
    case!("con.absent.one-creator" * 5, [Kv, Cas], ["VER-8", "VER-3"], |cx| {
        let scope = &cx.scope()?;
        let results = all_at_once(cx, 8, |at| async move {
            let absent = SetOptions::default().with_expect(Expect::Absent);
            cx.set_with(scope, "k", &at.to_string(), absent).await
        })?;
        let (at, outcome) = only_winner(results)?;
        check!(outcome.created && outcome.written, "the one that was first: {outcome:?}");
        expect_eq!(cx.text(scope, "k").await?, Some(at.to_string()), "what is stored");
    }),
    case!("con.cas.one-winner" * 5, [Kv, Cas], ["VER-8", "VER-4"], |cx| {
        let scope = &cx.scope()?;
        let version = cx.set(scope, "k", "\"start\"").await?.version;
        let results = all_at_once(cx, 8, |at| async move {
            let expect = SetOptions::default().with_expect(Expect::Version(version));
            cx.set_with(scope, "k", &at.to_string(), expect).await
        })?;
        let (at, outcome) = only_winner(results)?;
        let entry = cx.live(scope, "k").await?;
        expect_eq!(
            (entry.value.as_str(), entry.version),
            (at.to_string().as_str(), outcome.version),
            "what is stored"
        );
    }),
    case!("con.cas.counter-by-hand", [Kv, Cas], ["VER-8", "VER-4"], |cx| {
        const EACH: u64 = 10;
        // More than the writes of all others, each of which causes one conflict.
        const CONFLICTS: u64 = 400;
        let scope = &cx.scope()?;
        cx.set(scope, "n", "0").await?;
        let results = all_at_once(cx, 4, |_| async move {
            let (mut done, mut conflicts) = (0, 0);
            while done < EACH {
                let entry = cx.live(scope, "n").await?;
                let next = entry.value.as_i64_exact().unwrap_or_default() + 1;
                let expect = SetOptions::default().with_expect(Expect::Version(entry.version));
                match cx.set_with(scope, "n", &next.to_string(), expect).await {
                    Ok(outcome) if outcome.written => done += 1,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Conflict && conflicts < CONFLICTS => {
                        conflicts += 1;
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })?;
        results.into_iter().collect::<Result<()>>()?;
        expect_eq!(
            cx.text(scope, "n").await?,
            Some((4 * EACH).to_string()),
            "forty increments by compare-and-set"
        );
    }),
    case!("con.delete.one-deleter" * 5, [Kv], ["DEL-1", "CON-1"], |cx| {
        let scope = &cx.scope()?;
        cx.set(scope, "k", "1").await?;
        let results = all_at_once(cx, 8, |_| async move { cx.delete(scope, "k").await })?;
        let deleted = results
            .into_iter()
            .collect::<Result<Vec<bool>>>()?
            .into_iter()
            .filter(|deleted| *deleted)
            .count();
        expect_eq!(deleted, 1, "how many of eight deletes deleted the entry");
    }),
    case!("con.increment.exact", [Kv], ["INC-6"], |cx| {
        const EACH: i64 = 25;
        let scope = &cx.scope()?;
        cx.set(scope, "n", "0").await?;
        let results = all_at_once(cx, 8, |_| async move {
            let mut values = Vec::new();
            for _ in 0..EACH {
                values.push(cx.increment(scope, "n", 1).await?);
            }
            Ok(values)
        })?;
        let values = results.into_iter().collect::<Result<Vec<Vec<i64>>>>()?;
        check!(
            values.iter().all(|values| values.is_sorted_by(|a, b| a < b)),
            "a writer saw the counter go back"
        );
        let distinct: BTreeSet<i64> = values.into_iter().flatten().collect();
        expect_eq!(distinct.len(), 200, "distinct outcomes of 200 increments");
        expect_eq!(cx.text(scope, "n").await?.as_deref(), Some("200"), "the counter");
    }),
    case!("con.increment.absent-once" * 5, [Kv], ["INC-6", "INC-1"], |cx| {
        let scope = &cx.scope()?;
        let results = all_at_once(cx, 8, |_| async move { cx.increment(scope, "n", 5).await })?;
        let mut values = results.into_iter().collect::<Result<Vec<i64>>>()?;
        values.sort_unstable();
        expect_eq!(
            values,
            [5, 10, 15, 20, 25, 30, 35, 40],
            "outcomes of eight increments of an absent counter by 5"
        );
    }),
    case!("con.increment.two-handles", [Kv], ["INC-6", "CON-3"], |cx| {
        const EACH: usize = 25;
        let one = &cx.open().await?;
        let two = &one.another_handle().await?;
        let scope = &cx.scope()?;
        let results = all_at_once(cx, 4, |at| async move {
            let store = if at % 2 == 0 { one } else { two };
            for _ in 0..EACH {
                store.kv().increment(scope, &key("n")?, 1, UpdateOptions::default()).await?;
            }
            Ok(())
        })?;
        results.into_iter().collect::<Result<()>>()?;
        for store in [one, two] {
            expect_eq!(
                read(store, scope, "n").await?.as_deref(),
                Some("100"),
                "100 increments by two handles"
            );
        }
    }),
    case!("con.update.loses-nothing", [Kv], ["UPD-7"], |cx| {
        const EACH: u64 = 8;
        let scope = &cx.scope()?;
        let results = all_at_once(cx, 6, |at| async move {
            for step in 0..EACH {
                let item = json(&(at * EACH + step).to_string())?;
                cx.update(scope, "l", Reducer::AppendDedupe(item)).await?;
            }
            Ok(())
        })?;
        results.into_iter().collect::<Result<()>>()?;
        let text = expect_some!(cx.text(scope, "l").await?, "the list");
        let mut items: Vec<u64> = serde_json::from_str(&text)?;
        items.sort_unstable();
        expect_eq!(items, (0..6 * EACH).collect::<Vec<_>>(), "the items that six writers appended");
    }),
    case!("con.merge.loses-nothing", [Kv], ["UPD-7"], |cx| {
        const EACH: u64 = 8;
        let scope = &cx.scope()?;
        let results = all_at_once(cx, 6, |at| async move {
            for step in 0..EACH {
                cx.merge(scope, "o", &format!(r#"{{"w{at}":{{"s{step}":{step}}}}}"#)).await?;
            }
            Ok(())
        })?;
        results.into_iter().collect::<Result<()>>()?;
        let text = expect_some!(cx.text(scope, "o").await?, "the object");
        let object: std::collections::BTreeMap<String, std::collections::BTreeMap<String, u64>> =
            serde_json::from_str(&text)?;
        expect_eq!(object.len(), 6, "writers whose members are stored");
        check!(object.values().all(|members| members.len() as u64 == EACH), "members are lost: {text}");
    }),
    case!("con.version.never-shared", [Kv], ["VER-1"], |cx| {
        const EACH: usize = 10;
        let scope = &cx.scope()?;
        let results = all_at_once(cx, 6, |at| async move {
            let mut versions = Vec::new();
            for _ in 0..EACH {
                versions.push(cx.set(scope, "k", &at.to_string()).await?.version);
            }
            Ok(versions)
        })?;
        let versions = results.into_iter().collect::<Result<Vec<Vec<u64>>>>()?;
        check!(versions.iter().all(|own| own.is_sorted_by(|a, b| a < b)), "a writer's versions do not grow");
        let greatest = versions.iter().flatten().max().copied();
        let distinct: BTreeSet<u64> = versions.into_iter().flatten().collect();
        expect_eq!(distinct.len(), 60, "distinct versions of 60 writes of one key");
        expect_eq!(Some(cx.live(scope, "k").await?.version), greatest, "the version stored");
    }),
    case!("con.access.counts-add-up", [Kv], ["GET-4"], |cx| {
        let scope = &cx.scope()?;
        cx.set(scope, "k", "1").await?;
        let results = all_at_once(cx, 6, |_| async move {
            for _ in 0..10 {
                cx.access(scope, "k").await?;
            }
            Ok(())
        })?;
        results.into_iter().collect::<Result<()>>()?;
        expect_eq!(cx.live(scope, "k").await?.access_count, 60, "accesses after 60 reads by six readers");
    }),
    case!("con.bulk.seen-whole", [Kv], ["BLK-5", "GET-7"], |cx| {
        let scope = &cx.scope()?;
        write_and_look(cx, scope, false, || look_by_get_many(cx, scope))?;
    }),
    case!("con.bulk.listed-whole", [Kv], ["BLK-5"], |cx| {
        let scope = &cx.scope()?;
        write_and_look(cx, scope, false, || async move {
            let entries = cx.kv().list(scope, ListQuery::default()).await?.entries;
            let texts: Vec<&str> = entries.iter().map(|entry| entry.value.as_str()).collect();
            let whole = is_whole(&texts) && (texts.is_empty() || texts.len() == GROUP.len());
            check!(whole, "a page of a listing saw a bulk insert in part: {texts:?}");
            Ok(())
        })?;
    }),
    case!("con.drop.seen-whole", [Kv], ["SCO-4", "GET-7"], |cx| {
        let scope = &cx.scope()?;
        write_and_look(cx, scope, true, || look_by_get_many(cx, scope))?;
    }),
    case!("con.future.dropped", [Kv], ["CON-2"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", "[0,0]", SetOptions::default().with_text("0")).await?;
        for polls in 0..12 {
            let text = format!("[{polls},{polls}]");
            let options = SetOptions::default().with_text(polls.to_string());
            if let Some(result) = dropped_after(polls, cx.set_with(&scope, "k", &text, options)).await {
                result?;
            }
            dropped_after(polls, Box::pin(cx.increment(&scope, "n", 1))).await.transpose()?;
            dropped_after(polls, Box::pin(cx.access(&scope, "k"))).await.transpose()?;
            dropped_after(polls, Box::pin(cx.all_keys(&scope))).await.transpose()?;
            let entry = cx.live(&scope, "k").await?;
            let parts: Vec<u64> = serde_json::from_str(entry.value.as_str())?;
            let whole = entry.text.as_deref().and_then(|text| text.parse().ok());
            check!(
                parts.iter().all(|part| Some(*part) == whole),
                "a dropped set was stored in part: {entry:?}"
            );
        }
        let last = cx.live(&scope, "k").await?.version;
        let next = cx.set(&scope, "k", "1").await?;
        check!(
            next.version > last,
            "version {} came after version {last}, after dropped futures",
            next.version
        );
        cx.increment(&scope, "n", 1).await?;
    }),
    case!("con.future.dropped-bulk", [Kv], ["CON-2", "BLK-5"], |cx, scope: Scope| {
        for polls in 0..12_u64 {
            let insert = Box::pin(cx.bulk(&scope, generation(polls)?));
            if let Some(result) = dropped_after(usize::try_from(polls).unwrap_or(0), insert).await {
                result?;
            }
            let texts = cx.texts(&scope, &GROUP).await?;
            check!(is_whole(&texts), "a dropped bulk insert was stored in part: {texts:?}");
        }
        cx.bulk(&scope, generation(99)?).await?;
        cx.kv().drop_scope(&scope).await?;
    }),
    case!("con.handles.see-each-other", [Kv], ["CON-3", "SET-1"], |cx| {
        let one = cx.open().await?;
        let two = one.another_handle().await?;
        let scope = cx.scope()?;
        for (from, to, text) in [(&one, &two, "1"), (&two, &one, "2"), (&one, &two, "3")] {
            // The other handle has read before, so anything it caches must not get in the way.
            read(to, &scope, "k").await?;
            write(from, &scope, "k", text).await?;
            expect_eq!(read(to, &scope, "k").await?.as_deref(), Some(text), "by the other handle");
        }
        two.kv().delete(&scope, &key("k")?, DeleteOptions::default()).await?;
        expect_eq!(read(&one, &scope, "k").await?, None, "what the other handle deleted");
        write(&one, &scope, "l", "1").await?;
        expect_eq!(
            two.kv().list(&scope, ListQuery::default()).await?.entries.len(),
            1,
            "entries the other handle lists"
        );
        two.kv().drop_scope(&scope).await?;
        expect_eq!(read(&one, &scope, "l").await?, None, "what the other handle dropped");
    }),
    case!("con.handles.search-sees-writes", [Kv, Lexical], ["CON-3", "SRC-2"], |cx| {
        let one = cx.open().await?;
        let two = one.another_handle().await?;
        let scope = cx.scope()?;
        let found = async |store: &Store, word: &str| -> Result<Vec<String>> {
            let query = memory_core::SearchQuery::new(word).with_mode(memory_core::SearchMode::Lexical);
            let hits = store.kv().search(&scope, query).await?.hits;
            Ok(hits.iter().map(|hit| hit.entry.key.as_str().to_owned()).collect())
        };
        write(&one, &scope, "a", "\"green tea\"").await?;
        expect_eq!(found(&two, "tea").await?, ["a"], "what the first handle wrote");
        expect_eq!(found(&one, "tea").await?, ["a"], "by the first handle itself");
        write(&two, &scope, "a", "\"coffee\"").await?;
        write(&two, &scope, "b", "\"black tea\"").await?;
        expect_eq!(found(&one, "tea").await?, ["b"], "after the second handle wrote");
        expect_eq!(found(&one, "coffee").await?, ["a"], "hits of the second handle's overwrite");
        one.kv().delete(&scope, &key("b")?, DeleteOptions::default()).await?;
        expect_eq!(found(&two, "tea").await?.len(), 0, "hits after the first handle deleted");
        two.kv().drop_scope(&scope).await?;
        expect_eq!(found(&one, "coffee").await?.len(), 0, "hits after the second handle dropped the scope");
    }),
    case!("con.handles.share-versions", [Kv, Cas], ["CON-3", "VER-2", "VER-6"], |cx| {
        let one = cx.open().await?;
        let two = one.another_handle().await?;
        let scope = cx.scope()?;
        let mut last = 0;
        for store in [&one, &two, &two, &one, &two] {
            let version = write(store, &scope, "k", "1").await?.version;
            check!(version > last, "version {version} came after version {last}, by another handle");
            last = version;
        }
        let stale = SetOptions::default().with_expect(Expect::Version(last - 1));
        let refused = one.kv().set(&scope, &key("k")?, json("2")?, stale).await;
        crate::cx::entries::expect_conflict(
            refused,
            Some(last),
            "a version that the other handle has overwritten",
        )?;
    }),
];

/// Runs `count` copies of a future at once, each with its number.
fn all_at_once<'a, T: Send, F: Future<Output = T> + Send + 'a>(
    cx: &'a Cx,
    count: u64,
    make: impl Fn(u64) -> F,
) -> CaseResult<Vec<T>> {
    cx.threads((0..count).map(|at| Box::pin(make(at)) as BoxFuture<'a, T>).collect())
}

/// The one successful outcome; all others must be conflicts.
fn only_winner(results: Vec<Result<SetOutcome>>) -> CaseResult<(usize, SetOutcome)> {
    let mut winners = Vec::new();
    for (at, result) in results.into_iter().enumerate() {
        match result {
            Ok(outcome) => winners.push((at, outcome)),
            refused => drop(expect_kind!(refused, ErrorKind::Conflict, "one of several writers")),
        }
    }
    expect_eq!(winners.len(), 1, "writers that succeeded");
    Ok(expect_some!(winners.pop(), "the winner"))
}

const GROUP: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn generation(number: u64) -> Result<Vec<NewEntry>> {
    GROUP.iter().map(|name| item(name, &number.to_string())).collect()
}

/// Whether all are of one generation, or all absent.
fn is_whole<T: PartialEq>(texts: &[T]) -> bool {
    texts.windows(2).all(|pair| matches!(pair, [a, b] if a == b))
}

/// Two tasks write while two read; `look` reports what a reader must not see.
fn write_and_look<'a, F: Future<Output = CaseResult> + Send + 'a>(
    cx: &'a Cx,
    scope: &'a Scope,
    drops: bool,
    look: impl Fn() -> F + Copy + Send + 'a,
) -> CaseResult {
    const ROUNDS: u64 = 15;
    const LOOKS: u32 = 40;
    let writing = Arc::new(());
    let mut work: Vec<BoxFuture<'a, CaseResult>> = Vec::new();
    for writer in 0..2_u64 {
        let mine = Arc::clone(&writing);
        work.push(Box::pin(async move {
            for round in 0..ROUNDS {
                let items = generation(writer * ROUNDS + round)?;
                cx.kv().bulk_insert(scope, items, BulkOptions::default()).await?;
                if drops {
                    cx.kv().drop_scope(scope).await?;
                }
            }
            drop(mine);
            Ok(())
        }));
        let writers = Arc::downgrade(&writing);
        work.push(Box::pin(async move {
            // On a busy machine a late reader must still read while they write.
            let mut looks = 0;
            while looks < LOOKS || writers.strong_count() > 0 {
                look().await?;
                looks += 1;
            }
            Ok(())
        }));
    }
    drop(writing);
    cx.threads(work)?.into_iter().collect()
}

async fn look_by_get_many(cx: &Cx, scope: &Scope) -> CaseResult {
    let texts = cx.texts(scope, &GROUP).await?;
    check!(is_whole(&texts), "get_many saw a bulk insert or a drop in part: {texts:?}");
    Ok(())
}

/// Polls a future this many times, then drops it; returns its result if it finished earlier.
async fn dropped_after<T>(polls: usize, future: BoxFuture<'_, T>) -> Option<T> {
    let mut future = Some(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        let poll = future.as_mut().map(|future| future.as_mut().poll(&mut context));
        if let Some(Poll::Ready(value)) = poll {
            return Some(value);
        }
        std::thread::yield_now();
    }
    drop(future.take());
    None
}

async fn read(store: &Store, scope: &Scope, name: &str) -> Result<Option<String>> {
    let entry = store.kv().get(scope, &key(name)?, GetOptions::uncounted()).await?;
    Ok(entry.map(|entry| entry.value.as_str().to_owned()))
}

async fn write(store: &Store, scope: &Scope, name: &str, text: &str) -> Result<SetOutcome> {
    store.kv().set(scope, &key(name)?, json(text)?, SetOptions::default()).await
}
