//! An index that still holds removed entries.

use memory_core::{Entry, Hit, Next, Reply, Request, Result, SearchQuery};

use crate::mutants::memory::Memory;
use crate::mutants::requests::{everything, kv, peek};

/// Whether a search finds a removed entry.
type Finds = fn(&SearchQuery, &Entry) -> bool;

/// Adds the scope's removed entries that the search finds according to `finds`.
pub(super) async fn search(memory: &Memory, request: Request, next: Next<'_>, finds: Finds) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    let mut results = kv(&next)?.search(&scope, query.clone()).await?;
    let memory = memory.lock();
    let gone = memory.entries.iter().filter(|((of, _), _)| *of == scope).map(|(_, entry)| entry);
    for entry in gone.filter(|entry| finds(&query, entry)) {
        let known = results.hits.iter().any(|hit| hit.entry.key == entry.key);
        if !known && results.hits.len() < query.top_k {
            results.hits.push(Hit::new(entry.clone(), 0.01, 0.01));
        }
    }
    Ok(Reply::Search(results))
}

/// A deleted entry stays in the index.
pub(super) async fn deleted(
    memory: &Memory,
    request: Request,
    next: Next<'_>,
    finds: Finds,
) -> Result<Reply> {
    let Request::Delete { scope, key, options } = request else {
        return search(memory, request, next, finds).await;
    };
    let old = peek(&next, &scope, &key).await?;
    let outcome = kv(&next)?.delete(&scope, &key, options).await?;
    if let Some(old) = old.filter(|_| outcome.deleted) {
        memory.lock().entries.insert((scope, key), old);
    }
    Ok(Reply::Delete(outcome))
}

/// The entries of a dropped scope stay in the index.
pub(super) async fn dropped(
    memory: &Memory,
    request: Request,
    next: Next<'_>,
    finds: Finds,
) -> Result<Reply> {
    let Request::DropScope { scope } = request else {
        return search(memory, request, next, finds).await;
    };
    let old = everything(&next, &scope).await?;
    let outcome = kv(&next)?.drop_scope(&scope).await?;
    let old = old.into_iter().map(|entry| ((scope.clone(), entry.key.clone()), entry));
    memory.lock().entries.extend(old);
    Ok(Reply::DropScope(outcome))
}
