//! The same message again: one fact, and forgotten stays forgotten.

use memory_core::ErrorKind;
use memory_core::Timestamp;
use memory_core::layer::{AddOptions, AddStatus, Fact, FactId, Message, Role};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::conversation::{Conversation, about, mentions, user};

pub(crate) const CASES: &[Case] = &[
    case!("layer.again.one-fact", [Layer, LayerIdempotent], ["LAY-90"], |cx, chat: Conversation| {
        let message = [said("theremin", 1_000).with_name("Ann".into())];
        let first = chat.told(&message, AddOptions::default()).await?;
        expect_eq!((first.known, first.forgotten), (0, 0), "known and forgotten messages of a new one");
        for _ in 0..2 {
            let outcome = chat.told(&message, AddOptions::default()).await?;
            expect_eq!(named(&outcome.status), [], "facts that a message added again is said to have stored");
            expect_eq!(outcome.known, 1, "known messages");
        }
        expect_eq!(count(&chat, "theremin").await?, 1, "facts of one message");
    }),
    case!("layer.again.within-one-add", [Layer, LayerIdempotent], ["LAY-90"], |cx, chat: Conversation| {
        let twice = [said("theremin", 1_000), said("sextant", 1_000), said("theremin", 1_000)];
        let outcome = chat.told(&twice, AddOptions::default()).await?;
        expect_eq!(outcome.known, 1, "known messages");
        expect_eq!(count(&chat, "theremin").await?, 1, "facts of one message");
        expect_eq!(count(&chat, "sextant").await?, 1, "facts of the message between");
    }),
    case!("layer.again.at-once", [Layer, LayerIdempotent], ["LAY-90"], |cx, chat: Conversation| {
        let adds = (0..4).map(|_| {
            let chat = &chat;
            let add: crate::harness::executor::BoxFuture<'_, CaseResult> = Box::pin(async move {
                chat.told(&[said("theremin", 1_000)], AddOptions::default()).await.map(drop)
            });
            add
        });
        for told in cx.threads(adds.collect())? {
            told?;
        }
        if cx.capabilities().layer_sync {
            expect_eq!(count(&chat, "theremin").await?, 1, "facts of a message that four added at once");
        }
    }),
    case!("layer.again.by-id", [Layer, LayerIdempotent], ["LAY-90", "LAY-91"], |cx, chat: Conversation| {
        let with_id = |id: &str| [said("theremin", 1_000).with_id(id.into())];
        for id in ["m-1", "m-2", "m-1", "M-1"] {
            chat.told(&with_id(id), AddOptions::default()).await?;
        }
        expect_eq!(count(&chat, "theremin").await?, 3, "facts of three ids with the same words");
    }),
    case!("layer.again.different", [Layer, LayerIdempotent], ["LAY-91"], |cx, chat: Conversation| {
        let plain = Message::new(Role::User, about("theremin"));
        let mut assistant = plain.clone();
        assistant.role = Role::Assistant;
        let messages = [
            plain.clone(),
            assistant,
            plain.clone().with_name("Ann".into()),
            plain.clone().with_name("ann".into()),
            said("theremin", 1_000),
            said("theremin", 1_001),
        ];
        for message in &messages {
            let outcome = chat.told(std::slice::from_ref(message), AddOptions::default()).await?;
            expect_eq!(outcome.known, 0, "known messages, of one that differs");
        }
        expect_eq!(count(&chat, "theremin").await?, messages.len(), "facts of messages that differ");
    }),
    case!(
        "layer.again.id-with-other-words",
        [Layer, LayerIdempotent],
        ["LAY-92"],
        |cx, chat: Conversation| {
            let with_id = |word: &str| [said(word, 1_000).with_id("m-1".into())];
            chat.told(&with_id("theremin"), AddOptions::default()).await?;
            let first = chat.wait_for("theremin").await?;
            let outcome = chat.told(&with_id("sextant"), AddOptions::default()).await?;
            expect_eq!(outcome.different, [first], "facts whose id came with other words");
            expect_eq!(named(&outcome.status), [], "facts that were stored");
            chat.knows_only(&["theremin"], &["sextant"]).await?;
        }
    ),
    case!(
        "layer.again.replaces",
        [Layer, LayerSupersede, LayerIdempotent],
        ["LAY-103"],
        |cx, chat: Conversation| {
            let with_id = |word: &str| [said(word, 1_000).with_id("m-1".into())];
            chat.told(&with_id("theremin"), AddOptions::default()).await?;
            let first = chat.wait_for("theremin").await?;
            let replaces = AddOptions::default().with_supersedes(vec![first]);
            let refused = chat.tell(&with_id("sextant"), replaces.clone()).await;
            expect_kind!(refused, ErrorKind::Conflict, "other words of an id, without `again`");
            chat.knows_only(&["theremin"], &["sextant"]).await?;
            let outcome = chat.told(&with_id("sextant"), replaces.with_again(true)).await?;
            expect_eq!(outcome.different, [], "facts whose id came with other words");
            chat.wait_for("sextant").await?;
            chat.knows_only(&["sextant"], &["theremin"]).await?;
            let facts = chat.facts().await?;
            expect_eq!(facts.len(), 1, "facts that are listed");
            let outcome = chat.told(&with_id("sextant"), AddOptions::default()).await?;
            expect_eq!(outcome.known, 1, "known messages, of the new words");
            // Replaced words do not count as forgotten.
            for other in [said("theremin", 1_000).with_id("m-2".into()), said("theremin", 1_000)] {
                let outcome = chat.told(&[other], AddOptions::default()).await?;
                expect_eq!(outcome.forgotten, 0, "messages left out, of one with words that another lost");
            }
            expect_eq!(count(&chat, "theremin").await?, 2, "facts with words that another message lost");
        }
    ),
    case!(
        "layer.again.stays-forgotten",
        [Layer, LayerForget, LayerIdempotent],
        ["LAY-93"],
        |cx, chat: Conversation| {
            for message in [said("theremin", 1_000), said("theremin", 2_000).with_id("m-1".into())] {
                let message = [message];
                chat.told(&message, AddOptions::default()).await?;
                let id = chat.wait_for("theremin").await?;
                chat.forget(&[id]).await?;
                let outcome = chat.told(&message, AddOptions::default()).await?;
                expect_eq!(outcome.forgotten, 1, "messages left out because they were forgotten");
                expect_eq!(named(&outcome.status), [], "facts that were stored");
                chat.knows_only(&[], &["theremin"]).await?;
            }
        }
    ),
    case!(
        "layer.again.all-stays-forgotten",
        [Layer, LayerForget, LayerIdempotent],
        ["LAY-93"],
        |cx, chat: Conversation| {
            let messages = [said("theremin", 1_000), said("sextant", 2_000)];
            chat.told(&messages, AddOptions::default()).await?;
            chat.forget_all().await?;
            let outcome = chat.told(&messages, AddOptions::default()).await?;
            expect_eq!(outcome.forgotten, 2, "messages left out because they were forgotten");
            chat.knows_only(&[], &["theremin", "sextant"]).await?;
        }
    ),
    case!(
        "layer.again.forgotten-beside-new",
        [Layer, LayerForget, LayerIdempotent],
        ["LAY-93"],
        |cx, chat: Conversation, other: Conversation| {
            chat.told(&[said("theremin", 1_000)], AddOptions::default()).await?;
            let id = chat.wait_for("theremin").await?;
            chat.forget(&[id]).await?;
            let messages = [said("sextant", 1_000), said("theremin", 1_000), said("zeppelin", 1_000)];
            let outcome = chat.told(&messages, AddOptions::default()).await?;
            expect_eq!(
                (named(&outcome.status).len(), outcome.forgotten),
                (2, 1),
                "facts stored, and left out"
            );
            chat.knows_only(&["sextant", "zeppelin"], &["theremin"]).await?;
            // Forgetting affects only its own scope.
            other.told(&messages, AddOptions::default()).await?;
            other.knows_only(&["sextant", "zeppelin", "theremin"], &[]).await?;
        }
    ),
    case!(
        "layer.again.asked-for",
        [Layer, LayerForget, LayerIdempotent],
        ["LAY-93", "LAY-35"],
        |cx, chat: Conversation| {
            let message = [said("theremin", 1_000)];
            chat.told(&message, AddOptions::default()).await?;
            chat.forget_all().await?;
            let again = || AddOptions::default().with_again(true);
            for expected in [(1, 0), (0, 1)] {
                let outcome = chat.told(&message, again()).await?;
                expect_eq!(
                    (named(&outcome.status).len(), outcome.known),
                    expected,
                    "facts stored, and known"
                );
            }
            chat.told(&user(&about("sextant")), AddOptions::default()).await?;
            chat.knows_only(&["theremin", "sextant"], &[]).await?;
            // Words that were added again on purpose are no longer forgotten, whoever says them.
            let lathe = |id: &str| [Message::new(Role::User, about("lathe")).with_id(id.into())];
            chat.told(&lathe("m-1"), AddOptions::default()).await?;
            let id = chat.wait_for("lathe").await?;
            chat.forget(&[id]).await?;
            chat.told(&lathe("m-1"), again()).await?;
            let outcome = chat.told(&lathe("m-2"), AddOptions::default()).await?;
            expect_eq!(
                outcome.forgotten,
                0,
                "messages left out, of one with words that were asked for again"
            );
            expect_eq!(count(&chat, "lathe").await?, 2, "facts with words that were asked for again");
        }
    ),
    case!("layer.order.as-said", [Layer], ["LAY-43"], |cx, chat: Conversation| {
        let words = ["theremin", "sextant", "zeppelin", "harpsichord", "trebuchet", "astrolabe"];
        let (first, rest) = words.split_at(3);
        let messages: Vec<Message> = first.iter().map(|word| Message::new(Role::User, about(word))).collect();
        chat.told(&messages, AddOptions::default()).await?;
        for word in rest {
            chat.told(&user(&about(word)), AddOptions::default()).await?;
        }
        let facts: Vec<Fact> = chat.facts().await?;
        let orders: Vec<u64> = facts.iter().filter_map(|fact| fact.order).collect();
        if orders.is_empty() {
            return Ok(());
        }
        check!(
            orders.is_sorted_by(|a, b| a < b),
            "the listing is not in the order that it states: {orders:?}"
        );
        let told: Vec<Option<&str>> =
            facts.iter().map(|fact| words.into_iter().find(|word| mentions(fact, word))).collect();
        expect_eq!(told, words.map(Some), "the facts in their order");
    }),
];

fn said(word: &str, at: i64) -> Message {
    Message::new(Role::User, about(word)).with_at(Timestamp::from_millis_clamped(at))
}

async fn count(chat: &Conversation<'_>, word: &str) -> CaseResult<usize> {
    Ok(chat.facts().await?.iter().filter(|fact| mentions(fact, word)).count())
}

fn named(status: &AddStatus) -> &[FactId] {
    match status {
        AddStatus::Done(ids) => ids,
        _ => &[],
    }
}
