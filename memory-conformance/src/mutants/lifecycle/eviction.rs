//! GC, RUN: wrong use times, wrong evictions, leaky fences.

use memory_core::{
    EraseTarget, Error, ErrorKind, EvictOutcome, Expect, GetOptions, Kept, Key, Next, Reply, Request, Result,
    Scope, ScopeKind, ScopeUse, Timestamp,
};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{everything, kv, let_others_in};
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "uses.unordered": ["GC-1"], "scopes come in reverse order"
        => answer(Reply::ScopeUses(page) => page.scopes.reverse());
    "uses.without-runs": ["GC-1"], "runs are left out"
        => answer(Reply::ScopeUses(page) => page.scopes.retain(|found| found.scope.kind != ScopeKind::Run));
    "uses.no-bytes": ["GC-1"], "bytes are missing" => answer(|reply| each_use(reply, |found| found.entry_bytes = 0));
    "uses.no-cursor": ["GC-2"], "a full page has no cursor" => answer(Reply::ScopeUses(page) => page.next = None);
    "uses.latest-too-early": ["GC-3"], "the latest possible use is a millisecond early"
        => answer(|reply| each_use(reply, |found| {
            *found = found.clone().with_slack(found.latest_use.as_millis() - found.last_used_at.as_millis() - 1);
        }));
    "uses.latest-too-late": ["GC-3"], "the latest possible use is a day late"
        => answer(|reply| each_use(reply, |found| *found = found.clone().with_slack(86_400_000)));
    "uses.in-the-future": ["GC-3"], "the last use is in the future"
        => answer(|reply| each_use(reply, |found| {
            found.last_used_at = Timestamp::from_millis_clamped(found.last_used_at.as_millis() + 1_000);
        }));
    "uses.reads-do-not-count": ["GC-3", "GC-4"], "only writes count as uses" => fault(Fault::ReadsAreNoUse);
    "uses.exports-count": ["GC-4"], "an export counts as a use"
        => ask(Request::ExportScope { scope } => kv(&next)?.get(scope, &Key::new("k")?, GetOptions::uncounted()).await?);
    "evict.only-told": ["GC-5"], "an eviction is reported but not done"
        => instead(Request::Evict { .. } => Ok(Reply::Evict(EvictOutcome::Evicted { bytes: 1 })));
    "evict.half": ["GC-5"], "one entry survives an eviction"
        => over(Request::Evict { scope, unused_since } => {
            let first = everything(&next, &scope).await?.into_iter().next();
            // Reading it counted as a use: the time limit is moved past it.
            let evicted = next.provider().evict(&scope, unused_since.max(Timestamp::MAX)).await?;
            if let Some(entry) = first.filter(|_| evicted.is_evicted()) {
                kv(&next)?.set(&scope, &entry.key, entry.value, memory_core::SetOptions::default()).await?;
            }
            Ok(Reply::Evict(evicted))
        });
    "evict.used-goes": ["GC-6"], "the time limit is ignored"
        => ask(Request::Evict { unused_since, .. } => *unused_since = Timestamp::MAX);
    "evict.own-uses-only": ["GC-6"], "a handle knows only its own uses" => around(own_uses);
    "evict.erased-scopes-go": ["GC-6"] needs [Kv, Erase, Eviction], "a scope that was erased counts as unused, whatever is written since"
        => around({
            match &mut request {
                Request::Erase { target: EraseTarget::Scope(scope) } => {
                    memory.lock().scopes.insert(scope.clone());
                }
                Request::Evict { scope, unused_since } if memory.lock().scopes.contains(scope) => {
                    *unused_since = Timestamp::MAX;
                }
                _ => {}
            }
            next.run(request).await
        });
    "evict.absent-fails": ["GC-8"], "evicting an empty scope is an error" => around({
        match next.run(request).await? {
            Reply::Evict(EvictOutcome::Kept(Kept::Absent)) => {
                Err(Error::new(ErrorKind::NotFound, "no such scope; name another"))
            }
            reply => Ok(reply),
        }
    });
    "evict.drops-namesakes": ["GC-9"], "scopes of other kinds with the same id are evicted too"
        => ask(Request::Evict { scope, .. } => {
            for kind in ScopeKind::ALL.into_iter().filter(|kind| *kind != scope.kind) {
                kv(&next)?.drop_scope(&Scope::new(scope.tenant.clone(), kind, scope.id.clone())).await?;
            }
        });
    "evict.versions-begin-anew": ["GC-10"], "versions restart after an eviction" => fault(Fault::VersionsEndWithEviction);
    "evict.in-two-steps": ["GC-11"], "writes during an eviction are lost"
        => over(Request::Evict { scope, unused_since } => {
            let evicted = next.provider().evict(&scope, unused_since).await?;
            if evicted.is_evicted() {
                (0..10).for_each(|_| let_others_in());
                kv(&next)?.drop_scope(&scope).await?;
            }
            Ok(Reply::Evict(evicted))
        });
    "reclaim.takes-the-living": ["GC-12"], "a live entry is reclaimed" => around(takes_the_living);
    "run.no-fence": ["RUN-1"], "writes to an ended run succeed" => around({
        let Request::EndRun { tenant, root_run } = &request else { return next.run(request).await };
        kv(&next)?.drop_scope(&Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone())).await?;
        Ok(Reply::EndRun(()))
    });
    "run.fence-for-bulks-open": ["RUN-1"], "bulk inserts into an ended run succeed"
        => forgive(Request::BulkInsert { .. }, ErrorKind::RunEnded => Reply::BulkInsert(Vec::new()));
    "run.precondition-first": ["RUN-1"], "a failed precondition is reported in place of the run's end" => around({
        let expects = matches!(&request, Request::Set { options, .. } if options.expect != Expect::Any);
        match next.run(request).await {
            Err(error) if expects && error.kind() == ErrorKind::RunEnded => Err(Error::conflict(None)),
            reply => reply,
        }
    });
    "run.fence-names-an-item": ["RUN-1"], "a bulk insert into an ended run blames its first item" => around({
        let is_bulk = matches!(&request, Request::BulkInsert { .. });
        next.run(request).await.map_err(|error| match error.kind() {
            ErrorKind::RunEnded if is_bulk => error.with_detail("index", 0),
            _ => error,
        })
    });
    "run.reads-refused": ["RUN-2"], "an ended run cannot be read" => around({
        match &request {
            Request::EndRun { tenant, root_run } => {
                let run = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
                memory.lock().scopes.insert(run);
            }
            Request::Get { scope, .. } if memory.lock().scopes.contains(scope) => return Err(Error::run_ended()),
            _ => {}
        }
        next.run(request).await
    });
    "run.fence-too-wide": ["RUN-3"], "scopes of other kinds with the run's id are fenced too" => around(too_wide);
    "run.fence-for-good": ["RUN-4"], "an ended run's id can never be written again" => around({
        match &request {
            Request::EndRun { tenant, root_run } => {
                let run = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
                memory.lock().scopes.insert(run);
            }
            Request::Set { scope, .. } if memory.lock().scopes.contains(scope) => return Err(Error::run_ended()),
            _ => {}
        }
        next.run(request).await
    });
    "run.fence-record-stays": ["RUN-5"], "the record of a fence is never removed"
        => answer(Reply::Reclaim(reclaimed) => reclaimed.fences = 0);
    "run.fence-counted-again": ["RUN-5", "GC-12"], "each `reclaim` reports a fence"
        => answer(Reply::Reclaim(reclaimed) => reclaimed.fences = reclaimed.fences.max(1));
    "sql.ended-run-drops-again": ["RUN-4"] needs [Kv, Sql, RunFence], "each query in an ended run's scope removes its database first"
        => around({
            let ended = match &request {
                Request::EndRun { tenant, root_run } => {
                    let run = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
                    memory.lock().scopes.insert(run);
                    None
                }
                Request::Query { scope, .. } if memory.lock().scopes.contains(scope) => Some(scope),
                _ => None,
            };
            if let (Some(scope), Some(sql)) = (ended, next.provider().sql()) {
                sql.drop_sql_scope(scope).await?;
            }
            next.run(request).await
        });
    "sql.evict-leaves-database": ["GC-5"] needs [Kv, Sql, Eviction], "only entries are evicted"
        => over(Request::Evict { scope, .. } => {
            kv(&next)?.drop_scope(&scope).await?;
            Ok(Reply::Evict(EvictOutcome::Evicted { bytes: 1 }))
        });
    "sql.first-statement-is-no-use": ["GC-3", "GC-4"] needs [Kv, Sql, Eviction], "the statement that makes a database is no use of its scope" => around(first_unused);
    "sql.evict-ends-transactions": ["GC-7"] needs [Kv, Sql, SqlTransactions, Eviction], "an open transaction is rolled back"
        => around({
            if let (Request::Evict { scope, .. }, Some(sql)) = (&request, next.provider().sql()) {
                sql.drop_sql_scope(scope).await?;
            }
            next.run(request).await
        });
}

fn each_use(reply: &mut Reply, change: impl FnMut(&mut ScopeUse)) {
    if let Reply::ScopeUses(page) = reply {
        page.scopes.iter_mut().for_each(change);
    }
}

async fn own_uses(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Evict { scope, unused_since } = &mut request {
        if memory.lock().used.get(scope).is_some_and(|at| at <= unused_since) {
            *unused_since = Timestamp::MAX;
        }
    } else if let Some(scope) = request.scope() {
        memory.lock().used.insert(scope.clone(), memory.now());
    }
    next.run(request).await
}

async fn takes_the_living(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Set { scope, .. } = &request {
        memory.lock().scopes.insert(scope.clone());
    }
    if let Request::Reclaim {} = &request {
        let scopes: Vec<Scope> = memory.lock().scopes.iter().cloned().collect();
        for scope in scopes {
            kv(&next)?.drop_scope(&scope).await?;
        }
    }
    next.run(request).await
}

async fn too_wide(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let as_run = |scope: &Scope| Scope::new(scope.tenant.clone(), ScopeKind::Run, scope.id.clone());
    match &request {
        Request::EndRun { tenant, root_run } => {
            let run = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
            memory.lock().scopes.insert(run);
        }
        Request::Set { scope, .. } if memory.lock().scopes.contains(&as_run(scope)) => {
            return Err(Error::run_ended());
        }
        _ => {}
    }
    next.run(request).await
}

async fn first_unused(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let named = |scope: &Scope| format!("{} {} {}", scope.tenant, scope.kind, scope.id);
    if let Request::Exec { scope, .. } = &request {
        *memory.lock().notes.entry(named(scope)).or_default() += 1;
    }
    let mut reply = next.run(request).await?;
    let memory = memory.lock();
    each_use(&mut reply, |found| {
        if memory.notes.get(&named(&found.scope)) == Some(&1) && found.entry_bytes == 0 {
            found.last_used_at = Timestamp::EPOCH;
        }
    });
    Ok(reply)
}
