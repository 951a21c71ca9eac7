//! CON, VER-8: defects that show only under concurrency.

use std::task::Poll;

use memory_core::{Error, ErrorKind, Expect, Json, Next, Reply, Request, Result, SearchMode, SetOptions};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{as_stored, kv, let_others_in, peek};

mutants! {
    |memory, request, next|
    "concurrent.cas-in-two-steps": ["VER-8", "CON-1"], "reads, compares and writes in three steps"
        => over(Request::Set { scope, key, value, mut options } => {
            if options.expect != Expect::Any {
                let live = peek(&next, &scope, &key).await?;
                if options.expect.holds(live.as_ref().map(|entry| (entry.version, &entry.value))) {
                    options.expect = Expect::Any;
                }
                let_others_in();
            }
            Ok(Reply::Set(kv(&next)?.set(&scope, &key, value, options).await?))
        });
    "concurrent.stale-reads": ["CON-1"], "the first read after a write returns the old value" => around(stale_reads);
    "concurrent.lost-writes": ["CON-1"], "one of two concurrent writes is acknowledged but lost" => around(lost_writes);
    "concurrent.hits-read-late": ["VEC-10"], "a hit shows the entry as of after the search"
        => over(Request::Search { scope, query } => {
            let mut results = kv(&next)?.search(&scope, query).await?;
            let_others_in();
            for hit in &mut results.hits {
                if let Some(mut entry) = peek(&next, &scope, &hit.entry.key).await? {
                    entry.access_count = hit.entry.access_count;
                    hit.entry = entry;
                }
            }
            Ok(Reply::Search(results))
        });
    "concurrent.hits-lost-late": ["VEC-10"], "a hit that is deleted during the search is missing from the answer"
        => over(Request::Search { scope, query } => {
            let mut results = kv(&next)?.search(&scope, query).await?;
            let_others_in();
            let mut hits = Vec::new();
            for hit in results.hits {
                if peek(&next, &scope, &hit.entry.key).await?.is_some() {
                    hits.push(hit);
                }
            }
            results.hits = hits;
            Ok(Reply::Search(results))
        });
    "concurrent.vectors-cached": ["VEC-10", "VEC-5"], "a handle keeps finding vectors that another handle replaced" => around(vectors_cached);
    "concurrent.handles-cache": ["CON-3"], "a handle does not see another handle's writes" => around(handles_cache);
    "concurrent.dropped-half": ["CON-2"], "a dropped set wrote its value without its metadata"
        => over(Request::Set { scope, key, value, options } => {
            if options.expect == Expect::Any && options.quota.is_unlimited() && !options.metadata.is_empty() {
                let half: Json = value.clone();
                let outcome = kv(&next)?.set(&scope, &key, half, SetOptions::default().with_ttl(options.ttl)).await?;
                pause().await;
                let mut whole = kv(&next)?.set(&scope, &key, value, options).await?;
                whole.created = outcome.created;
                return Ok(Reply::Set(whole));
            }
            Ok(Reply::Set(kv(&next)?.set(&scope, &key, value, options).await?))
        });
    "concurrent.dropped-half-bulk": ["CON-2", "BLK-5"], "a dropped bulk insert wrote its first half"
        => over(Request::BulkInsert { scope, mut items, options } => {
            let rest = items.split_off(items.len() / 2);
            let mut outcomes = kv(&next)?.bulk_insert(&scope, items, options).await?;
            pause().await;
            outcomes.extend(kv(&next)?.bulk_insert(&scope, rest, options).await?);
            Ok(Reply::BulkInsert(outcomes))
        });
    "concurrent.dropped-wedges": ["CON-2"], "a dropped set leaves the store locked"
        => over(Request::Set { scope, key, value, options } => {
            let held = std::mem::replace(&mut memory.lock().flag, true);
            if held {
                return Err(Error::new(ErrorKind::Unavailable, "the store is busy; try again"));
            }
            pause().await;
            let outcome = kv(&next)?.set(&scope, &key, value, options).await;
            memory.lock().flag = false;
            outcome.map(Reply::Set)
        });
}

async fn stale_reads(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Set { scope, key, value, options } => {
            let old = peek(&next, &scope, &key).await?;
            let outcome = kv(&next)?.set(&scope, &key, value, options).await?;
            if let Some(old) = old {
                memory.lock().entries.insert((scope, key), old);
            }
            Ok(Reply::Set(outcome))
        }
        Request::Get { scope, key, options } => {
            let stale = memory.lock().entries.remove(&(scope.clone(), key.clone()));
            match stale {
                Some(stale) => Ok(Reply::Get(Some(stale))),
                None => Ok(Reply::Get(kv(&next)?.get(&scope, &key, options).await?)),
            }
        }
        request => next.run(request).await,
    }
}

async fn lost_writes(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Set { scope, key, value, options } = request else { return next.run(request).await };
    let others = std::mem::replace(&mut memory.lock().flag, true);
    let_others_in();
    let old = peek(&next, &scope, &key).await?;
    let outcome = kv(&next)?.set(&scope, &key, value, options).await;
    if let (true, Ok(_), Some(old)) = (others, &outcome, old) {
        // The last to arrive is lost: the other's value comes back.
        kv(&next)?.set(&scope, &key, old.value.clone(), as_stored(&old)).await?;
    }
    memory.lock().flag = false;
    outcome.map(Reply::Set)
}

/// Caches the best score that this handle saw of an entry, until it writes the entry itself.
async fn vectors_cached(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Set { scope, key, value, options } => {
            memory.lock().entries.remove(&(scope.clone(), key.clone()));
            Ok(Reply::Set(kv(&next)?.set(&scope, &key, value, options).await?))
        }
        Request::Search { scope, query } => {
            let mut results = kv(&next)?.search(&scope, query).await?;
            let mut memory = memory.lock();
            for hit in results.hits.iter_mut().filter(|_| results.mode == SearchMode::Vector) {
                let place = (scope.clone(), hit.entry.key.clone());
                let seen = memory.entries.entry(place).or_insert_with(|| hit.entry.clone());
                if seen.value != hit.entry.value {
                    hit.score = (hit.score + 0.5).min(1.0);
                }
            }
            drop(memory);
            Ok(Reply::Search(results))
        }
        request => next.run(request).await,
    }
}

async fn handles_cache(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Get { scope, key, options } => {
            let at = (scope.clone(), key.clone());
            let cached = memory.lock().entries.get(&at).cloned();
            if let Some(entry) = cached {
                // Expiry is still obeyed, and accesses are still counted.
                let live = kv(&next)?.get(&scope, &key, options).await?;
                let shown = live.map(|live| {
                    let mut shown = entry;
                    shown.access_count = live.access_count;
                    shown
                });
                return Ok(Reply::Get(shown));
            }
            let entry = kv(&next)?.get(&scope, &key, options).await?;
            if let Some(entry) = entry.clone() {
                memory.lock().entries.insert(at, entry);
            }
            Ok(Reply::Get(entry))
        }
        request => {
            // A handle knows its own writes.
            memory.lock().entries.clear();
            next.run(request).await
        }
    }
}

/// Pending once, so that a caller can drop the future here.
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
