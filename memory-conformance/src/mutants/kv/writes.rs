//! GET, SET, BLK: one entry and many.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{
    Error, ErrorKind, Expect, GetOptions, Key, ListQuery, Next, Op, Reply, Request, Result, SetOptions,
};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{as_stored, kv, let_others_in, peek};
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "get.not-counted": ["GET-4"], "reads are not counted"
        => ask(Request::Get { options, .. } => *options = GetOptions::uncounted());
    "get.counted-twice": ["GET-4"], "a read counts twice" => over(Request::Get { scope, key, options } => {
        let entry = kv(&next)?.get(&scope, &key, options).await?;
        kv(&next)?.get(&scope, &key, options).await?;
        Ok(Reply::Get(entry))
    });
    "get.uncounted-counts": ["GET-4"], "an uncounted read is counted"
        => ask(Request::Get { options, .. } => *options = GetOptions::default());
    "get.touches": ["GET-4"], "a read counts as a write" => over(Request::Get { scope, key, options } => {
        let entry = kv(&next)?.get(&scope, &key, options).await?;
        if let Some(entry) = entry.as_ref().filter(|_| options.count_access) {
            kv(&next)?.set(&scope, &key, entry.value.clone(), as_stored(entry)).await?;
        }
        Ok(Reply::Get(entry))
    });
    "get-many.drops-absent": ["GET-5"], "absent keys are left out" => around({
        match next.run(request).await? {
            Reply::GetMany(mut entries) => {
                entries.retain(Option::is_some);
                Ok(Reply::GetMany(entries))
            }
            reply => Ok(reply),
        }
    });
    "get-many.drops-repeats": ["GET-5"], "a repeated key is answered only once"
        => ask(Request::GetMany { keys, .. } => {
            let mut seen = BTreeSet::new();
            keys.retain(|key| seen.insert(key.clone()));
        });
    "get-many.counts-once": ["GET-5"], "a repeated key counts once"
        => over(Request::GetMany { scope, keys, options } => {
            let entries = kv(&next)?.get_many(&scope, &keys, GetOptions::uncounted()).await?;
            if options.count_access {
                let distinct: Vec<Key> = keys.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
                kv(&next)?.get_many(&scope, &distinct, options).await?;
            }
            Ok(Reply::GetMany(entries))
        });
    "get-many.sorts": ["GET-5"], "answers come in key order"
        => ask(Request::GetMany { keys, .. } => keys.sort());
    "get-many.one-by-one": ["GET-7"], "keys are read one by one, with writes in between"
        => over(Request::GetMany { scope, keys, options } => {
            let mut entries = Vec::new();
            for key in &keys {
                entries.push(kv(&next)?.get(&scope, key, options).await?);
                let_others_in();
            }
            Ok(Reply::GetMany(entries))
        });
    "get-many.too-many-are-cut": ["GET-6"], "only the first 1,000 keys are answered"
        => ask_ahead(Request::GetMany { keys, .. } => keys.truncate(memory_core::limits::MAX_GET_MANY));
    "set.metadata-kept": ["SET-2"], "old metadata is kept" => around(kept(request, next, |options, old| {
        for (name, value) in old.metadata.iter() {
            if options.metadata.get(name).is_none() {
                options.metadata.insert(name, value.clone());
            }
        }
    }).await);
    "set.source-kept": ["SET-2"], "the old source is kept" => around(kept(request, next, |options, old| {
        options.source = options.source.take().or_else(|| old.source.clone());
    }).await);
    "set.text-kept": ["SET-2"], "the old explicit text is kept"
        => around(kept(request, next, |options, old| options.text = options.text.take().or_else(|| old.text.clone())).await);
    "set.always-created": ["SET-3"], "every set reports a creation"
        => answer(Reply::Set(outcome) => outcome.created = true);
    "set.created-at-moves": ["SET-4"], "`created_at` changes with every write" => fault(Fault::CreatedAtMoves);
    "set.updated-at-stays": ["SET-4"], "`updated_at` never changes" => fault(Fault::UpdatedAtStays);
    "set.count-resets": ["SET-5"], "overwriting resets the access count" => fault(Fault::CountEndsWithWrite);
    "set.first-wins": ["SET-1"], "a second set is lost" => ask(Request::Set { scope, key, value, .. } => {
        if let Some(old) = peek(&next, scope, key).await? {
            *value = old.value;
        }
    });
    "delete.left-in-list": ["DEL-4", "DEL-1"], "a deleted entry stays in listings" => around(left_in_list);
    "bulk.not-atomic": ["BLK-2"], "items before a failing one stay stored"
        => over(Request::BulkInsert { scope, items, options } => {
            let mut outcomes = Vec::new();
            for (index, item) in items.into_iter().enumerate() {
                let set = kv(&next)?.set(&scope, &item.key, item.value, item.options.with_quota(options.quota)).await;
                outcomes.push(set.map_err(|error| error.with_detail("index", index))?);
            }
            Ok(Reply::BulkInsert(outcomes))
        });
    "bulk.index-missing": ["BLK-2"], "a failing item is not named" => around({
        let is_bulk = matches!(request, Request::BulkInsert { .. });
        next.run(request)
            .await
            .map_err(|error| if is_bulk { Error::new(error.kind(), error.message().to_owned()) } else { error })
    });
    "bulk.first-wins": ["BLK-3"], "the earlier of two items with the same key wins"
        => over(Request::BulkInsert { scope, mut items, options } => {
            let mut first = BTreeMap::new();
            for item in &mut items {
                item.value = first.entry(item.key.clone()).or_insert_with(|| item.value.clone()).clone();
            }
            Ok(Reply::BulkInsert(kv(&next)?.bulk_insert(&scope, items, options).await?))
        });
    "bulk.preconditions-see-before": ["BLK-3"], "a precondition does not see earlier items"
        => over(Request::BulkInsert { scope, mut items, options } => {
            let mut seen: BTreeSet<Key> = BTreeSet::new();
            for item in &mut items {
                // A precondition does not see earlier items of the call, only the scope before it.
                if !seen.insert(item.key.clone()) && item.options.expect == Expect::Absent {
                    let absent = peek(&next, &scope, &item.key).await?.is_none();
                    item.options.expect = if absent { Expect::Any } else { Expect::Absent };
                }
            }
            Ok(Reply::BulkInsert(kv(&next)?.bulk_insert(&scope, items, options).await?))
        });
    "bulk.conflict-names-unstored": ["BLK-6"], "a conflict with an earlier item names the version that it would have stored"
        => refuse_ahead(|op, error| match error.details().contains_key("current_version") {
            false if op == Op::BulkInsert && error.kind() == ErrorKind::Conflict => error.with_detail("current_version", 1),
            _ => error,
        });
    "bulk.outcomes-reversed": ["BLK-1"], "outcomes come in the wrong order"
        => answer(Reply::BulkInsert(outcomes) => outcomes.reverse());
    "bulk.torn": ["BLK-5"], "readers see half of a bulk insert"
        => over(Request::BulkInsert { scope, mut items, options } => {
            let rest = items.split_off(items.len() / 2);
            let mut outcomes = kv(&next)?.bulk_insert(&scope, items, options).await?;
            let_others_in();
            outcomes.extend(kv(&next)?.bulk_insert(&scope, rest, options).await?);
            Ok(Reply::BulkInsert(outcomes))
        });
    "bulk.skips-existing": ["BLK-1", "BLK-3"], "existing keys are not overwritten"
        => over(Request::BulkInsert { scope, mut items, options } => {
            for item in &mut items {
                if let Some(old) = peek(&next, &scope, &item.key).await? {
                    item.value = old.value;
                }
            }
            Ok(Reply::BulkInsert(kv(&next)?.bulk_insert(&scope, items, options).await?))
        });
    "bulk.empty-fails": ["BLK-4"], "an empty bulk insert is an error"
        => instead_ahead(Request::BulkInsert { items, .. } if items.is_empty()
            => Err(Error::invalid("there is nothing to insert; give at least one item")));
    "bulk.limit-one-less": ["BLK-4"], "10,000 items are refused" => around({
        let limit = memory_core::limits::MAX_BULK_ITEMS - 1;
        match &request {
            Request::BulkInsert { items, .. } if items.len() > limit => {
                Err(Error::too_large("bulk_insert", items.len(), limit, "entries"))
            }
            _ => next.run(request).await,
        }
    });
    "bulk.too-many-are-cut": ["BLK-4"], "items over the limit are silently dropped"
        => ask_ahead(Request::BulkInsert { items, .. } => items.truncate(memory_core::limits::MAX_BULK_ITEMS));
}

async fn kept(
    request: Request,
    next: Next<'_>,
    keep: fn(&mut SetOptions, &memory_core::Entry),
) -> Result<Reply> {
    let mut request = request;
    if let Request::Set { scope, key, options, .. } = &mut request
        && let Some(old) = peek(&next, scope, key).await?
    {
        keep(options, &old);
    }
    next.run(request).await
}

async fn left_in_list(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Delete { scope, key, options } => {
            let old = peek(&next, &scope, &key).await?;
            let outcome = kv(&next)?.delete(&scope, &key, options).await?;
            if let Some(old) = old.filter(|_| outcome.deleted) {
                memory.lock().entries.insert((scope, key), old);
            }
            Ok(Reply::Delete(outcome))
        }
        Request::List { scope, query } if query == ListQuery::default() => {
            let mut page = kv(&next)?.list(&scope, query).await?;
            let ghosts: Vec<_> = {
                let memory = memory.lock();
                memory
                    .entries
                    .iter()
                    .filter(|((of, _), _)| *of == scope)
                    .map(|(_, entry)| entry.clone())
                    .collect()
            };
            page.entries.extend(ghosts);
            page.entries.sort_by(|a, b| a.key.cmp(&b.key));
            page.entries.dedup_by(|a, b| a.key == b.key);
            Ok(Reply::List(page))
        }
        request => next.run(request).await,
    }
}
