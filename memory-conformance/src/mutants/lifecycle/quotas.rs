//! QUO: limits that refuse too much or too little.

use memory_core::{
    Entry, Error, ErrorKind, Json, ListQuery, Next, Quota, Reply, Request, Result, ScopesQuery, SetOptions,
    SetOutcome,
};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{everything, kv, let_others_in};
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "quota.one-less": ["QUO-2"], "a write that exactly reaches the limit is refused"
        => ask(|request| change(request, |quota| {
            quota.max_entries = quota.max_entries.map(|max| max.saturating_sub(1));
            quota.max_bytes = quota.max_bytes.map(|max| max.saturating_sub(1));
        }));
    "quota.one-more": ["QUO-1"], "one entry over the limit is accepted"
        => ask(|request| change(request, |quota| quota.max_entries = quota.max_entries.map(|max| max.saturating_add(1))));
    "quota.bytes-ignored": ["QUO-1"], "bytes are not limited" => ask(|request| change(request, |quota| quota.max_bytes = None));
    "quota.entries-ignored": ["QUO-1"], "entries are not limited" => ask(|request| change(request, |quota| quota.max_entries = None));
    "quota.values-only": ["QUO-1"], "only the bytes of values count"
        => over(Request::Set { scope, key, value, mut options } => {
            if let Some(max) = options.quota.max_bytes.take() {
                let entries = everything(&next, &scope).await?;
                let size = |entry: &Entry| entry.value.len_bytes() as u64;
                let before: u64 = entries.iter().map(size).sum();
                let old: u64 = entries.iter().filter(|entry| entry.key == key).map(size).sum();
                let quota = Quota { max_entries: None, max_bytes: Some(max) };
                quota.check((0, before), (0, before - old + value.len_bytes() as u64))?;
            }
            Ok(Reply::Set(kv(&next)?.set(&scope, &key, value, options).await?))
        });
    "quota.increment-escapes": ["QUO-1"], "increments are not limited"
        => ask(Request::Increment { options, .. } => options.quota = Quota::default());
    "quota.update-escapes": ["QUO-1"], "updates are not limited"
        => ask(Request::Update { options, .. } => options.quota = Quota::default());
    "quota.bulk-escapes": ["QUO-6"], "bulk inserts are not limited"
        => ask(Request::BulkInsert { options, .. } => options.quota = Quota::default());
    "quota.import-escapes": ["QUO-6"], "imports are not limited"
        => ask(Request::ImportScope { options, .. } => options.quota = Quota::default());
    "quota.bulk-per-item": ["QUO-6"], "each item is checked against the scope before the call" => fault(Fault::QuotaPerItem);
    "quota.blocks-delete": ["QUO-3"], "deletes are refused at the limit" => around(blocks_delete);
    "quota.blocks-shrinking": ["QUO-3"], "shrinking writes are refused over the limit" => fault(Fault::QuotaBlocksShrinking);
    "quota.whole-tenant": ["ISO-4"], "entries of the tenant's other scopes count too"
        => ask(Request::Set { scope, options, .. } if options.quota.max_entries.is_some() => {
            let page = kv(&next)?.scopes(&scope.tenant, ScopesQuery::default().with_limit(1_000)).await?;
            let used: u64 = page.scopes.iter().map(|info| info.entries).sum();
            options.quota.check((used, 0), (used + 1, 0))?;
        });
    "quota.races": ["QUO-5"], "the limit check and the write are separate steps" => around(races);
    "quota.full-disk-internal": ["QUO-7"], "a write on a full disk ends with `internal`" => refuse(|_, error| {
        if is_full(&error) { Error::internal("the engine reports an unexpected error") } else { error }
    });
    "quota.full-disk-acknowledges": ["QUO-7"], "a write that found no room is acknowledged"
        => forgive(Request::Set { .. }, ErrorKind::Unavailable => Reply::Set(SetOutcome::new(1, true, true, None)));
    "quota.full-disk-writes-half": ["QUO-7"], "a write that found no room leaves half of its value"
        => over(Request::Set { scope, key, value, options } => {
            let written = kv(&next)?.set(&scope, &key, value, options).await;
            if written.as_ref().is_err_and(is_full) {
                kv(&next)?.set(&scope, &key, Json::from(0), SetOptions::default()).await?;
            }
            Ok(Reply::Set(written?))
        });
    "quota.full-disk-blocks-delete": ["QUO-7"], "once a write found no room, deletes are refused too"
        => around(refuses_once_full(memory, matches!(request, Request::Delete { .. }), request, next).await);
    "quota.full-disk-for-good": ["QUO-7"], "once a write found no room, all are refused"
        => around(refuses_once_full(memory, matches!(request, Request::Set { .. }), request, next).await);
    "quota.details-missing": ["QUO-1"], "a refusal gives no figures" => refuse(|_, error| {
        if error.kind() == ErrorKind::QuotaExceeded {
            Error::new(ErrorKind::QuotaExceeded, "the scope is full; delete something first")
        } else {
            error
        }
    });
}

fn change(request: &mut Request, change: fn(&mut Quota)) {
    match request {
        Request::Set { options, .. } => change(&mut options.quota),
        Request::Increment { options, .. } | Request::Update { options, .. } => change(&mut options.quota),
        Request::BulkInsert { options, .. } => change(&mut options.quota),
        Request::ImportScope { options, .. } => change(&mut options.quota),
        _ => {}
    }
}

async fn blocks_delete(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match &request {
        Request::Set { scope, options, .. } if !options.quota.is_unlimited() => {
            memory.lock().quotas.insert(scope.clone(), options.quota);
        }
        Request::Delete { scope, .. } => {
            let quota = memory.lock().quotas.get(scope).copied();
            let stats = kv(&next)?.stats(scope).await?;
            if quota.and_then(|quota| quota.max_entries).is_some_and(|max| stats.entries >= max) {
                return Err(Error::new(ErrorKind::QuotaExceeded, "the scope is full; no write is possible"));
            }
        }
        _ => {}
    }
    next.run(request).await
}

async fn races(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Set { scope, key, value, mut options } = request else { return next.run(request).await };
    let quota = std::mem::take(&mut options.quota);
    if !quota.is_unlimited() {
        let known = kv(&next)?.list(&scope, ListQuery::prefix(key.as_str())).await?;
        let old = known.entries.iter().find(|entry| entry.key == key);
        let (old_entries, old_bytes) = old.map_or((0, 0), |entry| (1, entry.size_bytes()));
        let stats = kv(&next)?.stats(&scope).await?;
        let size = memory_core::entry::size_bytes(
            &key,
            &value,
            &options.metadata,
            options.source.as_ref(),
            options.text.as_deref(),
        );
        let before = (stats.entries, stats.bytes);
        quota.check(
            before,
            (stats.entries - old_entries + 1, (stats.bytes + size).saturating_sub(old_bytes)),
        )?;
        let_others_in();
    }
    Ok(Reply::Set(kv(&next)?.set(&scope, &key, value, options).await?))
}

fn is_full(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}

async fn refuses_once_full(
    memory: &Memory,
    is_refused: bool,
    request: Request,
    next: Next<'_>,
) -> Result<Reply> {
    if is_refused && memory.lock().flag {
        return Err(Error::new(ErrorKind::Unavailable, "the disk is full; free space and try again"));
    }
    let answered = next.run(request).await;
    if answered.as_ref().is_err_and(is_full) {
        memory.lock().flag = true;
    }
    answered
}
