//! Corrections and lifetimes: what held, and until when.

use std::time::Duration;

use memory_core::layer::{AddOptions, Fact, FactId, Message, RecallQuery, Role};
use memory_core::{ErrorKind, Timestamp, Ttl};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::conversation::{Conversation, about, mentions, user};

pub(crate) const CASES: &[Case] = &[
    case!("layer.correct.replaces", [Layer, LayerSupersede], ["LAY-85"], |cx, chat: Conversation| {
        let old = carl(&chat).await?;
        chat.told(&user(&about("theremin")), AddOptions::default()).await?;
        chat.told(&boss("Dora", SINCE), corrects(&[old])).await?;
        chat.wait_for("Dora").await?;
        let found = asked(&chat, None).await?;
        check!(
            found.first().is_some_and(|fact| mentions(fact, "Dora")),
            "the correction is not recalled first"
        );
        check!(
            !found.iter().any(|fact| mentions(fact, "Carl")),
            "what was corrected is recalled all the same"
        );
        chat.knows_only(&["theremin"], &[]).await?;
    }),
    case!("layer.correct.keeps-history", [Layer, LayerSupersede], ["LAY-85"], |cx, chat: Conversation| {
        let old = carl(&chat).await?;
        chat.told(&boss("Dora", SINCE), corrects(std::slice::from_ref(&old))).await?;
        let new = chat.wait_for("Dora").await?;
        let facts = chat.facts().await?;
        let kept = expect_some!(facts.iter().find(|fact| fact.id == old), "what was corrected is not listed");
        expect_eq!(kept.superseded_by, Some(new.clone()), "the fact that corrects it");
        expect_eq!(kept.valid_to, Some(at(SINCE)), "until when it held");
        let correction =
            expect_some!(facts.iter().find(|fact| fact.id == new), "the correction is not listed");
        expect_eq!(
            (&correction.superseded_by, correction.valid_to),
            (&None, None),
            "the end of the correction"
        );
    }),
    case!("layer.correct.unknown", [Layer, LayerSupersede], ["LAY-86"], |cx, chat: Conversation| {
        let old = carl(&chat).await?;
        let mut strange = vec![FactId::new("00000000-0000-4000-8000-000000000000")?, FactId::new("*%")?];
        if cx.capabilities().layer_forget {
            let gone = chat.learn("theremin").await?;
            chat.forget(std::slice::from_ref(&gone)).await?;
            strange.push(gone);
        }
        for id in strange {
            let add = chat.tell(&boss("Dora", SINCE), corrects(&[id])).await;
            expect_kind!(add, ErrorKind::NotFound, "a correction of a fact that is not there");
        }
        chat.knows_only(&["Carl"], &["Dora"]).await?;
        check!(
            chat.facts().await?.iter().all(|fact| fact.id != old || fact.valid_to.is_none()),
            "it was ended"
        );
    }),
    case!(
        "layer.correct.of-another-scope",
        [Layer, LayerSupersede],
        ["LAY-86", "LAY-50"],
        |cx, chat: Conversation, other: Conversation| {
            let old = carl(&chat).await?;
            other.learn("theremin").await?;
            let add = other.tell(&boss("Dora", SINCE), corrects(&[old])).await;
            expect_kind!(add, ErrorKind::NotFound, "a correction of another scope's fact");
            chat.knows_only(&["Carl"], &["Dora"]).await?;
            other.knows_only(&["theremin"], &["Dora"]).await?;
        }
    ),
    case!(
        "layer.correct.one-unknown-of-two",
        [Layer, LayerSupersede],
        ["LAY-86"],
        |cx, chat: Conversation| {
            let old = carl(&chat).await?;
            let add = chat.tell(&boss("Dora", SINCE), corrects(&[old, FactId::new("nothing")?])).await;
            expect_kind!(add, ErrorKind::NotFound, "a correction of a fact and of nothing");
            let found = asked(&chat, None).await?;
            check!(found.iter().any(|fact| mentions(fact, "Carl")), "half of a refused correction was done");
            chat.knows_only(&["Carl"], &["Dora"]).await?;
        }
    ),
    case!("layer.correct.as-of", [Layer, LayerSupersede], ["LAY-87"], |cx, chat: Conversation| {
        let old = carl(&chat).await?;
        chat.told(&boss("Dora", SINCE), corrects(&[old])).await?;
        chat.wait_for("Dora").await?;
        let held =
            |facts: Vec<Fact>| ["Carl", "Dora"].map(|name| facts.iter().any(|fact| mentions(fact, name)));
        for (time, expected) in [
            (BEFORE - 1, [false, false]),
            (BEFORE, [true, false]),
            (SINCE - 1, [true, false]),
            (SINCE, [false, true]),
            (SINCE + 1_000, [false, true]),
        ] {
            expect_eq!(
                held(asked(&chat, Some(time)).await?),
                expected,
                "whether Carl and Dora held at {time}"
            );
        }
    }),
    case!("layer.correct.twice", [Layer, LayerSupersede], ["LAY-88"], |cx, chat: Conversation| {
        let old = carl(&chat).await?;
        chat.told(&boss("Dora", SINCE), corrects(std::slice::from_ref(&old))).await?;
        let new = chat.wait_for("Dora").await?;
        let add = chat.tell(&boss("Emil", SINCE + 1), corrects(std::slice::from_ref(&old))).await;
        expect_kind!(add, ErrorKind::Conflict, "a second correction of the same fact");
        chat.knows_only(&["Dora"], &["Emil"]).await?;
        chat.told(&boss("Emil", SINCE + 1), corrects(&[new])).await?;
        chat.wait_for("Emil").await?;
        let found = asked(&chat, None).await?;
        check!(
            found.iter().any(|fact| mentions(fact, "Emil"))
                && !found.iter().any(|fact| mentions(fact, "Carl") || mentions(fact, "Dora")),
            "after a correction of the correction, earlier ones are recalled"
        );
    }),
    case!(
        "layer.correct.again",
        [Layer, LayerSupersede, LayerIdempotent],
        ["LAY-88", "LAY-90"],
        |cx, chat: Conversation| {
            let old = carl(&chat).await?;
            for _ in 0..2 {
                chat.told(&boss("Dora", SINCE), corrects(std::slice::from_ref(&old))).await?;
            }
            // Said before it was known to be a correction.
            let other = cx.conversation()?;
            let old = carl(&other).await?;
            other.told(&boss("Dora", SINCE), AddOptions::default()).await?;
            let outcome = other.told(&boss("Dora", SINCE), corrects(&[old])).await?;
            expect_eq!(outcome.known, 1, "known messages");
            for chat in [chat, other] {
                let found = asked(&chat, None).await?;
                check!(!found.iter().any(|fact| mentions(fact, "Carl")), "what was corrected is recalled");
                let named = chat.facts().await?.iter().filter(|fact| mentions(fact, "Dora")).count();
                expect_eq!(named, 1, "facts of one correction");
            }
        }
    ),
    case!(
        "layer.correct.back",
        [Layer, LayerSupersede, LayerIdempotent],
        ["LAY-98"],
        |cx, chat: Conversation| {
            let [carl, dora] = ["Carl", "Dora"].map(|name| user(&format!("My boss is {name}")));
            chat.told(&carl, AddOptions::default()).await?;
            let first = chat.wait_for("Carl").await?;
            chat.told(&dora, corrects(std::slice::from_ref(&first))).await?;
            let second = chat.wait_for("Dora").await?;
            cx.advance_ms(1_000);
            let outcome = chat.told(&carl, corrects(std::slice::from_ref(&second))).await?;
            expect_eq!(outcome.known, 0, "known messages, of one that holds again");
            holds_alone(&chat, "Carl", "Dora").await?;
            let facts = chat.facts().await?;
            let ended = |id: &FactId| facts.iter().any(|fact| fact.id == *id && fact.superseded_by.is_some());
            check!(ended(&first) && ended(&second), "a fact that was corrected has no end any more");
            let outcome = chat.told(&carl, AddOptions::default()).await?;
            expect_eq!(outcome.known, 1, "known messages, of one that holds");
            expect_eq!(chat.facts().await?.len(), facts.len(), "facts, after what holds was said again");
            // And back once more.
            let third = expect_some!(held(&facts).next(), "no fact holds");
            chat.told(&dora, corrects(std::slice::from_ref(&third.id))).await?;
            holds_alone(&chat, "Dora", "Carl").await?;
        }
    ),
    case!(
        "layer.correct.said-anew",
        [Layer, LayerSupersede, LayerIdempotent],
        ["LAY-98"],
        |cx, chat: Conversation| {
            let carl = user("My boss is Carl");
            chat.told(&carl, AddOptions::default()).await?;
            let first = chat.wait_for("Carl").await?;
            chat.told(&user("My boss is Dora"), corrects(&[first])).await?;
            chat.wait_for("Dora").await?;
            // It is not marked as a correction, so it is not dropped.
            chat.told(&carl, AddOptions::default()).await?;
            let found = asked(&chat, None).await?;
            for name in ["Carl", "Dora"] {
                check!(found.iter().any(|fact| mentions(fact, name)), "`{name}` is not recalled");
            }
            if cx.capabilities().layer_forget {
                let facts = chat.facts().await?;
                let anew = expect_some!(held(&facts).find(|fact| mentions(fact, "Carl")), "no fact holds");
                chat.forget(std::slice::from_ref(&anew.id)).await?;
                let outcome = chat.told(&carl, AddOptions::default()).await?;
                expect_eq!(outcome.forgotten, 1, "messages left out, of one that was forgotten");
            }
        }
    ),
    case!(
        "layer.correct.delivered-again",
        [Layer, LayerSupersede, LayerIdempotent],
        ["LAY-90", "LAY-98"],
        |cx, chat: Conversation, other: Conversation| {
            let by_id = [Message::new(Role::User, "My boss is Carl").with_id("m-1".into())];
            for (chat, carl) in [(chat, boss("Carl", BEFORE)), (other, by_id)] {
                chat.told(&carl, AddOptions::default()).await?;
                let first = chat.wait_for("Carl").await?;
                chat.told(&boss("Dora", SINCE), corrects(&[first])).await?;
                let second = chat.wait_for("Dora").await?;
                let outcome = chat.told(&carl, AddOptions::default()).await?;
                expect_eq!(outcome.known, 1, "known messages, of one delivered twice");
                let add = chat.tell(&carl, corrects(&[second])).await;
                expect_kind!(add, ErrorKind::Conflict, "a correction by what it was corrected with");
                holds_alone(&chat, "Dora", "Carl").await?;
                expect_eq!(chat.facts().await?.len(), 2, "facts");
            }
        }
    ),
    case!(
        "layer.correct.left-out",
        [Layer, LayerSupersede, LayerIdempotent],
        ["LAY-86", "LAY-99"],
        |cx, chat: Conversation| {
            let old = carl(&chat).await?;
            let with_id = |text: &str| [Message::new(Role::User, text).with_id("m-1".into())];
            chat.told(&with_id(&about("theremin")), AddOptions::default()).await?;
            let theremin = chat.wait_for("theremin").await?;
            let dora = with_id("My boss is Dora");
            let add = chat.tell(&dora, corrects(&[FactId::new("nothing")?])).await;
            expect_kind!(add, ErrorKind::NotFound, "a correction of nothing, under another's id");
            let add = chat.tell(&dora, corrects(std::slice::from_ref(&old))).await;
            expect_kind!(add, ErrorKind::Conflict, "a correction under another's id");
            if cx.capabilities().layer_forget {
                chat.forget(&[theremin]).await?;
                let add = chat.tell(&with_id(&about("theremin")), corrects(std::slice::from_ref(&old))).await;
                expect_kind!(add, ErrorKind::Conflict, "a correction by what was forgotten");
            }
            holds_alone(&chat, "Carl", "Dora").await?;
        }
    ),
    case!(
        "layer.correct.successor-gone",
        [Layer, LayerForget, LayerSupersede],
        ["LAY-100"],
        |cx, chat: Conversation| {
            let old = carl(&chat).await?;
            chat.told(&boss("Dora", SINCE), corrects(std::slice::from_ref(&old))).await?;
            let new = chat.wait_for("Dora").await?;
            chat.forget(&[new]).await?;
            check!(
                !asked(&chat, None).await?.iter().any(|fact| mentions(fact, "Carl")),
                "what was corrected holds again, because its correction was forgotten"
            );
            chat.told(&boss("Emil", SINCE + 1), corrects(std::slice::from_ref(&old))).await?;
            let last = chat.wait_for("Emil").await?;
            holds_alone(&chat, "Emil", "Carl").await?;
            let facts = chat.facts().await?;
            let kept =
                expect_some!(facts.iter().find(|fact| fact.id == old), "what was corrected is not listed");
            expect_eq!(kept.superseded_by, Some(last), "the fact that corrects it");
            expect_eq!(kept.valid_to, Some(at(SINCE + 1)), "until when it held");
        }
    ),
    case!("layer.expiry.ends", [Layer, LayerExpiry], ["LAY-89"], |cx, chat: Conversation| {
        chat.told(&user(&about("theremin")), for_a_second()).await?;
        chat.told(&user(&about("sextant")), AddOptions::default()).await?;
        chat.wait_for("sextant").await?;
        chat.knows_only(&["theremin", "sextant"], &[]).await?;
        cx.advance_ms(999);
        chat.knows_only(&["theremin", "sextant"], &[]).await?;
        cx.advance_ms(1);
        chat.knows_only(&["sextant"], &["theremin"]).await?;
    }),
    case!("layer.expiry.said-again", [Layer, LayerExpiry], ["LAY-89"], |cx, chat: Conversation| {
        chat.told(&user(&about("theremin")), for_a_second()).await?;
        cx.advance_ms(1_000);
        chat.told(&user(&about("theremin")), AddOptions::default()).await?;
        chat.wait_for("theremin").await?;
        cx.advance_ms(10_000);
        chat.knows_only(&["theremin"], &[]).await?;
    }),
    case!(
        "layer.expiry.lasts-longer",
        [Layer, LayerExpiry, LayerIdempotent],
        ["LAY-89", "LAY-104"],
        |cx, chat: Conversation| {
            let three_seconds = || AddOptions::default().with_ttl(Ttl::After(Duration::from_secs(3)));
            for word in ["theremin", "sextant", "zither"] {
                chat.told(&user(&about(word)), for_a_second()).await?;
            }
            chat.told(&user(&about("lathe")), three_seconds()).await?;
            chat.wait_for("lathe").await?;
            chat.knows_only(&["theremin", "sextant", "zither", "lathe"], &[]).await?;
            cx.advance_ms(500);
            let again = [
                ("theremin", AddOptions::default()),
                ("sextant", three_seconds()),
                ("lathe", for_a_second()),
            ];
            for (word, options) in again {
                let outcome = chat.told(&user(&about(word)), options).await?;
                expect_eq!(outcome.known, 1, "known messages, of one about a {word} added again");
            }
            cx.advance_ms(2_499);
            chat.knows_only(&["theremin", "sextant", "lathe"], &["zither"]).await?;
            cx.advance_ms(1);
            chat.knows_only(&["theremin", "sextant"], &["lathe"]).await?;
            cx.advance_ms(500);
            chat.knows_only(&["theremin"], &["sextant"]).await?;
        }
    ),
    case!(
        "layer.expiry.of-the-first",
        [Layer, LayerExpiry, LayerSupersede, LayerIdempotent],
        ["LAY-90", "LAY-98"],
        |cx, chat: Conversation| {
            let carl = user("My boss is Carl");
            chat.told(&carl, for_a_second()).await?;
            let first = chat.wait_for("Carl").await?;
            chat.told(&user("My boss is Dora"), corrects(&[first])).await?;
            chat.told(&carl, AddOptions::default()).await?;
            cx.advance_ms(1_000);
            let outcome = chat.told(&carl, AddOptions::default()).await?;
            expect_eq!(outcome.known, 1, "known messages, of one that holds, after an earlier one expired");
            let facts = chat.facts().await?;
            expect_eq!(facts.iter().filter(|fact| mentions(fact, "Carl")).count(), 1, "facts about Carl");
        }
    ),
];

/// Times of the story, in milliseconds.
const BEFORE: i64 = 1_000;
const SINCE: i64 = 5_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis_clamped(millis)
}

fn boss(name: &str, millis: i64) -> [Message; 1] {
    [Message::new(Role::User, format!("My boss is {name}")).with_at(at(millis))]
}

fn corrects(ids: &[FactId]) -> AddOptions {
    AddOptions::default().with_supersedes(ids.to_vec())
}

/// Says that the boss is Carl, and returns the fact.
async fn carl(chat: &Conversation<'_>) -> CaseResult<FactId> {
    chat.told(&boss("Carl", BEFORE), AddOptions::default()).await?;
    chat.wait_for("Carl").await
}

/// Facts that nothing superseded.
fn held(facts: &[Fact]) -> impl Iterator<Item = &Fact> {
    facts.iter().filter(|fact| fact.superseded_by.is_none())
}

/// Fails the case unless the one is recalled and the other is not.
async fn holds_alone(chat: &Conversation<'_>, name: &str, other: &str) -> CaseResult {
    let found = asked(chat, None).await?;
    check!(found.iter().any(|fact| mentions(fact, name)), "`{name}`, which holds, is not recalled");
    check!(
        !found.iter().any(|fact| mentions(fact, other)),
        "`{other}`, which was corrected, is recalled all the same"
    );
    Ok(())
}

async fn asked(chat: &Conversation<'_>, as_of: Option<i64>) -> CaseResult<Vec<Fact>> {
    let mut query = RecallQuery::new("Who is my boss?");
    query.as_of = as_of.map(at);
    Ok(chat.recall_with(query).await?)
}

fn for_a_second() -> AddOptions {
    AddOptions::default().with_ttl(Ttl::After(Duration::from_secs(1)))
}
