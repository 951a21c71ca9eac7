//! Requests by mutants to the wrapped provider, and changes of requests.

use memory_core::{
    Backend, Cursor, Entry, Error, ErrorKind, GetOptions, Json, Key, ListQuery, Next, Request, Result, Scope,
    SetOptions, Ttl,
};

/// The key/value facet of the wrapped provider.
pub(super) fn kv<'a>(next: &'a Next<'_>) -> Result<&'a dyn Backend> {
    next.provider().backend().ok_or_else(|| Error::internal("a mutant stands around no key/value facet"))
}

/// The live entry of a key, without an access.
pub(super) async fn peek(next: &Next<'_>, scope: &Scope, key: &Key) -> Result<Option<Entry>> {
    kv(next)?.get(scope, key, GetOptions::uncounted()).await
}

/// Every live entry of a scope.
pub(super) async fn everything(next: &Next<'_>, scope: &Scope) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let page = kv(next)?.list(scope, ListQuery::default().with_cursor(cursor).with_limit(1_000)).await?;
        entries.extend(page.entries);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(entries);
        }
    }
}

/// Options that keep the rest of an entry.
pub(super) fn as_stored(entry: &Entry) -> SetOptions {
    let mut options = SetOptions::default().with_metadata(entry.metadata.clone()).with_ttl(Ttl::Keep);
    options.source = entry.source.clone();
    options.text = entry.text.clone();
    options
}

/// A conflict as every provider reports it.
pub(super) fn is_conflict<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict)
}

/// Applies `change` to every value that a request stores.
pub(super) fn change_values(request: &mut Request, change: fn(&Json) -> Json) {
    match request {
        Request::Set { value, .. } => *value = change(value),
        Request::BulkInsert { items, .. } => {
            items.iter_mut().for_each(|item| item.value = change(&item.value));
        }
        _ => {}
    }
}

/// Applies `change` to every key that a request names.
pub(super) fn change_keys(request: &mut Request, change: fn(&str) -> String) {
    let change = |key: &mut Key| {
        if let Ok(changed) = Key::new(change(key.as_str())) {
            *key = changed;
        }
    };
    match request {
        Request::Get { key, .. }
        | Request::Set { key, .. }
        | Request::Delete { key, .. }
        | Request::Increment { key, .. }
        | Request::Update { key, .. } => change(key),
        Request::GetMany { keys, .. } => keys.iter_mut().for_each(change),
        Request::BulkInsert { items, .. } => items.iter_mut().for_each(|item| change(&mut item.key)),
        _ => {}
    }
}

/// Applies `change` to the scope that a request names.
pub(super) fn change_scope(request: &mut Request, change: fn(&Scope) -> Result<Scope>) {
    match request {
        Request::Get { scope, .. }
        | Request::GetMany { scope, .. }
        | Request::Set { scope, .. }
        | Request::Delete { scope, .. }
        | Request::List { scope, .. }
        | Request::Increment { scope, .. }
        | Request::Update { scope, .. }
        | Request::BulkInsert { scope, .. }
        | Request::Search { scope, .. }
        | Request::Stats { scope }
        | Request::Reembed { scope, .. }
        | Request::DropScope { scope }
        | Request::ExportScope { scope }
        | Request::ImportScope { scope, .. } => {
            if let Ok(changed) = change(scope) {
                *scope = changed;
            }
        }
        _ => {}
    }
}

/// Yields to other threads, so that races happen.
pub(super) fn let_others_in() {
    std::thread::sleep(std::time::Duration::from_micros(300));
}
