//! Forgetting: only these facts, or all.

use memory_core::Scope;
use memory_core::ScopeKind;
use memory_core::layer::{AddOptions, FactId};

use crate::case::{Case, case};
use crate::check::{check, expect_eq};
use crate::cx::conversation::{Conversation, about, mentions, user};

pub(crate) const CASES: &[Case] = &[
    case!("layer.forget.ids", [Layer, LayerForget], ["LAY-30"], |cx, chat: Conversation| {
        let id = chat.learn("theremin").await?;
        let outcome = chat.forget(std::slice::from_ref(&id)).await?;
        expect_eq!(outcome.not_found, [], "ids that were not found");
        chat.knows_only(&[], &["theremin"]).await?;
        check!(chat.facts().await?.iter().all(|fact| fact.id != id), "a forgotten fact is listed");
    }),
    case!("layer.forget.others-stay", [Layer, LayerForget], ["LAY-30"], |cx, chat: Conversation| {
        let ids = chat.learn_all(&["theremin", "sextant", "zeppelin", "harpsichord"]).await?;
        chat.forget(ids.get(1..3).unwrap_or_default()).await?;
        chat.knows_only(&["theremin", "harpsichord"], &["sextant", "zeppelin"]).await?;
    }),
    case!("layer.forget.counts", [Layer, LayerForget], ["LAY-32", "LAY-31"], |cx, chat: Conversation| {
        let mut ids = chat.learn_all(&["theremin", "sextant", "zeppelin"]).await?;
        let (stranger, kept) = (FactId::new("00000000-0000-4000-8000-00000000beef")?, ids.pop());
        ids.push(stranger.clone());
        let outcome = chat.forget(&ids).await?;
        expect_eq!(outcome.not_found, [stranger], "ids that were not found");
        if let Some(forgotten) = outcome.forgotten {
            expect_eq!(forgotten, 2, "facts that were forgotten");
        }
        let left: Vec<_> = chat.facts().await?.into_iter().map(|fact| Some(fact.id)).collect();
        expect_eq!(left, [kept], "the facts that are left");
        let outcome = chat.forget_all().await?;
        if let Some(forgotten) = outcome.forgotten {
            expect_eq!(forgotten, 1, "facts that were forgotten with the rest");
        }
    }),
    case!("layer.forget.unknown", [Layer, LayerForget], ["LAY-31"], |cx, chat: Conversation| {
        chat.learn("theremin").await?;
        let unknown = FactId::new("00000000-0000-4000-8000-000000000000")?;
        let outcome = chat.forget(std::slice::from_ref(&unknown)).await?;
        expect_eq!(outcome.not_found, [unknown], "an id that is unknown");
        check!(outcome.forgotten.is_none_or(|forgotten| forgotten == 0), "{outcome:?} for an unknown id");
        chat.knows_only(&["theremin"], &[]).await?;
    }),
    case!(
        "layer.forget.awkward-ids",
        [Layer, LayerForget],
        ["LAY-31", "LAY-8"],
        |cx, chat: Conversation, other: Conversation| {
            let id = chat.learn("theremin").await?;
            other.learn("sextant").await?;
            let long = "9".repeat(1_024);
            let spaced = format!(" {id}");
            let within = format!("../memories/{id}");
            let upper = id.as_str().to_uppercase();
            let mut awkward: Vec<&str> = vec![
                "**",
                "?user_id=*",
                "..",
                ".",
                "/",
                "../",
                "../../v1/memories",
                "a/b",
                "%2A",
                "%",
                "_",
                "é",
                "null",
                "batch-delete",
                "fact-*",
                "{\"user_id\":\"*\"}",
                &long,
                &spaced,
                &within,
            ];
            // An id in upper case may be the same id; without letters it certainly is.
            if upper != id.as_str() && id.as_str().parse::<u128>().is_err() && !is_uuid(id.as_str()) {
                awkward.push(&upper);
            }
            for text in awkward {
                let named = FactId::new(text)?;
                let outcome = chat.forget(std::slice::from_ref(&named)).await?;
                expect_eq!(outcome.not_found, [named], "the id `{text}`");
            }
            chat.knows_only(&["theremin"], &["sextant"]).await?;
            other.knows_only(&["sextant"], &["theremin"]).await?;
        }
    ),
    case!(
        "layer.forget.of-another-scope",
        [Layer, LayerForget],
        ["LAY-31", "LAY-50"],
        |cx, chat: Conversation, other: Conversation| {
            let same_id = cx.conversation_in(Scope { kind: ScopeKind::User, ..chat.scope.clone() })?;
            let id = chat.learn("theremin").await?;
            for stranger in [other, same_id] {
                let outcome = stranger.forget(std::slice::from_ref(&id)).await?;
                expect_eq!(outcome.not_found, std::slice::from_ref(&id), "another scope's id");
                check!(outcome.forgotten.is_none_or(|n| n == 0), "{outcome:?} for another scope's id");
            }
            chat.knows_only(&["theremin"], &[]).await?;
        }
    ),
    case!(
        "layer.forget.of-another-tenant",
        [Layer, LayerForget],
        ["LAY-31", "LAY-50"],
        |cx, chat: Conversation| {
            let other = cx.conversation_in(Scope { tenant: cx.other_tenant()?, ..chat.scope.clone() })?;
            let id = chat.learn("theremin").await?;
            other.learn("sextant").await?;
            let outcome = other.forget(std::slice::from_ref(&id)).await?;
            expect_eq!(outcome.not_found, [id], "another tenant's id");
            other.forget_all().await?;
            chat.knows_only(&["theremin"], &["sextant"]).await?;
        }
    ),
    case!(
        "layer.forget.own-among-others",
        [Layer, LayerForget],
        ["LAY-31", "LAY-30"],
        |cx, chat: Conversation, other: Conversation| {
            let (own, foreign) = (chat.learn("theremin").await?, other.learn("sextant").await?);
            let outcome = chat.forget(&[foreign.clone(), own]).await?;
            expect_eq!(outcome.not_found, [foreign], "ids that were not found");
            chat.knows_only(&[], &["theremin"]).await?;
            other.knows_only(&["sextant"], &[]).await?;
        }
    ),
    case!("layer.forget.all", [Layer, LayerForget], ["LAY-33"], |cx, chat: Conversation| {
        chat.learn_all(&["theremin", "sextant", "zeppelin"]).await?;
        let outcome = chat.forget_all().await?;
        expect_eq!(outcome.not_found, [], "ids not found although none were given");
        expect_eq!(chat.facts().await?, [], "facts after everything was forgotten");
        chat.knows_only(&[], &["theremin", "sextant", "zeppelin"]).await?;
    }),
    case!(
        "layer.forget.all-leaves-others",
        [Layer, LayerForget],
        ["LAY-33", "LAY-50"],
        |cx, chat: Conversation| {
            let others = [
                cx.conversation()?,
                cx.conversation_in(Scope { kind: ScopeKind::User, ..chat.scope.clone() })?,
                cx.conversation_in(Scope { kind: ScopeKind::Run, ..chat.scope.clone() })?,
                cx.conversation_in(Scope { tenant: cx.other_tenant()?, ..chat.scope.clone() })?,
            ];
            for other in &others {
                other.learn("sextant").await?;
            }
            chat.learn("theremin").await?;
            chat.forget_all().await?;
            chat.knows_only(&[], &["theremin"]).await?;
            for other in &others {
                other.knows_only(&["sextant"], &["theremin"]).await?;
            }
        }
    ),
    case!(
        "layer.forget.all-of-nothing",
        [Layer, LayerForget],
        ["LAY-33"],
        |cx, chat: Conversation, other: Conversation| {
            other.learn("sextant").await?;
            let outcome = chat.forget_all().await?;
            check!(
                outcome.forgotten.is_none_or(|forgotten| forgotten == 0),
                "{outcome:?} although there was nothing"
            );
            other.knows_only(&["sextant"], &[]).await?;
        }
    ),
    case!("layer.forget.again", [Layer, LayerForget], ["LAY-34"], |cx, chat: Conversation| {
        let id = chat.learn("theremin").await?;
        chat.learn("sextant").await?;
        chat.forget(std::slice::from_ref(&id)).await?;
        let outcome = chat.forget(std::slice::from_ref(&id)).await?;
        expect_eq!(outcome.not_found, [id], "an id that was forgotten before");
        check!(outcome.forgotten.is_none_or(|forgotten| forgotten == 0), "{outcome:?} the second time");
        chat.forget_all().await?;
        chat.forget_all().await?;
        chat.knows_only(&[], &["theremin", "sextant"]).await?;
    }),
    case!("layer.forget.learned-again", [Layer, LayerForget], ["LAY-35"], |cx, chat: Conversation| {
        let first = chat.learn("theremin").await?;
        let again = || AddOptions::default().with_again(true);
        chat.forget(std::slice::from_ref(&first)).await?;
        chat.add_and_wait(&user(&about("theremin")), again()).await?;
        chat.wait_for("theremin").await?;
        chat.knows_only(&["theremin"], &[]).await?;
        chat.forget_all().await?;
        chat.add_and_wait(&user(&about("theremin")), again()).await?;
        chat.wait_for("theremin").await?;
        let facts = chat.facts().await?;
        check!(facts.iter().any(|fact| mentions(fact, "theremin")), "it is not learned again");
    }),
];

fn is_uuid(id: &str) -> bool {
    id.len() == 36 && id.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}
