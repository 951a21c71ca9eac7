//! Adding: messages are learned, and the reported status is true.

use std::collections::BTreeSet;

use memory_core::layer::{AddOptions, AddStatus, FactId, Message, Role};

use crate::case::cases;
use crate::check::{CaseResult, Stop, check, expect_eq};
use crate::cx::Cx;
use crate::cx::conversation::{about, mentions, user};

cases! {
    "layer.add.is-learned": [Layer], ["LAY-1"] => is_learned;
    "layer.add.several-messages": [Layer], ["LAY-1"] => several_messages;
    "layer.add.many-adds": [Layer], ["LAY-1", "LAY-9"] => many_adds;
    "layer.add.sync-at-once": [Layer], ["LAY-2"] => sync_at_once;
    "layer.add.names-its-facts": [Layer], ["LAY-4"] => names_its_facts;
    "layer.add.ids-are-new": [Layer], ["LAY-4"] => ids_are_new;
    "layer.add.nothing-worth-keeping": [Layer], ["LAY-5"] => nothing_worth_keeping;
    "layer.add.again": [Layer], ["LAY-9"] => again;
    "layer.add.other-roles": [Layer], ["LAY-10"] => other_roles;
    "layer.add.blank-beside": [Layer], ["LAY-10"] => blank_beside;
    "layer.add.named-speaker": [Layer], ["LAY-10"] => named_speaker;
}

async fn is_learned(cx: &Cx) -> CaseResult {
    let chat = cx.conversation()?;
    chat.learn("theremin").await?;
    chat.knows_only(&["theremin"], &[]).await
}

async fn several_messages(cx: &Cx) -> CaseResult {
    let chat = cx.conversation()?;
    let said = [
        Message::new(Role::User, about("theremin")),
        Message::new(Role::Assistant, "Good to know."),
        Message::new(Role::User, about("sextant")),
    ];
    chat.add_and_wait(&said, AddOptions::default()).await?;
    chat.wait_for("theremin").await?;
    chat.wait_for("sextant").await?;
    chat.knows_only(&["theremin", "sextant"], &[]).await
}

async fn many_adds(cx: &Cx) -> CaseResult {
    let chat = cx.conversation()?;
    let words = ["theremin", "sextant", "zeppelin", "harpsichord", "trebuchet"];
    chat.learn_all(&words).await?;
    chat.knows_only(&words, &[]).await
}

async fn sync_at_once(cx: &Cx) -> CaseResult {
    if !cx.capabilities().layer_sync {
        return Err(Stop::skipped("`layer_sync` is not advertised"));
    }
    let chat = cx.conversation()?;
    let status = chat.add(&user(&about("theremin")), AddOptions::default()).await?;
    check!(matches!(status, AddStatus::Done(_)), "with `layer_sync` an add was reported as {status:?}");
    chat.knows_only(&["theremin"], &[]).await
}

async fn names_its_facts(cx: &Cx) -> CaseResult {
    let chat = cx.conversation()?;
    chat.learn("sextant").await?;
    let before: BTreeSet<FactId> = chat.facts().await?.into_iter().map(|fact| fact.id).collect();
    let named = chat.add_and_wait(&user(&about("theremin")), AddOptions::default()).await?;
    chat.wait_for("theremin").await?;
    if !cx.capabilities().layer_ids {
        expect_eq!(named, [], "without `layer_ids`, the facts that are named");
        return Ok(());
    }
    let after: BTreeSet<FactId> = chat.facts().await?.into_iter().map(|fact| fact.id).collect();
    let new: BTreeSet<FactId> = after.difference(&before).cloned().collect();
    expect_eq!(named.len(), new.len(), "facts that are named, and facts that are new");
    expect_eq!(named.into_iter().collect::<BTreeSet<_>>(), new, "the facts that are named");
    Ok(())
}

async fn ids_are_new(cx: &Cx) -> CaseResult {
    let (chat, other) = (cx.conversation()?, cx.conversation()?);
    let words = ["theremin", "sextant", "zeppelin"];
    let mut ids = chat.learn_all(&words).await?;
    ids.extend(other.learn_all(&words).await?);
    let distinct: BTreeSet<&FactId> = ids.iter().collect();
    expect_eq!(distinct.len(), 6, "different ids of six facts in two scopes");
    Ok(())
}

async fn nothing_worth_keeping(cx: &Cx) -> CaseResult {
    let chat = cx.conversation()?;
    for nothing in ["...", "?!", "\u{2026}"] {
        let named = chat.add_and_wait(&user(nothing), AddOptions::default()).await?;
        let facts = chat.facts().await?;
        for id in named {
            check!(
                facts.iter().any(|fact| fact.id == id),
                "`{nothing}` was reported as stored under the id of a missing fact"
            );
        }
    }
    Ok(())
}

async fn again(cx: &Cx) -> CaseResult {
    let chat = cx.conversation()?;
    for _ in 0..3 {
        let named = chat.add_and_wait(&user(&about("theremin")), AddOptions::default()).await?;
        chat.wait_for("theremin").await?;
        let facts = chat.facts().await?;
        check!(
            named.iter().all(|id| facts.iter().any(|fact| fact.id == *id)),
            "said again, it was reported as stored under the id of a missing fact"
        );
    }
    chat.knows_only(&["theremin"], &[]).await
}

async fn other_roles(cx: &Cx) -> CaseResult {
    let chat = cx.conversation()?;
    let said = [
        Message::new(Role::System, "You are a helpful assistant."),
        Message::new(Role::User, about("theremin")),
        Message::new(Role::Tool, "{\"temperature\": 21}"),
        Message::new(Role::Assistant, "Noted."),
    ];
    chat.add_and_wait(&said, AddOptions::default()).await?;
    chat.wait_for("theremin").await?;
    chat.knows_only(&["theremin"], &[]).await
}

async fn blank_beside(cx: &Cx) -> CaseResult {
    let chat = cx.conversation()?;
    let said = [
        Message::new(Role::Assistant, ""),
        Message::new(Role::User, about("theremin")),
        Message::new(Role::User, " \n\t"),
    ];
    chat.add_and_wait(&said, AddOptions::default()).await?;
    chat.wait_for("theremin").await?;
    let blank = chat.facts().await?.into_iter().find(|fact| fact.memory.trim().is_empty());
    check!(blank.is_none(), "a blank message became a fact");
    Ok(())
}

async fn named_speaker(cx: &Cx) -> CaseResult {
    let chat = cx.conversation()?;
    let mut message = Message::new(Role::User, about("theremin"));
    message.name = Some("Zoë d'Arc, 2nd".to_owned());
    message.at = Some(cx.now());
    chat.add_and_wait(&[message], AddOptions::default()).await?;
    let id = chat.wait_for("theremin").await?;
    check!(chat.facts().await?.iter().any(|fact| fact.id == id && mentions(fact, "theremin")), "it is gone");
    Ok(())
}
