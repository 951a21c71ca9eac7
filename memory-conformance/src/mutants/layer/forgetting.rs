//! Forgetting too little, too much, or in the wrong place.

use memory_core::layer::{Fact, FactId, Forget, ForgetOutcome};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, Scope};

use super::requests::{facts_in, facts_of, forget_in, layer};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "layer.forgets-nothing": ["LAY-30"] needs [Layer, LayerForget], "forgetting is acknowledged and does nothing" => around(nothing);
    "layer.forgets-in-the-listing": ["LAY-30"] needs [Layer, LayerForget], "a forgotten fact is not listed, but still recalled" => around(in_the_listing);
    "layer.forgets-all-for-some": ["LAY-30"] needs [Layer, LayerForget], "forgetting some facts forgets all"
        => over(Request::Forget { run, scope, what: what @ Forget::Ids(_) } => {
            let outcome = layer(&next)?.forget(&run, &scope, what).await?;
            forget_in(&next, &scope, Forget::All).await?;
            Ok(Reply::Forget(outcome))
        });
    "layer.forgets-the-first": ["LAY-30"] needs [Layer, LayerForget], "only the first of several ids is forgotten"
        => ask(Request::Forget { what: Forget::Ids(ids), .. } => ids.truncate(1));
    "layer.forgotten-is-asked": ["LAY-32"] needs [Layer, LayerForget], "missing ids are counted as forgotten"
        => over(Request::Forget { run, scope, what: Forget::Ids(ids) } => {
            let mut outcome = layer(&next)?.forget(&run, &scope, Forget::Ids(ids.clone())).await?;
            outcome.forgotten = u64::try_from(ids.len()).ok();
            Ok(Reply::Forget(outcome))
        });
    "layer.forgotten-is-one": ["LAY-32"] needs [Layer, LayerForget], "the number of forgotten facts is always one"
        => answer(Reply::Forget(outcome) => outcome.forgotten = Some(1));
    "layer.not-found-hidden": ["LAY-31"] needs [Layer, LayerForget], "missing ids are not reported"
        => answer(Reply::Forget(outcome) => outcome.not_found.clear());
    "layer.not-found-is-an-error": ["LAY-31", "LAY-34"] needs [Layer, LayerForget], "a missing id is an error"
        => answer(Reply::Forget(outcome) if !outcome.not_found.is_empty()
            => return Err(Error::new(ErrorKind::NotFound, "there is no such fact")));
    "layer.not-found-for-found": ["LAY-30"] needs [Layer, LayerForget], "existing ids are reported as not found"
        => over(Request::Forget { run, scope, what: Forget::Ids(ids) } => {
            let mut outcome = layer(&next)?.forget(&run, &scope, Forget::Ids(ids.clone())).await?;
            outcome.not_found = ids;
            Ok(Reply::Forget(outcome))
        });
    "layer.not-found-ends-it": ["LAY-31"] needs [Layer, LayerForget], "a missing id keeps the others from being forgotten"
        => ask(Request::Forget { scope, what: Forget::Ids(ids), .. } => {
            let facts = facts_of(&next, scope).await?;
            let missing: Vec<FactId> =
                ids.iter().filter(|id| facts.iter().all(|fact| fact.id != **id)).cloned().collect();
            if !missing.is_empty() {
                let mut outcome = ForgetOutcome::new(Some(0));
                outcome.not_found = missing;
                return Ok(Reply::Forget(outcome));
            }
        });
    "layer.forgets-by-id-alone": ["LAY-31", "LAY-50"] needs [Layer, LayerForget], "any scope of the tenant can forget a fact by its id"
        => around(in_scopes(memory, request, next, |scope, other| scope.tenant == other.tenant).await);
    "layer.forgets-across-tenants": ["LAY-31", "LAY-50"] needs [Layer, LayerForget], "any tenant can forget a fact by its id"
        => around(in_scopes(memory, request, next, |scope, other| scope.tenant != other.tenant).await);
    "layer.forget-trims-ids": ["LAY-31"] needs [Layer, LayerForget], "white space around an id is trimmed"
        => ask(|request| change_ids(request, str::trim));
    "layer.forget-reads-paths": ["LAY-31"] needs [Layer, LayerForget], "an id with a path is reduced to its last segment"
        => ask(|request| change_ids(request, |id| id.rsplit('/').next().unwrap_or(id)));
    "layer.forget-reads-wildcards": ["LAY-31", "LAY-8"] needs [Layer, LayerForget], "an id with a wildcard forgets everything"
        => around(forget_where(memory, request, next, |id| id.contains('*')).await);
    "layer.forget-ids-null": ["LAY-31"] needs [Layer, LayerForget], "the id `null` means everything"
        => around(forget_where(memory, request, next, |id| id == "null").await);
    "layer.forget-all-of-everybody": ["LAY-33", "LAY-50"] needs [Layer, LayerForget], "forgetting all facts empties every scope"
        => around(all_of(memory, request, next, |_, _| true).await);
    "layer.forget-all-of-the-tenant": ["LAY-33", "LAY-50"] needs [Layer, LayerForget], "forgetting all facts empties the tenant's scopes with the same id"
        => around(all_of(memory, request, next, |scope, other| scope.tenant == other.tenant && scope.id == other.id).await);
    "layer.forget-all-one-page": ["LAY-33"] needs [Layer, LayerForget], "forgetting all facts forgets only two"
        => ask(Request::Forget { scope, what: what @ Forget::All, .. } => {
            let ids: Vec<FactId> =
                facts_of(&next, scope).await?.into_iter().take(2).map(|fact| fact.id).collect();
            *what = Forget::Ids(ids);
        });
    "layer.forget-all-of-nothing-fails": ["LAY-33", "LAY-34"] needs [Layer, LayerForget], "forgetting all facts of an empty scope fails"
        => instead(Request::Forget { scope, what: Forget::All, .. } if facts_of(&next, scope).await?.is_empty()
            => Err(Error::new(ErrorKind::NotFound, "there is nothing to forget")));
    "layer.forget-all-of-nothing-widens": ["LAY-33"] needs [Layer, LayerForget], "forgetting all facts of an empty scope empties every scope"
        => around(match &request {
            Request::Forget { scope, what: Forget::All, .. } if facts_of(&next, scope).await?.is_empty() => {
                all_of(memory, request, next, |_, _| true).await
            }
            _ => next.run(request).await,
        });
    "layer.forget-again-fails": ["LAY-34"] needs [Layer, LayerForget], "forgetting a fact twice fails"
        => ask(Request::Forget { what: Forget::Ids(ids), .. } => {
            let mut remembered = memory.lock();
            if ids.iter().any(|id| remembered.ids.contains(id)) {
                return Err(Error::new(ErrorKind::Conflict, "this was forgotten before"));
            }
            remembered.ids.extend(ids.iter().cloned());
        });
    "layer.forgotten-for-ever": ["LAY-35"] needs [Layer, LayerForget], "a forgotten fact cannot be learned again" => around(for_ever);
    "layer.forgets-the-same-words": ["LAY-54"] needs [Layer, LayerForget], "forgetting a fact forgets equal facts of other scopes" => around(same_words);
}

async fn nothing(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Forget { what: Forget::Ids(ids), .. } => {
            Ok(Reply::Forget(ForgetOutcome::new(u64::try_from(ids.len()).ok())))
        }
        Request::Forget { .. } => Ok(Reply::Forget(ForgetOutcome::new(None))),
        request => next.run(request).await,
    }
}

async fn in_the_listing(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Forget { what: Forget::Ids(ids), .. } => {
            memory.lock().ids.extend(ids);
            Ok(Reply::Forget(ForgetOutcome::new(None)))
        }
        request @ Request::Facts { .. } => {
            let mut reply = next.run(request).await?;
            let gone = memory.lock().ids.clone();
            if let Some(facts) = facts_in(&mut reply) {
                facts.retain(|fact| !gone.contains(&fact.id));
            }
            Ok(reply)
        }
        request => next.run(request).await,
    }
}

/// Forgets ids in all matching scopes, whichever scope was named.
async fn in_scopes(
    memory: &Memory,
    request: Request,
    next: Next<'_>,
    fits: fn(&Scope, &Scope) -> bool,
) -> Result<Reply> {
    let scopes = memory.scopes_added_to();
    if let Request::Forget { scope, what: Forget::Ids(ids), .. } = &request {
        for other in scopes.iter().filter(|other| *other != scope && fits(scope, other)) {
            forget_in(&next, other, Forget::Ids(ids.clone())).await?;
        }
    }
    next.run(request).await
}

/// Changes each id.
fn change_ids(request: &mut Request, change: fn(&str) -> &str) {
    if let Request::Forget { what: Forget::Ids(ids), .. } = request {
        for id in ids {
            if let Ok(changed) = FactId::new(change(id.as_str())) {
                *id = changed;
            }
        }
    }
}

/// Forgets every scope if one of the ids fits.
async fn forget_where(
    memory: &Memory,
    request: Request,
    next: Next<'_>,
    fits: fn(&str) -> bool,
) -> Result<Reply> {
    let scopes = memory.scopes_added_to();
    if let Request::Forget { what: Forget::Ids(ids), .. } = &request
        && ids.iter().any(|id| fits(id.as_str()))
    {
        for scope in scopes {
            forget_in(&next, &scope, Forget::All).await?;
        }
    }
    next.run(request).await
}

/// Extends a request to forget all of one scope to every matching scope.
async fn all_of(
    memory: &Memory,
    request: Request,
    next: Next<'_>,
    fits: fn(&Scope, &Scope) -> bool,
) -> Result<Reply> {
    let scopes = memory.scopes_added_to();
    if let Request::Forget { scope, what: Forget::All, .. } = &request {
        for other in scopes.iter().filter(|other| *other != scope && fits(scope, other)) {
            forget_in(&next, other, Forget::All).await?;
        }
    }
    next.run(request).await
}

/// What a request forgets, and where.
fn aim(request: &Request) -> Option<(Scope, Forget)> {
    match request {
        Request::Forget { scope, what, .. } => Some((scope.clone(), what.clone())),
        _ => None,
    }
}

/// The facts to forget.
async fn doomed(next: &Next<'_>, aim: Option<(Scope, Forget)>) -> Result<Vec<Fact>> {
    Ok(match aim {
        Some((scope, Forget::Ids(ids))) => {
            facts_of(next, &scope).await?.into_iter().filter(|fact| ids.contains(&fact.id)).collect()
        }
        Some((scope, _)) => facts_of(next, &scope).await?,
        None => Vec::new(),
    })
}

async fn for_ever(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let gone = doomed(&next, aim(&request)).await?;
    let scope = request.scope().cloned();
    if let Some(scope) = &scope {
        memory.lock().texts.extend(gone.into_iter().map(|fact| (scope.clone(), fact.memory)));
    }
    if let (Request::Add { messages, .. }, Some(scope)) = (&request, scope) {
        let known = |text: &str| {
            memory.lock().texts.contains(&(scope.clone(), text.trim_end_matches('.').to_owned()))
        };
        if messages.iter().all(|message| known(&message.content)) {
            use memory_core::layer::{AddOutcome, AddStatus};
            return Ok(Reply::Add(AddOutcome::new(AddStatus::Done(Vec::new()))));
        }
    }
    next.run(request).await
}

async fn same_words(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let scopes = memory.scopes_added_to();
    for gone in doomed(&next, aim(&request)).await? {
        for scope in &scopes {
            let same: Vec<FactId> = facts_of(&next, scope)
                .await?
                .into_iter()
                .filter(|fact| fact.memory == gone.memory && fact.id != gone.id)
                .map(|fact| fact.id)
                .collect();
            forget_in(&next, scope, Forget::Ids(same)).await?;
        }
    }
    next.run(request).await
}
