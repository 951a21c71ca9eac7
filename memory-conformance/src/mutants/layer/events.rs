//! Events without an owner, or with a false status.

use memory_core::layer::{AddStatus, EventId, EventStatus};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, Scope};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "layer.event-missing": ["LAY-3"] needs [Layer, LayerEvents], "pending work has no event"
        => answer(Reply::Add(outcome) => outcome.status = AddStatus::Pending(None));
    "layer.event-done-early": ["LAY-3"] needs [Layer, LayerEvents], "an event is done before anything was learned"
        => answer(Reply::Event(status @ EventStatus::Pending) => *status = EventStatus::Done(Vec::new()));
    "layer.event-names-none": ["LAY-4"] needs [Layer, LayerEvents], "a finished event names no facts"
        => answer(Reply::Event(EventStatus::Done(ids)) => ids.clear());
    "layer.event-never-done": ["LAY-3"] needs [Layer, LayerEvents], "an event fails although the work succeeded"
        => answer(Reply::Event(status @ EventStatus::Done(_)) => *status = EventStatus::Failed("no reason".to_owned()));
    "layer.event-of-the-last": ["LAY-3", "LAY-4"] needs [Layer, LayerEvents], "every event reports the last one's status"
        => ask(Request::Event { scope, id, .. } => {
            let last = memory.lock().events.iter().rev().find(|(_, of)| of == scope).map(|(id, _)| id.clone());
            if let Some(last) = last {
                *id = EventId::new(last)?;
            }
        });
    "layer.event-ends-with-its-answer": ["LAY-21"] needs [Layer, LayerEvents], "an event disappears once it was reported as done" => around(ends);
    "layer.event-within-tenant": ["LAY-20", "LAY-50"] needs [Layer, LayerEvents], "any scope of the tenant can query an event"
        => ask(Request::Event { scope, id, .. } => {
            if let Some(own) = memory.scope_of(id).filter(|own| own.tenant == scope.tenant) {
                *scope = own;
            }
        });
    "layer.event-across-tenants": ["LAY-20", "LAY-50"] needs [Layer, LayerEvents], "any tenant can query an event"
        => ask(Request::Event { scope, id, .. } => {
            if let Some(own) = memory.scope_of(id).filter(|own| own.tenant != scope.tenant) {
                *scope = own;
            }
        });
    "layer.event-told-in-refusal": ["LAY-20"] needs [Layer, LayerEvents], "querying another scope's event is `forbidden`, which reveals that it exists"
        => instead(Request::Event { scope, id, .. } if memory.scope_of(id).is_some_and(|own| own != *scope)
            => Err(Error::new(ErrorKind::Forbidden, "this is another scope's event")));
    "layer.event-unknown-is-pending": ["LAY-20"] needs [Layer, LayerEvents], "an unknown event is pending"
        => forgive(Request::Event { .. }, ErrorKind::NotFound => Reply::Event(EventStatus::Pending));
    "layer.event-by-suffix": ["LAY-20"] needs [Layer, LayerEvents], "the end of an event's id suffices"
        => ask(Request::Event { scope, id, .. } => {
            let fits = |(event, of): &&(String, Scope)| of == scope && event.ends_with(id.as_str());
            let whole = memory.lock().events.iter().find(fits).map(|(event, _)| event.clone());
            if let Some(whole) = whole {
                *id = EventId::new(whole)?;
            }
        });
}

async fn ends(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let event = match &request {
        Request::Event { id, .. } => Some(id.as_str().to_owned()),
        _ => None,
    };
    if let Some(event) = &event
        && memory.lock().notes.contains_key(event)
    {
        return Err(Error::new(ErrorKind::NotFound, "no such event"));
    }
    let reply = next.run(request).await?;
    if let (Reply::Event(EventStatus::Done(_)), Some(event)) = (&reply, event) {
        memory.lock().notes.insert(event, 1);
    }
    Ok(reply)
}
