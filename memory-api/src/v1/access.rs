//! What a caller may ask for. Every request passes here before the memory sees it.

use memory::conversations::check_writable;
use memory_core::{
    Cursor, EraseTarget, Error, ErrorKind, Quota, Request, Result, RunContext, Scope, ScopeKind, TenantId,
    TombstonesOf,
};

use crate::caller::Caller;

/// Renames the runs in a request to the caller's own: for a token bound to an agent or a user, `run-1` becomes
/// `TOKENID-run-1`. So runs of two tokens never collide, and clients need not know the prefix.
///
/// # Errors
/// `too_large` if the prefixed id is too long.
pub(super) fn own_runs(caller: &Caller, request: &mut Request) -> Result<()> {
    if !caller.grant().is_bound() {
        return Ok(());
    }
    if let Some(run) = run_mut(request) {
        (run.run, run.root_run) = (caller.own_run(&run.run)?, caller.own_run(&run.root_run)?);
    }
    let scope = match &mut *request {
        Request::EndRun { root_run, .. } => {
            *root_run = caller.own_run(root_run)?;
            None
        }
        Request::Erase { target: EraseTarget::Scope(scope) | EraseTarget::Key { scope, .. } }
        | Request::Tombstones { of: TombstonesOf::Scope(scope), .. } => Some(scope),
        other => other.scope_mut(),
    };
    let Some(scope) = scope.filter(|scope| scope.kind == ScopeKind::Run) else { return Ok(()) };
    let named = scope.clone();
    scope.id = caller.own_run(&named.id)?;
    // A client that cuts a page makes its cursor for the scope as it named it.
    if let Request::List { scope, query } = request
        && let Some(cursor) = &query.cursor
        && let Ok(key) = cursor.key(&named, &query.prefix)
    {
        query.cursor = Some(Cursor::after_key(scope, &query.prefix, &key));
    }
    Ok(())
}

/// Checks a request, and tightens its limits to those of the operator's policy.
///
/// # Errors
/// `capability_unsupported` by `provider` for a scope of the host; the caller's refusals; `scope_denied` for a run that
/// is not the caller's; `invalid_argument` for writing an entry of a conversation.
pub(super) fn check(caller: &Caller, provider: &str, request: &mut Request) -> Result<()> {
    let op = request.op();
    let scope = match &*request {
        Request::Erase { target } => target.scope(),
        Request::Tombstones { of: TombstonesOf::Scope(scope), .. } => Some(scope),
        other => other.scope(),
    };
    if scope.is_some_and(|scope| scope.kind == ScopeKind::Host) {
        return Err(Error::unsupported(op.as_str(), provider));
    }
    match &*request {
        Request::EndRun { tenant, root_run } => {
            caller.may(op, &Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone()))?;
        }
        Request::Scopes { tenant, .. }
        | Request::ScopeUses { tenant, .. }
        | Request::SqlScopes { tenant, .. } => {
            caller.may_tenant(op, tenant)?;
        }
        Request::Erase { target } => match target {
            EraseTarget::Scope(scope) | EraseTarget::Key { scope, .. } => caller.may(op, scope)?,
            other => caller.may_tenant(op, other.tenant())?,
        },
        Request::Tombstones { of, .. } => match of {
            TombstonesOf::Tenant(tenant) => caller.may_tenant(op, tenant)?,
            TombstonesOf::Scope(scope) => caller.may(op, scope)?,
            _ => caller.may_store(op)?,
        },
        other => match other.scope() {
            Some(scope) => caller.may(op, scope)?,
            None => caller.may_store(op)?,
        },
    }
    let scope = request.scope().cloned();
    if let (Some(run), Some(scope)) = (run_mut(request), scope) {
        check_run(caller, run, &scope)?;
    }
    check_keys(request)?;
    narrow(caller, request);
    Ok(())
}

/// Nobody may write a conversation's entries by key: a single wrong one would ruin the whole conversation.
fn check_keys(request: &Request) -> Result<()> {
    match request {
        Request::Set { key, .. }
        | Request::Delete { key, .. }
        | Request::Increment { key, .. }
        | Request::Update { key, .. }
        | Request::Erase { target: EraseTarget::Key { key, .. } } => check_writable(key),
        Request::BulkInsert { items, .. } => items.iter().enumerate().try_for_each(|(index, item)| {
            check_writable(&item.key).map_err(|error| error.with_detail("index", index))
        }),
        _ => Ok(()),
    }
}

/// The tenant that a request concerns; `None` for the whole store.
pub(super) fn tenant_of(request: &Request) -> Option<&TenantId> {
    match request {
        Request::EndRun { tenant, .. }
        | Request::Scopes { tenant, .. }
        | Request::ScopeUses { tenant, .. }
        | Request::SqlScopes { tenant, .. }
        | Request::Tombstones { of: TombstonesOf::Tenant(tenant), .. } => Some(tenant),
        Request::Erase { target } => Some(target.tenant()),
        other => other.scope().map(|scope| &scope.tenant),
    }
}

/// The run that a request is made in.
fn run_mut(request: &mut Request) -> Option<&mut RunContext> {
    match request {
        Request::Add { run, .. }
        | Request::Recall { run, .. }
        | Request::Event { run, .. }
        | Request::Forget { run, .. }
        | Request::Facts { run, .. }
        | Request::Exec { run, .. }
        | Request::Query { run, .. }
        | Request::Begin { run, .. }
        | Request::Commit { run, .. }
        | Request::Rollback { run, .. }
        | Request::DescribeTables { run, .. } => Some(run),
        _ => None,
    }
}

/// A run must belong to the scope's tenant and, for a token bound to an agent or a user, to the token.
fn check_run(caller: &Caller, run: &RunContext, scope: &Scope) -> Result<()> {
    let grant = caller.grant();
    let own = run.tenant == scope.tenant
        && grant.agent.as_ref().is_none_or(|agent| *agent == run.agent)
        && (!grant.is_bound() || (caller.owns_run(&run.run) && caller.owns_run(&run.root_run)));
    if own {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::ScopeDenied,
        format!(
            "the run is not one of the token `{}`: a run has the tenant of its scope and the token's agent",
            caller.id()
        ),
    ))
}

/// The caller can ask for less than the policy allows, but not for more.
fn narrow(caller: &Caller, request: &mut Request) {
    let policy = caller.policy();
    let quota = match request {
        Request::Set { options, .. } => Some(&mut options.quota),
        Request::Increment { options, .. } | Request::Update { options, .. } => Some(&mut options.quota),
        Request::BulkInsert { options, .. } => Some(&mut options.quota),
        Request::ImportScope { options, .. } => Some(&mut options.quota),
        Request::Add { options, .. } => Some(&mut options.quota),
        Request::Exec { options, .. } | Request::Query { options, .. } => {
            options.quota_bytes = smaller(options.quota_bytes, policy.sql_max_bytes);
            None
        }
        Request::Restore { options, .. } => {
            options.quota_bytes = smaller(options.quota_bytes, policy.sql_max_bytes);
            None
        }
        _ => None,
    };
    if let Some(Quota { max_entries, max_bytes }) = quota {
        *max_entries = smaller(*max_entries, policy.quota.max_entries);
        *max_bytes = smaller(*max_bytes, policy.quota.max_bytes);
    }
}

fn smaller(asked: Option<u64>, allowed: Option<u64>) -> Option<u64> {
    asked.into_iter().chain(allowed).min()
}
