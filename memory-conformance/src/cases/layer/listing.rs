//! Listing: every fact once, page by page.

use std::collections::BTreeSet;

use memory_core::layer::{AddOptions, Fact, FactsQuery, Message, Role};
use memory_core::{ErrorKind, Scope, ScopeKind};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind, expect_some};
use crate::cx::conversation::{Conversation, about, mentions};

pub(crate) const CASES: &[Case] = &[
    case!("layer.facts.each-once", [Layer], ["LAY-40"], |cx, chat: Conversation| {
        chat.learn_all(&THINGS).await?;
        let all: BTreeSet<_> = chat.facts().await?.into_iter().map(|fact| fact.id).collect();
        for limit in [1, 2, 3, 100] {
            let listed = chat.pages(limit).await?.concat();
            let ids: BTreeSet<_> = listed.iter().map(|fact| fact.id.clone()).collect();
            expect_eq!(ids.len(), listed.len(), "different facts on pages of {limit}");
            expect_eq!(ids, all, "the facts on pages of {limit}");
            for thing in THINGS {
                check!(listed.iter().any(|fact| mentions(fact, thing)), "`{thing}` is on no page of {limit}");
            }
        }
    }),
    case!("layer.facts.page-size", [Layer], ["LAY-40"], |cx, chat: Conversation| {
        chat.learn_all(&THINGS).await?;
        for limit in 1..=4 {
            for page in chat.pages(limit).await? {
                check!(page.len() <= limit, "a page of {limit} has {} facts", page.len());
            }
        }
    }),
    case!("layer.facts.one-page", [Layer], ["LAY-40"], |cx, chat: Conversation| {
        let empty = chat.page(None, 10).await?;
        expect_eq!((empty.facts.len(), empty.next), (0, None), "the page of a scope that learned nothing");
        chat.learn_all(&["theremin", "sextant"]).await?;
        let page = chat.page(None, 10).await?;
        check!(page.facts.len() >= 2, "a page of 10 has {} of two facts", page.facts.len());
        expect_eq!(page.next, None, "the cursor of a page that has all");
    }),
    case!("layer.facts.foreign-cursor", [Layer], ["LAY-41"], |cx, chat: Conversation| {
        chat.learn_all(&["theremin", "sextant", "zeppelin"]).await?;
        let cursor = expect_some!(chat.page(None, 1).await?.next, "the cursor of the first of three facts");
        let others = [
            cx.conversation()?,
            cx.conversation_in(Scope { kind: ScopeKind::User, ..chat.scope.clone() })?,
            cx.conversation_in(Scope { tenant: cx.other_tenant()?, ..chat.scope.clone() })?,
        ];
        for other in others {
            other.learn("harpsichord").await?;
            expect_kind!(
                other.page(Some(cursor.clone()), 1).await,
                ErrorKind::InvalidArgument,
                "a cursor of another scope"
            );
        }
        let next = chat.page(Some(cursor), 1).await?;
        expect_eq!(next.facts.len(), 1, "facts on the page after the cursor");
    }),
    case!("layer.facts.made-up-cursor", [Layer], ["LAY-41"], |cx, chat: Conversation| {
        chat.learn_all(&["theremin", "sextant"]).await?;
        for cursor in
            ["1", "2", "0", "-1", "https://example.com/v3/memories/?page=2", "page:2", "*", "é", "AAAA"]
        {
            expect_kind!(
                chat.page(Some(cursor.to_owned()), 1).await,
                ErrorKind::InvalidArgument,
                "the cursor `{cursor}`"
            );
        }
    }),
    case!(
        "layer.facts.of-a-session",
        [Layer, LayerVerbatim, LayerSessions],
        ["LAY-44"],
        |cx, chat: Conversation, other: Conversation| {
            let said = |thing: &str, session: Option<&str>| {
                let mut message = Message::new(Role::User, about(thing));
                message.session = session.map(str::to_owned);
                message
            };
            let days = [Some("monday"), Some("Monday"), None, Some("monday"), Some("monday")];
            let messages: Vec<Message> =
                THINGS.iter().zip(days).map(|(thing, day)| said(thing, day)).collect();
            chat.add_and_wait(&messages, AddOptions::default().verbatim()).await?;
            for thing in THINGS {
                chat.wait_for(thing).await?;
            }
            other
                .add_and_wait(&[said("astrolabe", Some("monday"))], AddOptions::default().verbatim())
                .await?;
            other.wait_for("astrolabe").await?;
            let listed = chat.facts().await?;
            for limit in [1, 2, 3, 100] {
                for (session, days) in [("monday", Some("monday")), ("Monday", Some("Monday"))] {
                    let pages = chat.pages_of(Some(session), limit).await?;
                    check!(pages.iter().all(|page| page.len() <= limit), "a page of {limit} has more facts");
                    let of_it: Vec<Fact> =
                        listed.iter().filter(|fact| fact.session.as_deref() == days).cloned().collect();
                    check!(!of_it.is_empty(), "no fact has the session `{session}` in which it was said");
                    expect_eq!(pages.concat(), of_it, "the facts of `{session}` on pages of {limit}");
                }
            }
            for unknown in ["tuesday", "mon", "%", "*"] {
                expect_eq!(chat.pages_of(Some(unknown), 10).await?.concat(), [], "the facts of `{unknown}`");
            }
            for (session, kind) in [
                (String::new(), ErrorKind::InvalidArgument),
                ("a\nb".to_owned(), ErrorKind::InvalidArgument),
                ("s".repeat(513), ErrorKind::TooLarge),
            ] {
                let mut query = FactsQuery::default();
                query.session = Some(session);
                let refused = chat.listed(query).await;
                expect_kind!(refused, kind, "a session that no message can have");
            }
        }
    ),
    case!("layer.facts.as-recalled", [Layer], ["LAY-42"], |cx, chat: Conversation| {
        chat.learn_all(&THINGS).await?;
        let listed = chat.facts().await?;
        for thing in THINGS {
            for fact in chat.recall(thing).await? {
                let same = expect_some!(
                    listed.iter().find(|other| other.id == fact.id),
                    "a recalled fact is not listed"
                );
                expect_eq!(fact.memory, same.memory, "the words of a fact as recalled, and as listed");
                expect_eq!(fact.created_at, same.created_at, "the time of a fact as recalled, and as listed");
            }
        }
    }),
];

const THINGS: [&str; 5] = ["theremin", "sextant", "zeppelin", "harpsichord", "trebuchet"];
