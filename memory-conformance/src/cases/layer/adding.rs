//! Adding: messages are learned, and the reported status is true.

use std::collections::BTreeSet;

use memory_core::layer::{AddOptions, AddStatus, FactId, Message, Role};

use crate::case::{Case, case};
use crate::check::{Stop, check, expect_eq};
use crate::cx::conversation::{Conversation, about, mentions, user};

pub(crate) const CASES: &[Case] = &[
    case!("layer.add.is-learned", [Layer], ["LAY-1"], |cx, chat: Conversation| {
        chat.learn("theremin").await?;
        chat.knows_only(&["theremin"], &[]).await?;
    }),
    case!("layer.add.several-messages", [Layer], ["LAY-1"], |cx, chat: Conversation| {
        let said = [
            Message::new(Role::User, about("theremin")),
            Message::new(Role::Assistant, "Good to know."),
            Message::new(Role::User, about("sextant")),
        ];
        chat.add_and_wait(&said, AddOptions::default()).await?;
        chat.wait_for("theremin").await?;
        chat.wait_for("sextant").await?;
        chat.knows_only(&["theremin", "sextant"], &[]).await?;
    }),
    case!("layer.add.many-adds", [Layer], ["LAY-1", "LAY-9"], |cx, chat: Conversation| {
        let words = ["theremin", "sextant", "zeppelin", "harpsichord", "trebuchet"];
        chat.learn_all(&words).await?;
        chat.knows_only(&words, &[]).await?;
    }),
    case!("layer.add.sync-at-once", [Layer], ["LAY-2"], |cx| {
        if !cx.capabilities().layer_sync {
            return Err(Stop::skipped("`layer_sync` is not advertised"));
        }
        let chat = cx.conversation()?;
        let status = chat.add(&user(&about("theremin")), AddOptions::default()).await?;
        check!(matches!(status, AddStatus::Done(_)), "with `layer_sync` an add was reported as {status:?}");
        chat.knows_only(&["theremin"], &[]).await?;
    }),
    case!("layer.add.names-its-facts", [Layer], ["LAY-4"], |cx, chat: Conversation| {
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
    }),
    case!("layer.add.ids-are-new", [Layer], ["LAY-4"], |cx, chat: Conversation, other: Conversation| {
        let words = ["theremin", "sextant", "zeppelin"];
        let mut ids = chat.learn_all(&words).await?;
        ids.extend(other.learn_all(&words).await?);
        let distinct: BTreeSet<&FactId> = ids.iter().collect();
        expect_eq!(distinct.len(), 6, "different ids of six facts in two scopes");
    }),
    case!("layer.add.nothing-worth-keeping", [Layer], ["LAY-5"], |cx, chat: Conversation| {
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
    }),
    case!("layer.add.again", [Layer], ["LAY-9"], |cx, chat: Conversation| {
        for _ in 0..3 {
            let named = chat.add_and_wait(&user(&about("theremin")), AddOptions::default()).await?;
            chat.wait_for("theremin").await?;
            let facts = chat.facts().await?;
            check!(
                named.iter().all(|id| facts.iter().any(|fact| fact.id == *id)),
                "said again, it was reported as stored under the id of a missing fact"
            );
        }
        chat.knows_only(&["theremin"], &[]).await?;
    }),
    case!("layer.add.other-roles", [Layer], ["LAY-10"], |cx, chat: Conversation| {
        let said = [
            Message::new(Role::System, "You are a helpful assistant."),
            Message::new(Role::User, about("theremin")),
            Message::new(Role::Tool, "{\"temperature\": 21}"),
            Message::new(Role::Assistant, "Noted."),
        ];
        chat.add_and_wait(&said, AddOptions::default()).await?;
        chat.wait_for("theremin").await?;
        chat.knows_only(&["theremin"], &[]).await?;
    }),
    case!("layer.add.blank-beside", [Layer], ["LAY-10"], |cx, chat: Conversation| {
        let said = [
            Message::new(Role::Assistant, ""),
            Message::new(Role::User, about("theremin")),
            Message::new(Role::User, " \n\t"),
        ];
        chat.add_and_wait(&said, AddOptions::default()).await?;
        chat.wait_for("theremin").await?;
        let blank = chat.facts().await?.into_iter().find(|fact| fact.memory.trim().is_empty());
        check!(blank.is_none(), "a blank message became a fact");
    }),
    case!("layer.add.named-speaker", [Layer], ["LAY-10"], |cx, chat: Conversation| {
        let mut message = Message::new(Role::User, about("theremin"));
        message.name = Some("Zoë d'Arc, 2nd".to_owned());
        message.at = Some(cx.now());
        chat.add_and_wait(&[message], AddOptions::default()).await?;
        let id = chat.wait_for("theremin").await?;
        check!(
            chat.facts().await?.iter().any(|fact| fact.id == id && mentions(fact, "theremin")),
            "it is gone"
        );
    }),
];
