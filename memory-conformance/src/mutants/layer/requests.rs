//! Requests by mutants of the conversational layer, and changes of requests and replies.

use memory_core::layer::{AddStatus, Fact, FactsQuery, Forget};
use memory_core::{Error, MemoryLayer, Next, Reply, Request, Result, RunContext, Scope, ScopeId};

/// The layer of the wrapped provider.
pub(super) fn layer<'a>(next: &'a Next<'_>) -> Result<&'a dyn MemoryLayer> {
    next.provider().layer().ok_or_else(|| Error::internal("a mutant stands around no layer"))
}

/// A run that no case uses.
pub(super) fn own_run(scope: &Scope) -> Result<RunContext> {
    Ok(RunContext::new(scope.tenant.clone(), ScopeId::new("mutant")?, ScopeId::new("mutant")?))
}

/// Every fact of a scope, up to one page of the reference.
pub(super) async fn facts_of(next: &Next<'_>, scope: &Scope) -> Result<Vec<Fact>> {
    let mut query = FactsQuery::default();
    query.limit = 1_000;
    Ok(layer(next)?.facts(&own_run(scope)?, scope, query).await?.facts)
}

/// Forgets in a chosen scope.
pub(super) async fn forget_in(next: &Next<'_>, scope: &Scope, what: Forget) -> Result<u64> {
    Ok(layer(next)?.forget(&own_run(scope)?, scope, what).await?.forgotten.unwrap_or(0))
}

/// Applies `change` to the scope that a request of the layer names.
pub(super) fn change_scope(request: &mut Request, change: impl FnOnce(&mut Scope)) {
    match request {
        Request::Add { scope, .. }
        | Request::Recall { scope, .. }
        | Request::Event { scope, .. }
        | Request::Forget { scope, .. }
        | Request::Facts { scope, .. } => change(scope),
        _ => {}
    }
}

/// Replaces a scope's id.
pub(super) fn change_id(scope: &mut Scope, id: &str) {
    if let Ok(id) = ScopeId::new(id) {
        scope.id = id;
    }
}

/// The facts of an answer.
pub(super) fn facts_in(reply: &mut Reply) -> Option<&mut Vec<Fact>> {
    match reply {
        Reply::Recall(facts) => Some(facts),
        Reply::Facts(page) => Some(&mut page.facts),
        _ => None,
    }
}

/// The ids that a reply reports as stored.
pub(super) fn named(reply: &mut Reply) -> Option<&mut Vec<memory_core::layer::FactId>> {
    match reply {
        Reply::Add(outcome) => match &mut outcome.status {
            AddStatus::Done(ids) => Some(ids),
            _ => None,
        },
        _ => None,
    }
}
