//! SCO, STA: listings of scopes, dropping, counting.

use memory_core::{
    DeleteOptions, Error, ErrorKind, ListQuery, Next, Reply, Request, Result, Scope, ScopeKind, ScopesQuery,
};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{everything, kv};

mutants! {
    |memory, request, next|
    "scopes.other-tenants-shown": ["SCO-1", "ISO-1"], "scopes of other tenants are listed" => around(others_shown);
    "scopes.unordered": ["SCO-1"], "scopes come in reverse order of id"
        => around(reordered(request, next, |scope| (scope.kind, scope.id.as_str().chars().rev().collect())).await);
    "scopes.ordered-by-id": ["SCO-1"], "scopes are ordered by id before kind"
        => around(reordered(request, next, |scope| (ScopeKind::Agent, scope.id.as_str().to_owned())).await);
    "scopes.kind-ignored": ["SCO-3"], "the kind is ignored"
        => ask(Request::Scopes { query, .. } => query.kind = None);
    "scopes.no-cursor": ["SCO-2"], "a full page has no cursor" => answer(Reply::Scopes(page) => page.next = None);
    "scopes.limit-overflows": ["SCO-2"], "a page holds one scope too many"
        => ask(Request::Scopes { query, .. } => query.limit += 1);
    "scopes.bytes-missing": ["SCO-1"], "bytes are not counted"
        => answer(Reply::Scopes(page) => page.scopes.iter_mut().for_each(|info| info.bytes = 0));
    "tenants.unordered": ["SCO-6"], "tenants come in reverse order of id"
        => answer(Reply::Tenants(tenants) => tenants.reverse());
    "tenants.one-too-few": ["SCO-6", "SCO-7"], "the last tenant of a page is left out"
        => answer(Reply::Tenants(tenants) => tenants.pop());
    "tenants.after-ignored": ["SCO-7"], "every page of tenants is the first"
        => ask(Request::Tenants { after, .. } => *after = None);
    "drop.first-page-only": ["SCO-4"], "only the first 100 entries are dropped"
        => over(Request::DropScope { scope } => {
            let page = kv(&next)?.list(&scope, ListQuery::default()).await?;
            let count = page.entries.len() as u64;
            for entry in page.entries {
                kv(&next)?.delete(&scope, &entry.key, DeleteOptions::default()).await?;
            }
            Ok(Reply::DropScope(memory_core::DropOutcome::new(count)))
        });
    "drop.count-missing": ["SCO-4"], "the number of dropped entries is missing"
        => answer(Reply::DropScope(outcome) => outcome.entries = 0);
    "drop.empty-fails": ["SCO-4"], "dropping an empty scope is an error" => answer(Reply::DropScope(outcome) if outcome.entries == 0
            => return Err(Error::new(ErrorKind::NotFound, "the scope holds nothing; there is nothing to drop")));
    "end-run.leaves": ["SCO-5"], "the run's scope is not dropped" => instead(Request::EndRun { .. } => Ok(Reply::EndRun(())));
    "end-run.drops-namesakes": ["SCO-5"], "agents and users with the run's id are dropped too"
        => ask(Request::EndRun { tenant, root_run } => {
            for kind in ScopeKind::ALL {
                kv(&next)?.drop_scope(&Scope::new(tenant.clone(), kind, root_run.clone())).await?;
            }
        });
    "end-run.drops-every-run": ["SCO-5"], "every run of the tenant is dropped"
        => ask(Request::EndRun { tenant, .. } => {
            let page = kv(&next)?.scopes(tenant, ScopesQuery::default().with_kind(ScopeKind::Run)).await?;
            for info in page.scopes {
                kv(&next)?.drop_scope(&info.scope).await?;
            }
        });
    "end-run.twice-fails": ["SCO-5"], "ending a run twice fails"
        => ask(Request::EndRun { tenant, root_run } => {
            let run = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
            if !memory.lock().scopes.insert(run) {
                return Err(Error::new(ErrorKind::NotFound, "no such run is open"));
            }
        });
    "stats.bytes-of-values": ["STA-1"], "only the bytes of values count" => over(Request::Stats { scope } => {
        let mut stats = kv(&next)?.stats(&scope).await?;
        stats.bytes = everything(&next, &scope).await?.iter().map(|entry| entry.value.len_bytes() as u64).sum();
        Ok(Reply::Stats(stats))
    });
    "stats.expiring-missing": ["STA-2"], "expiring entries are not counted"
        => answer(Reply::Stats(stats) => stats.expiring = 0);
    "stats.expiring-is-all": ["STA-2"], "every entry counts as expiring"
        => answer(Reply::Stats(stats) => stats.expiring = stats.entries);
    "stats.empty-fails": ["STA-3"], "stats of an unknown scope fail" => answer(Reply::Stats(stats) if stats.entries == 0
            => return Err(Error::new(ErrorKind::NotFound, "no such scope; set something in it first")));
}

async fn others_shown(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Some(scope) = request.scope() {
        memory.lock().tenants.insert(scope.tenant.clone());
    }
    let Request::Scopes { tenant, query } = request else { return next.run(request).await };
    let mut page = kv(&next)?.scopes(&tenant, query.clone()).await?;
    let others: Vec<_> = memory.lock().tenants.iter().filter(|other| **other != tenant).cloned().collect();
    for other in others {
        page.scopes.extend(kv(&next)?.scopes(&other, query.clone().with_cursor(None)).await?.scopes);
    }
    page.scopes.truncate(query.limit);
    Ok(Reply::Scopes(page))
}

async fn reordered(
    request: Request,
    next: Next<'_>,
    sort: fn(&Scope) -> (ScopeKind, String),
) -> Result<Reply> {
    match next.run(request).await? {
        Reply::Scopes(mut page) => {
            page.scopes.sort_by_key(|info| sort(&info.scope));
            Ok(Reply::Scopes(page))
        }
        reply => Ok(reply),
    }
}
