//! Events: pending work, and its owner.

use memory_core::layer::{AddOptions, AddStatus, EventId, EventStatus};
use memory_core::{ErrorKind, Scope, ScopeId, ScopeKind};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind};
use crate::cx::conversation::{Conversation, about, user};

pub(crate) const CASES: &[Case] = &[
    case!("layer.event.comes-to-done", [Layer, LayerEvents], ["LAY-3", "LAY-4"], |cx, chat: Conversation| {
        let event = pending(&chat, "theremin").await?;
        let ids = chat.done(&event).await?;
        let facts = chat.facts().await?;
        chat.knows_only(&["theremin"], &[]).await?;
        if cx.capabilities().layer_ids {
            check!(!ids.is_empty(), "the event names no fact, though one was learned");
            expect_eq!(ids.len(), facts.len(), "facts that are named, and facts that are there");
            check!(
                ids.iter().all(|id| facts.iter().any(|fact| fact.id == *id)),
                "the event names a fact that is not there"
            );
        }
    }),
    case!("layer.event.asked-again", [Layer, LayerEvents], ["LAY-21"], |cx, chat: Conversation| {
        let event = pending(&chat, "theremin").await?;
        let ids = chat.done(&event).await?;
        for _ in 0..3 {
            expect_eq!(chat.event(&event).await?, EventStatus::Done(ids.clone()), "an event that is done");
        }
        let facts = chat.facts().await?;
        expect_eq!(facts.len(), 1, "facts after the event was queried again");
    }),
    case!("layer.event.each-its-own", [Layer, LayerEvents], ["LAY-3", "LAY-4"], |cx, chat: Conversation| {
        let (first, second) = (pending(&chat, "theremin").await?, pending(&chat, "sextant").await?);
        check!(first != second, "two adds have the same event");
        let (second, first) = (chat.done(&second).await?, chat.done(&first).await?);
        check!(first.iter().all(|id| !second.contains(id)), "two events name the same fact");
        chat.knows_only(&["theremin", "sextant"], &[]).await?;
    }),
    case!(
        "layer.event.of-another-scope",
        [Layer, LayerEvents],
        ["LAY-20", "LAY-50"],
        |cx, chat: Conversation| {
            let event = pending(&chat, "theremin").await?;
            let same_id = Scope { kind: ScopeKind::User, ..chat.scope.clone() };
            for other in [cx.conversation()?, cx.conversation_in(same_id)?] {
                nothing_told(&other, &event).await?;
            }
            chat.done(&event).await?;
            let other = cx.conversation()?;
            nothing_told(&other, &event).await?;
            expect_eq!(other.facts().await?, [], "the facts of a scope that queried another scope's event");
        }
    ),
    case!(
        "layer.event.of-another-tenant",
        [Layer, LayerEvents],
        ["LAY-20", "LAY-50"],
        |cx, chat: Conversation| {
            let event = pending(&chat, "theremin").await?;
            let other = cx.conversation_in(Scope { tenant: cx.other_tenant()?, ..chat.scope.clone() })?;
            nothing_told(&other, &event).await?;
            chat.done(&event).await?;
            nothing_told(&other, &event).await?;
        }
    ),
    case!("layer.event.unknown", [Layer, LayerEvents], ["LAY-20"], |cx, chat: Conversation| {
        let event = pending(&chat, "theremin").await?;
        let cut: String = event.as_str().chars().skip(1).collect();
        let long = "e".repeat(1_024);
        for id in [
            "no-such-event",
            "00000000-0000-4000-8000-000000000000",
            "../memories",
            "?user_id=%2A",
            "a/b",
            "é*",
            &cut,
            &long,
        ] {
            expect_kind!(chat.event(&EventId::new(id)?).await, ErrorKind::NotFound, "the event `{id}`");
        }
        let stranger =
            cx.conversation_in(cx.scope_named(ScopeKind::Agent, ScopeId::new("stranger")?.as_str())?)?;
        expect_eq!(stranger.facts().await?, [], "the facts of a stranger");
    }),
];

/// Adds a message and returns the event; skips the case if it is done immediately.
async fn pending(chat: &Conversation<'_>, word: &str) -> CaseResult<EventId> {
    match chat.add(&user(&about(word)), AddOptions::default()).await? {
        AddStatus::Pending(Some(event)) => Ok(event),
        AddStatus::Pending(None) => {
            Err(Stop::failed("with `layer_events`, a pending add must have an event"))
        }
        AddStatus::Done(_) => Err(Stop::skipped("adds are done immediately")),
        other => Err(Stop::failed(format_args!("an add was reported as {other:?}"))),
    }
}

async fn nothing_told(chat: &Conversation<'_>, event: &EventId) -> CaseResult {
    let error = expect_kind!(chat.event(event).await, ErrorKind::NotFound, "an event of another scope");
    check!(!error.to_string().contains("theremin"), "the refusal reveals the event's content");
    Ok(())
}
