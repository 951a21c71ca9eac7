//! Pages that skip, repeat, or belong to another scope.

use memory_core::layer::FactsPage;
use memory_core::{ErrorKind, Next, Reply, Request, Result, Scope};

use super::requests::facts_of;
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "layer.pages-skip": ["LAY-40"] needs [Layer], "the fact after a cursor is skipped" => around(skip);
    "layer.pages-repeat": ["LAY-40"] needs [Layer], "the first fact is on every page" => around(repeat);
    "layer.page-one-more": ["LAY-40"] needs [Layer], "a page has one fact too many"
        => ask(Request::Facts { query, .. } => query.limit += 1);
    "layer.cursor-never": ["LAY-40"] needs [Layer], "there is only one page"
        => answer(|reply| if let Some(page) = listed(reply) { page.next = None; });
    "layer.cursor-always": ["LAY-40"] needs [Layer], "the last page has a cursor" => around({
        let mut reply = next.run(request).await?;
        if let Some(page) = listed(&mut reply).filter(|page| page.next.is_none() && !page.facts.is_empty()) {
            page.next = Some("the-end".to_owned());
        }
        Ok(reply)
    });
    "layer.cursor-unread": ["LAY-41", "LAY-40"] needs [Layer], "an invalid cursor restarts the listing"
        => around({
            let scope = request.scope().cloned();
            let behind = is_behind_a_cursor(&request);
            match (next_facts(&next, scope.as_ref()).await, next.run(request).await) {
                (Ok(facts), Err(error)) if behind && error.kind() == ErrorKind::InvalidArgument => {
                    Ok(Reply::Facts(FactsPage::new(facts, None)))
                }
                (_, reply) => reply,
            }
        });
    "layer.cursor-has-the-scope": ["LAY-41", "LAY-50"] needs [Layer], "a cursor lists the scope it was made in" => around(has_the_scope);
    "layer.cursor-is-a-number": ["LAY-41"] needs [Layer], "any number is accepted as a cursor"
        => ask(Request::Facts { query, .. } if query.cursor.as_ref().is_some_and(|cursor| cursor.parse::<u32>().is_ok())
            => query.cursor = None);
    "layer.listed-with-a-full-stop": ["LAY-42"] needs [Layer], "a full stop is appended to listed facts"
        => answer(|reply| if let Some(page) = listed(reply) { page.facts.iter_mut().for_each(|fact| fact.memory.push('.')); });
    "layer.sessions-unread": ["LAY-44"] needs [Layer, LayerSessions], "the session of a listing is ignored"
        => ask(Request::Facts { query, .. } => query.session = None);
    "layer.sessions-in-lower-case": ["LAY-44"] needs [Layer, LayerSessions], "sessions are compared without case"
        => ask(Request::Facts { query, .. } => query.session = query.session.take().map(|session| session.to_lowercase()));
    "layer.listing-leaves-out-the-last": ["LAY-40", "LAY-1"] needs [Layer], "the newest fact is not listed"
        => around({
            let mut reply = next.run(request).await?;
            if let Some(page) = listed(&mut reply).filter(|page| page.next.is_none()) {
                page.facts.pop();
            }
            Ok(reply)
        });
}

fn listed(reply: &mut Reply) -> Option<&mut FactsPage> {
    match reply {
        Reply::Facts(page) => Some(page),
        _ => None,
    }
}

fn is_behind_a_cursor(request: &Request) -> bool {
    matches!(request, Request::Facts { query, .. } if query.cursor.is_some())
}

async fn skip(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let behind = is_behind_a_cursor(&request);
    let mut reply = next.run(request).await?;
    if let Some(page) = listed(&mut reply).filter(|page| behind && !page.facts.is_empty()) {
        page.facts.remove(0);
    }
    Ok(reply)
}

async fn repeat(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let first = match &request {
        Request::Facts { scope, .. } if is_behind_a_cursor(&request) => {
            facts_of(&next, scope).await?.into_iter().next()
        }
        _ => None,
    };
    let mut reply = next.run(request).await?;
    if let (Some(page), Some(first)) = (listed(&mut reply), first)
        && let Some(place) = page.facts.first_mut()
    {
        *place = first;
    }
    Ok(reply)
}

async fn next_facts(next: &Next<'_>, scope: Option<&Scope>) -> Result<Vec<memory_core::layer::Fact>> {
    match scope {
        Some(scope) => facts_of(next, scope).await,
        None => Ok(Vec::new()),
    }
}

async fn has_the_scope(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    let asked = request.scope().cloned();
    if let Request::Facts { scope, query, .. } = &mut request
        && let Some(cursor) = &query.cursor
        && let Some((_, own)) = memory.lock().events.iter().find(|(text, _)| text == cursor)
    {
        *scope = own.clone();
    }
    let mut reply = next.run(request).await?;
    if let (Some(cursor), Some(scope)) = (listed(&mut reply).and_then(|page| page.next.clone()), asked) {
        let mut remembered = memory.lock();
        if !remembered.events.iter().any(|(text, _)| *text == cursor) {
            remembered.events.push((cursor, scope));
        }
    }
    Ok(reply)
}
