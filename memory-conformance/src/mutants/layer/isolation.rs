//! Scopes that collide.

use memory_core::layer::{AddOutcome, AddStatus, Fact, FactId, Forget};
use memory_core::{Next, Reply, Request, Result, Scope, ScopeKind, TenantId};

use super::requests::{change_id, change_scope, facts_in, facts_of, forget_in};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "layer.scope-without-tenant": ["LAY-50"] needs [Layer], "tenants share scopes with the same name"
        => ask(|request| change_scope(request, |scope| {
            if let Some(own) =
                scope.tenant.as_str().strip_suffix("/other").and_then(|own| TenantId::new(own).ok())
            {
                scope.tenant = own;
            }
        }));
    "layer.scope-without-kind": ["LAY-50"] needs [Layer], "agents, users and runs share scopes with the same name"
        => ask(|request| change_scope(request, |scope| scope.kind = ScopeKind::Agent));
    "layer.user-is-agent": ["LAY-50"] needs [Layer], "agents and users share scopes with the same name"
        => ask(|request| change_scope(request, |scope| {
            if scope.kind == ScopeKind::User {
                scope.kind = ScopeKind::Agent;
            }
        }));
    "layer.scope-in-lower-case": ["LAY-51"] needs [Layer], "ids that differ only by case are the same"
        => ask(|request| change_scope(request, |scope| change_id(scope, &scope.id.as_str().to_lowercase())));
    "layer.scope-without-white-space": ["LAY-51"] needs [Layer], "white space in ids is ignored"
        => ask(|request| change_scope(request, |scope| {
            change_id(scope, &scope.id.as_str().split_whitespace().collect::<String>());
        }));
    "layer.scope-in-ascii": ["LAY-51"] needs [Layer], "accents in ids are ignored"
        => ask(|request| change_scope(request, |scope| {
            let plain = |c: char| match c {
                '\u{301}' => None,
                '\u{e9}' => Some('e'),
                c => Some(c),
            };
            change_id(scope, &scope.id.as_str().chars().filter_map(plain).collect::<String>());
        }));
    "layer.scope-without-dots": ["LAY-51"] needs [Layer], "dots at the end of ids are ignored"
        => ask(|request| change_scope(request, |scope| change_id(scope, scope.id.as_str().to_owned().trim_end_matches('.'))));
    "layer.scope-by-prefix": ["LAY-51"] needs [Layer], "a scope sees those whose id starts with its own"
        => around(with_those_of(memory, request, next, |_, own, other| other.id.as_str().starts_with(own.id.as_str())).await);
    "layer.scope-cut-at-100": ["LAY-50"] needs [Layer], "ids are cut at 100 bytes" => ask(|request| change_scope(request, |scope| cut(scope, 100)));
    "layer.scope-cut-at-255": ["LAY-50"] needs [Layer], "ids are cut at 255 bytes" => ask(|request| change_scope(request, |scope| cut(scope, 255)));
    "layer.long-ids-store-nothing": ["LAY-50", "LAY-1"] needs [Layer], "an add to an id over 100 bytes is acknowledged but not stored"
        => instead(Request::Add { scope, .. } if scope.id.as_str().len() > 100
            => Ok(Reply::Add(AddOutcome::new(AddStatus::Done(Vec::new())))));
    "layer.star-in-ids": ["LAY-50"] needs [Layer], "an id with a wildcard sees everything"
        => around(with_those_of(memory, request, next, |_, own, _| own.id.as_str().contains('*')).await);
    "layer.like-in-ids": ["LAY-50"] needs [Layer], "an id with `%` sees everything"
        => around(with_those_of(memory, request, next, |_, own, _| own.id.as_str().contains('%')).await);
    "layer.question-mark-in-ids": ["LAY-50"] needs [Layer], "an id with `?` or `[` is a pattern"
        => around(with_those_of(memory, request, next, |_, own, _| own.id.as_str().contains(['?', '['])).await);
    "layer.separators-are-one": ["LAY-50"] needs [Layer], "separators in ids are interchangeable"
        => ask(|request| change_scope(request, |scope| {
            let id: String =
                scope.id.as_str().chars().map(|c| if ":/~_-|".contains(c) { '/' } else { c }).collect();
            change_id(scope, &id);
        }));
    "layer.percent-decoded": ["LAY-50"] needs [Layer], "percent signs in ids are decoded"
        => ask(|request| change_scope(request, |scope| change_id(scope, &scope.id.as_str().replace("%2F", "/"))));
    "layer.logic-in-ids": ["LAY-50"] needs [Layer], "an id that is a logic word sees everything"
        => around(with_those_of(memory, request, next, |_, own, _| matches!(own.id.as_str(), "AND" | "OR" | "NOT" | "$or"))
            .await);
    "layer.null-is-no-id": ["LAY-50"] needs [Layer], "the id `null` counts as absent"
        => around(with_those_of(memory, request, next, |_, own, _| own.id.as_str() == "null").await);
    "layer.filters-in-ids": ["LAY-50"] needs [Layer], "an id that is a filter filters"
        => around(with_those_of(memory, request, next, |_, own, _| own.id.as_str().starts_with('{')).await);
    "layer.query-in-ids": ["LAY-50"] needs [Layer], "an id is cut at `&`"
        => ask(|request| change_scope(request, |scope| {
            // Like a server that takes the last of two parameters for `x&user_id=y`.
            let id = scope.id.as_str().to_owned();
            if let Some((_, last)) = id.split_once("&user_id=") {
                change_id(scope, last);
            }
        }));
    "layer.tenant-of-the-run-unchecked": ["LAY-52"] needs [Layer], "a run may use another tenant's scope"
        => ask_ahead(|request| {
            match request {
                Request::Add { run, scope, .. }
                | Request::Recall { run, scope, .. }
                | Request::Forget { run, scope, .. }
                | Request::Facts { run, scope, .. } => run.tenant = scope.tenant.clone(),
                _ => {}
            }
        });
    "layer.run-apart": ["LAY-53"] needs [Layer], "each run has separate facts" => ask(|request| {
        match request {
            Request::Add { run, scope, .. }
            | Request::Recall { run, scope, .. }
            | Request::Event { run, scope, .. }
            | Request::Forget { run, scope, .. }
            | Request::Facts { run, scope, .. } => of_run(scope, run.run.as_str()),
            _ => {}
        }
    });
    "layer.session-apart": ["LAY-53"] needs [Layer], "facts from one run are not recalled in another" => around(session_apart);
    "layer.known-elsewhere": ["LAY-54"] needs [Layer], "a fact known to another scope is not stored" => around(known_elsewhere);
    "layer.reconciles-everywhere": ["LAY-50"] needs [Layer, LayerForget], "a new fact replaces another scope's" => around(reconciles);
    "layer.foreign-rows-listed": ["LAY-50"] needs [Layer], "a listing ends with facts of other scopes"
        => around(with_those_of(memory, request, next, |request, _, _| matches!(request, Request::Facts { .. })).await);
    "layer.foreign-rows-recalled": ["LAY-50"] needs [Layer], "an answer ends with facts of other scopes"
        => around(with_those_of(memory, request, next, |request, own, other| {
            matches!(request, Request::Recall { .. }) && own.tenant == other.tenant
        }).await);
    "layer.foreign-tenant-recalled": ["LAY-50", "LAY-8"] needs [Layer], "an answer ends with facts of other tenants"
        => around(with_those_of(memory, request, next, |request, own, other| {
            matches!(request, Request::Recall { .. }) && own.tenant != other.tenant
        }).await);
    "layer.filter-widens": ["LAY-8", "LAY-50"] needs [Layer], "a question that contains `user_id` searches every scope"
        => around({
            with_those_of(
                memory,
                request,
                next,
                |request, _, _| matches!(request, Request::Recall { query, .. } if query.text.contains("user_id")),
            )
            .await
        });
}

fn cut(scope: &mut Scope, bytes: usize) {
    let id = scope.id.as_str().to_owned();
    let end = (0..=bytes.min(id.len())).rev().find(|end| id.is_char_boundary(*end)).unwrap_or(0);
    change_id(scope, id.get(..end).unwrap_or_default());
}

/// Appends the facts of matching scopes to the answer.
async fn with_those_of(
    memory: &Memory,
    request: Request,
    next: Next<'_>,
    fits: impl Fn(&Request, &Scope, &Scope) -> bool,
) -> Result<Reply> {
    let mut scopes = memory.scopes_added_to();
    match request.scope() {
        Some(own) => scopes.retain(|other| other != own && fits(&request, own, other)),
        None => scopes.clear(),
    }
    let mut more: Vec<Fact> = Vec::new();
    for other in &scopes {
        more.extend(facts_of(&next, other).await?);
    }
    let mut reply = next.run(request).await?;
    if let Some(facts) = facts_in(&mut reply) {
        facts.extend(more);
    }
    Ok(reply)
}

/// The scope of one run within a scope.
fn of_run(scope: &mut Scope, run: &str) {
    if scope.kind != ScopeKind::Run {
        let id = format!("{}@{run}", scope.id);
        change_id(scope, &id);
    }
}

async fn session_apart(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match &request {
        Request::Add { run, .. } => {
            memory.lock().notes.insert(run.run.as_str().to_owned(), 1);
        }
        Request::Recall { run, .. } if !memory.lock().notes.contains_key(run.run.as_str()) => {
            return Ok(Reply::Recall(Vec::new()));
        }
        _ => {}
    }
    next.run(request).await
}

async fn known_elsewhere(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let scopes = memory.scopes_added_to();
    if let Request::Add { scope, messages, .. } = &request {
        for other in scopes.iter().filter(|other| *other != scope) {
            let facts = facts_of(&next, other).await?;
            let known = |text: &str| facts.iter().any(|fact| text.starts_with(fact.memory.as_str()));
            if messages.iter().all(|message| known(&message.content)) {
                return Ok(Reply::Add(AddOutcome::new(AddStatus::Done(Vec::new()))));
            }
        }
    }
    next.run(request).await
}

async fn reconciles(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let scopes = memory.scopes_added_to();
    if let Request::Add { scope, messages, .. } = &request {
        let subjects: Vec<&str> =
            messages.iter().filter_map(|message| Some(message.content.split_once(" is ")?.0)).collect();
        for other in scopes.iter().filter(|other| *other != scope) {
            let same = |fact: &Fact| {
                fact.memory.split_once(" is ").is_some_and(|(subject, _)| subjects.contains(&subject))
            };
            let gone: Vec<FactId> = facts_of(&next, other)
                .await?
                .iter()
                .filter(|fact| same(fact))
                .map(|fact| fact.id.clone())
                .collect();
            forget_in(&next, other, Forget::Ids(gone)).await?;
        }
    }
    next.run(request).await
}
