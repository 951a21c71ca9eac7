//! Confirmations: when a fact was last said to hold.

use std::time::Duration;

use memory_core::layer::{AddOptions, Fact, FactId, Message, RecallQuery, Role};
use memory_core::{ErrorKind, Timestamp, Ttl};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::conversation::{Conversation, about, mentions, user};

pub(crate) const CASES: &[Case] = &[
    case!("layer.confirm.moves", [Layer, LayerConfirm], ["LAY-94"], |cx, chat: Conversation| {
        let carl = boss(&chat, "Carl", SAID).await?;
        let other = chat.learn("theremin").await?;
        expect_eq!(confirmed(&chat, &carl).await?, Some(at(SAID)), "the time of what was only said");
        expect_eq!(confirmed(&chat, &other).await?, Some(cx.now()), "the time of what has no time");
        for (time, expected) in [(LATER, LATER), (LATER - 1, LATER), (LATER + 1, LATER + 1)] {
            chat.told(&still(Some(time)), confirms(&[&carl])).await?;
            expect_eq!(confirmed(&chat, &carl).await?, Some(at(expected)), "after one at {time}");
        }
        cx.advance_ms(5);
        chat.told(&still(None), confirms(&[&carl, &other])).await?;
        for id in [&carl, &other] {
            expect_eq!(confirmed(&chat, id).await?, Some(cx.now()), "after a confirmation without a time");
        }
    }),
    case!("layer.confirm.any-role", [Layer, LayerConfirm], ["LAY-94"], |cx, chat: Conversation| {
        let carl = boss(&chat, "Carl", SAID).await?;
        for (time, role) in [(LATER, Role::Tool), (LATER + 1, Role::System)] {
            let message = [Message::new(role, "boss: Carl").with_at(at(time))];
            chat.told(&message, confirms(&[&carl])).await?;
            expect_eq!(confirmed(&chat, &carl).await?, Some(at(time)), "after a message of {role:?}");
            let strange = FactId::new("00000000-0000-4000-8000-000000000000")?;
            let add = chat.tell(&message, confirms(&[&strange])).await;
            expect_kind!(add, ErrorKind::NotFound, "a confirmation of a fact that is not there");
        }
    }),
    case!(
        "layer.confirm.unknown",
        [Layer, LayerConfirm],
        ["LAY-94", "LAY-50"],
        |cx, chat: Conversation, other: Conversation| {
            let carl = boss(&chat, "Carl", SAID).await?;
            let foreign = other.learn("theremin").await?;
            for strange in
                [FactId::new("00000000-0000-4000-8000-000000000000")?, FactId::new("*%")?, foreign.clone()]
            {
                let add = chat.tell(&still(Some(LATER)), confirms(&[&carl, &strange])).await;
                expect_kind!(add, ErrorKind::NotFound, "a confirmation of a fact that is not there");
            }
            chat.knows_only(&["Carl"], &["true"]).await?;
            expect_eq!(confirmed(&chat, &carl).await?, Some(at(SAID)), "after a refused confirmation");
            expect_eq!(confirmed(&other, &foreign).await?, Some(cx.now()), "another scope's fact");
        }
    ),
    case!(
        "layer.confirm.corrected",
        [Layer, LayerConfirm, LayerSupersede],
        ["LAY-94"],
        |cx, chat: Conversation| {
            let carl = boss(&chat, "Carl", SAID).await?;
            let dora = [Message::new(Role::User, "My boss is Dora").with_at(at(LATER))];
            chat.told(&dora, AddOptions::default().with_supersedes(vec![carl.clone()])).await?;
            chat.wait_for("Dora").await?;
            let add = chat.tell(&still(Some(LATER + 1)), confirms(&[&carl])).await;
            expect_kind!(add, ErrorKind::Conflict, "a confirmation of what was corrected");
            expect_eq!(confirmed(&chat, &carl).await?, Some(at(SAID)), "after a refused confirmation");
            chat.knows_only(&["Dora"], &["true"]).await?;
        }
    ),
    case!(
        "layer.confirm.successor-gone",
        [Layer, LayerConfirm, LayerForget, LayerSupersede],
        ["LAY-100"],
        |cx, chat: Conversation, other: Conversation| {
            let dora = [Message::new(Role::User, "My boss is Dora").with_at(at(LATER))];
            for (chat, expires) in [(chat, false), (other, true)] {
                let carl = boss(&chat, "Carl", SAID).await?;
                let mut corrects = AddOptions::default().with_supersedes(vec![carl.clone()]);
                if expires && cx.capabilities().layer_expiry {
                    corrects = corrects.with_ttl(Ttl::After(Duration::from_secs(1)));
                }
                chat.told(&dora, corrects).await?;
                let new = chat.wait_for("Dora").await?;
                if expires && cx.capabilities().layer_expiry {
                    cx.advance_ms(1_000);
                } else {
                    chat.forget(&[new]).await?;
                }
                chat.told(&still(Some(LATER + 1)), confirms(&[&carl])).await?;
                expect_eq!(confirmed(&chat, &carl).await?, Some(at(LATER + 1)), "after its confirmation");
                let found = chat.recall_with(RecallQuery::new("Who is my boss?")).await?;
                let held = expect_some!(
                    found.iter().find(|fact| fact.id == carl),
                    "what was confirmed is not recalled"
                );
                expect_eq!((&held.superseded_by, held.valid_to), (&None, None), "its end");
            }
        }
    ),
    case!(
        "layer.confirm.said-again",
        [Layer, LayerConfirm, LayerIdempotent],
        ["LAY-95"],
        |cx, chat: Conversation| {
            let named = [Message::new(Role::User, about("sextant")).with_id("7".to_owned())];
            let dated = [Message::new(Role::User, about("zither")).with_at(at(SAID))];
            let plain = user(&about("theremin"));
            let stored = cx.now();
            for messages in [plain.as_slice(), &named, &dated] {
                chat.told(messages, AddOptions::default()).await?;
            }
            let ids = [
                chat.wait_for("theremin").await?,
                chat.wait_for("sextant").await?,
                chat.wait_for("zither").await?,
            ];
            cx.advance_ms(1_000);
            for messages in [plain.as_slice(), &named, &dated] {
                let outcome = chat.told(messages, AddOptions::default()).await?;
                expect_eq!(outcome.known, 1, "known messages");
            }
            for (id, expected) in ids.iter().zip([cx.now(), stored, at(SAID)]) {
                expect_eq!(confirmed(&chat, id).await?, Some(expected), "when it was confirmed");
            }
        }
    ),
    case!("layer.confirm.asked", [Layer, LayerConfirm], ["LAY-96"], |cx, chat: Conversation| {
        let carl = boss(&chat, "Carl", SAID).await?;
        let found = |facts: Vec<Fact>| facts.iter().any(|fact| mentions(fact, "Carl"));
        for (since, expected) in [(SAID, false), (SAID + 1, true), (LATER, true)] {
            expect_eq!(found(unconfirmed(&chat, since).await?), expected, "not confirmed since {since}");
        }
        chat.told(&still(Some(LATER)), confirms(&[&carl])).await?;
        for (since, expected) in [(SAID + 1, false), (LATER, false), (LATER + 1, true)] {
            expect_eq!(found(unconfirmed(&chat, since).await?), expected, "then not confirmed since {since}");
        }
        check!(found(chat.recall("Who is my boss?").await?), "a confirmed fact is not recalled");
    }),
];

/// Times of the story, in milliseconds.
const SAID: i64 = 1_000;
const LATER: i64 = 5_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis_clamped(millis)
}

fn still(millis: Option<i64>) -> [Message; 1] {
    let mut message = Message::new(Role::User, "That is true today");
    message.at = millis.map(at);
    [message]
}

fn confirms(ids: &[&FactId]) -> AddOptions {
    AddOptions::default().with_confirms(ids.iter().copied().cloned().collect())
}

/// Says who the boss is, and returns the fact.
async fn boss(chat: &Conversation<'_>, name: &str, millis: i64) -> CaseResult<FactId> {
    let said = [Message::new(Role::User, format!("My boss is {name}")).with_at(at(millis))];
    chat.told(&said, AddOptions::default()).await?;
    chat.wait_for(name).await
}

async fn confirmed(chat: &Conversation<'_>, id: &FactId) -> CaseResult<Option<Timestamp>> {
    let facts = chat.facts().await?;
    Ok(expect_some!(facts.iter().find(|fact| fact.id == *id), "the fact is not listed").confirmed_at)
}

async fn unconfirmed(chat: &Conversation<'_>, since: i64) -> CaseResult<Vec<Fact>> {
    Ok(chat.recall_with(RecallQuery::new("Who is my boss?").with_unconfirmed_since(at(since))).await?)
}
