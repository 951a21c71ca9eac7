//! GRA-21 to GRA-23: flat memories in sessions.

use memory_core::{ErrorKind, Timestamp};
use memory_hierarchical::{EntryQuery, NewEntry};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind};
use crate::cx::graph::agent;
use crate::harness::executor::BoxFuture;

pub(crate) const CASES: &[Case] = &[
    case!("graph.sessions.learning-once", [Sql, HostTables], ["GRA-21"], |cx| {
        let (graphs, ada, bob) = (cx.graphs().await?, agent("ada")?, agent("bob")?);
        let learned = NewEntry::new("the proxy allows 90 seconds");
        let mut writers = Vec::new();
        for _ in 0..6 {
            writers.push(cx.graphs().await?.sessions);
        }
        let stored = cx.threads(
            writers
                .iter()
                .map(|sessions| {
                    Box::pin(sessions.store_session_learning("s", &ada, &learned)) as BoxFuture<'_, _>
                })
                .collect(),
        )?;
        let stored = stored.into_iter().collect::<memory_core::Result<Vec<Option<String>>>>()?;
        expect_eq!(stored.iter().flatten().count(), 1, "writers who stored the one learning");
        let sessions = &graphs.sessions;
        for (session, who) in [("s", &bob), ("t", &ada)] {
            let stored = sessions.store_session_learning(session, who, &learned).await?;
            check!(stored.is_some(), "the learning of {who} in {session} is suppressed");
        }
        for _ in 0..2 {
            sessions.store("s", &ada, "conversation", &learned).await?;
        }
        let entries = sessions.entries(&EntryQuery::of(&ada).in_session("s")).await?;
        expect_eq!(entries.len(), 3, "one learning, and two equal entries of another type");
    }),
    case!("graph.sessions.expiry", [Sql, HostTables], ["GRA-22"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let sessions = &graphs.sessions;
        let at = |millis: i64| Timestamp::from_millis_clamped(cx.now().as_millis() + millis).to_string();
        let learned = NewEntry::new("for a second").with_expiry(at(1_000));
        check!(
            sessions.store_session_learning("s", &ada, &learned).await?.is_some(),
            "the first is suppressed"
        );
        check!(
            sessions.store_session_learning("s", &ada, &learned).await?.is_none(),
            "a live one is repeated"
        );
        sessions.store_session_learning("s", &ada, &NewEntry::new("for ever")).await?;
        let counted = async || -> crate::check::CaseResult<(usize, u64, Vec<u64>)> {
            let entries = sessions.entries(&EntryQuery::of(&ada)).await?.len();
            let listed = sessions.list().await?.iter().map(|session| session.entries).sum();
            Ok((
                entries,
                listed,
                sessions.agent_counts().await?.into_iter().map(|(_, count)| count).collect(),
            ))
        };
        cx.advance_ms(999);
        expect_eq!(counted().await?, (2, 2, vec![2]), "a millisecond before");
        cx.advance_ms(1);
        expect_eq!(counted().await?, (1, 1, vec![1]), "at that instant");
        check!(
            sessions
                .store_session_learning("s", &ada, &learned.clone().with_expiry(at(1_000)))
                .await?
                .is_some(),
            "an entry that is over suppresses a new one"
        );
        // Unix seconds, and an offset; both an hour from now.
        let hour = cx.now().as_millis() / 1_000 + 3_600;
        let offset = at(2 * 3_600_000).replace('Z', "+01:00");
        for (content, expiry) in [("seconds", hour.to_string()), ("offset", offset)] {
            let entry = NewEntry::new(content).with_expiry(expiry.clone());
            check!(sessions.store_session_learning("s", &ada, &entry).await?.is_some(), "{expiry}");
        }
        expect_eq!(counted().await?.0, 4, "live entries");
        cx.advance_ms(3_601_000);
        expect_eq!(counted().await?, (1, 1, vec![1]), "after an hour");
        let never = NewEntry::new("x").with_expiry("tomorrow");
        let refused = sessions.store_session_learning("s", &ada, &never).await;
        expect_kind!(refused, ErrorKind::InvalidArgument, "an expiry that is no time");
        check!(sessions.purge().await? >= 3, "what is over is not purged");
        expect_eq!(counted().await?, (1, 1, vec![1]), "after a purge");
    }),
    case!("graph.sessions.removed-alone", [Sql, HostTables], ["GRA-23"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let sessions = &graphs.sessions;
        for session in ["test_1", "test_2", "kept"] {
            sessions.store_session_learning(session, &ada, &NewEntry::new("a learning")).await?;
            sessions.store(session, &ada, "context", &NewEntry::new("context")).await?;
        }
        let ids = ["test_1", "test_2", "missing"].map(str::to_owned);
        expect_eq!(sessions.remove(&ids).await?, 2, "sessions removed");
        let left: Vec<_> =
            sessions.list().await?.into_iter().map(|session| (session.session_id, session.entries)).collect();
        expect_eq!(left, [("kept".to_owned(), 2)]);
        expect_eq!(sessions.entries(&EntryQuery::of(&ada)).await?.len(), 2, "entries");
    }),
];
