//! Runs that do not end, concurrent adds that are lost, handles unaware of each other.

use memory_core::layer::{AddOutcome, AddStatus, Forget};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, Scope, ScopeKind};

use super::requests::{facts_in, forget_in};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::let_others_in;

mutants! {
    |memory, request, next|
    "layer.run-does-not-end": ["LAY-70"] needs [Layer], "the end of a run forgets nothing"
        => instead(Request::EndRun { .. } => Ok(Reply::EndRun(())));
    "layer.run-ends-once": ["LAY-70"] needs [Layer], "a run that learned nothing cannot be ended"
        => instead(Request::EndRun { root_run, .. } if !memory.lock().scopes.iter().any(|scope| scope.id == *root_run)
            => Err(Error::new(ErrorKind::NotFound, "there is no such run")));
    "layer.run-ends-its-namesakes": ["LAY-70"] needs [Layer], "the end of a run forgets agents and users with the same id"
        => around(ending(memory, request, next, |ended, scope| ended.tenant == scope.tenant && ended.id == scope.id).await);
    "layer.run-ends-all": ["LAY-70"] needs [Layer], "the end of a run forgets all runs of the tenant"
        => around(ending(memory, request, next, |ended, scope| ended.tenant == scope.tenant && ended.kind == scope.kind)
            .await);
    "layer.run-ends-for-all-tenants": ["LAY-70", "LAY-50"] needs [Layer], "the end of a run forgets the runs of other tenants with the same id"
        => around(ending(memory, request, next, |ended, scope| ended.kind == scope.kind && ended.id == scope.id).await);
    "layer.adds-collide": ["LAY-71"] needs [Layer], "one of several concurrent adds is lost" => around(collide);
    "layer.handle-knows-its-own": ["LAY-72"] needs [Layer], "a handle lists only its own adds" => around({
        let scopes = memory.scopes_added_to();
        let own = request.scope().is_none_or(|scope| scopes.contains(scope));
        let mut reply = next.run(request).await?;
        if let Some(facts) = facts_in(&mut reply).filter(|_| !own) {
            facts.clear();
        }
        Ok(reply)
    });
    "layer.answers-are-kept": ["LAY-72", "LAY-30"] needs [Layer], "answers to repeated questions are cached" => around(kept);
    "layer.forgotten-for-one": ["LAY-72"] needs [Layer, LayerForget], "facts forgotten through another handle are still known" => around(for_one);
}

/// Also forgets the matching scopes.
async fn ending(
    memory: &Memory,
    request: Request,
    next: Next<'_>,
    fits: fn(&Scope, &Scope) -> bool,
) -> Result<Reply> {
    let scopes = memory.scopes_added_to();
    if let Request::EndRun { tenant, root_run } = &request {
        let ended = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
        for scope in scopes.iter().filter(|scope| fits(&ended, scope)) {
            forget_in(&next, scope, Forget::All).await?;
        }
    }
    next.run(request).await
}

async fn collide(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if !matches!(request, Request::Add { .. }) {
        return next.run(request).await;
    }
    if std::mem::replace(&mut memory.lock().flag, true) {
        return Ok(Reply::Add(AddOutcome::new(AddStatus::Done(Vec::new()))));
    }
    for _ in 0..20 {
        let_others_in();
    }
    let reply = next.run(request).await;
    memory.lock().flag = false;
    reply
}

async fn kept(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Recall { scope, query, .. } = &request else { return next.run(request).await };
    let mut question = scope.clone();
    super::requests::change_id(
        &mut question,
        &format!("{}?{}", scope.id, query.text.chars().take(60).collect::<String>()),
    );
    if let Some(facts) = memory.lock().facts.get(&question) {
        return Ok(Reply::Recall(facts.clone()));
    }
    let reply = next.run(request).await?;
    if let Reply::Recall(facts) = &reply {
        memory.lock().facts.insert(question, facts.clone());
    }
    Ok(reply)
}

async fn for_one(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let asked = match &request {
        Request::Facts { scope, .. } => Some(scope.clone()),
        Request::Forget { scope, .. } => {
            memory.lock().facts.remove(scope);
            None
        }
        _ => None,
    };
    let mut reply = next.run(request).await?;
    if let (Some(scope), Some(facts)) = (asked, facts_in(&mut reply)) {
        let mut remembered = memory.lock();
        let known = remembered.facts.entry(scope).or_default();
        for fact in facts.iter() {
            if known.iter().all(|other| other.id != fact.id) {
                known.push(fact.clone());
            }
        }
        *facts = known.clone();
    }
    Ok(reply)
}
