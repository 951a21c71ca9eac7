//! Flat memories in sessions.

use memory_core::ErrorKind;
use memory_hierarchical::{Entry, EntryQuery, NewEntry, Sessions};

use crate::support::*;

async fn sessions(world: &World) -> Sessions {
    Sessions::open(world.provider(), &tenant(), world.clock.clone(), world.ids.clone()).await.unwrap()
}

fn contents(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.content.as_str()).collect()
}

on_both_stores! {
    async fn a_learning_is_stored_once_per_session_and_agent(world) {
        let sessions = sessions(&world).await;
        let (ada, bob) = (agent("ada"), agent("bob"));
        let learning = NewEntry::new("the tests need a server");
        assert!(sessions.store_session_learning("s1", &ada, &learning).await.unwrap().is_some());
        assert_eq!(sessions.store_session_learning("s1", &ada, &learning).await.unwrap(), None);
        assert!(sessions.store_session_learning("s1", &bob, &learning).await.unwrap().is_some());
        assert!(sessions.store_session_learning("s2", &ada, &learning).await.unwrap().is_some());
        let counts = sessions.agent_counts().await.unwrap();
        assert_eq!(counts, [(ada.clone(), 2), (bob, 1)]);
        assert_eq!(sessions.entries(&EntryQuery::of(&ada)).await.unwrap().len(), 2);
        let listed = sessions.list().await.unwrap();
        assert_eq!((listed[0].agents.len(), listed[0].entries), (2, 2));
    }

    async fn an_expired_entry_is_nowhere_and_does_not_suppress(world) {
        let sessions = sessions(&world).await;
        let ada = agent("ada");
        world.clock.set("2026-01-31T12:00:00Z");
        // How an expiry is written, and whether it has passed at noon.
        let table = [
            ("2026-01-31T11:59:59Z", true),
            ("2026-01-31T12:00:00Z", true),
            ("2026-01-31T12:00:00.001Z", false),
            ("2026-01-31T12:59:59+01:00", true),
            ("2026-01-31T13:00:01+01:00", false),
            ("2026-01-31T06:29:59-05:30", true),
            ("2026-01-31T06:30:01-05:30", false),
            ("1769860799", true),
            ("1769860801", false),
            ("9", true),
            ("99999999999", false),
        ];
        for (at, (expiry, is_over)) in table.into_iter().enumerate() {
            let session = format!("s{at:02}");
            let entry = NewEntry::new("learned").with_expiry(expiry);
            assert!(sessions.store_session_learning(&session, &ada, &entry).await.unwrap().is_some(), "{expiry}");
            let query = EntryQuery::of(&ada).in_session(&session);
            let found = sessions.entries(&query).await.unwrap();
            assert_eq!(found.is_empty(), is_over, "{expiry}");
            assert!(found.iter().all(|entry| entry.expires_at.as_deref() == Some(expiry)));
            let again = sessions.store_session_learning(&session, &ada, &NewEntry::new("learned")).await.unwrap();
            assert_eq!(again.is_some(), is_over, "{expiry}");
        }
        let live = u64::try_from(table.len()).unwrap();
        assert_eq!(sessions.agent_counts().await.unwrap(), [(ada, live)]);
        assert!(sessions.list().await.unwrap().iter().all(|session| session.entries == 1));
    }

    async fn expired_entries_are_removed_by_a_purge_alone(world) {
        let sessions = sessions(&world).await;
        world.clock.set("2026-01-31T12:00:00Z");
        let entry = NewEntry::new("short").with_expiry("2026-01-31T12:00:01Z");
        sessions.store("s", &agent("ada"), "context", &entry).await.unwrap();
        sessions.store("s", &agent("ada"), "context", &NewEntry::new("long")).await.unwrap();
        world.clock.set("2026-01-31T12:00:02Z");
        assert_eq!(contents(&sessions.entries(&EntryQuery::default()).await.unwrap()), ["long"]);
        assert_eq!(sessions.purge().await.unwrap(), 1);
        assert_eq!(sessions.purge().await.unwrap(), 0);
    }

    async fn an_expiry_that_is_no_time_is_refused(world) {
        let sessions = sessions(&world).await;
        for expiry in ["tomorrow", "2026-01-31 12:00", "2026-01-31T12:00:00", "", "-5", "1.5"] {
            let entry = NewEntry::new("learned").with_expiry(expiry);
            let refused = sessions.store_session_learning("s", &agent("ada"), &entry).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{expiry}");
        }
        assert!(sessions.list().await.unwrap().is_empty());
    }

    async fn other_types_may_repeat_and_come_newest_first(world) {
        let sessions = sessions(&world).await;
        let ada = agent("ada");
        for (time, content) in [("10", "hello"), ("11", "how are you?"), ("12", "hello")] {
            world.clock.set(&format!("2026-01-31T{time}:00:00Z"));
            sessions.store("s", &ada, "conversation", &NewEntry::new(content)).await.unwrap();
        }
        let entries = sessions.entries(&EntryQuery::of(&ada)).await.unwrap();
        assert_eq!(contents(&entries), ["hello", "how are you?", "hello"]);
        assert_eq!(entries[0].created_at, "2026-01-31T12:00:00.000Z");
        let refused = sessions.store("s", &ada, "learning", &NewEntry::new("x")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }

    async fn a_removed_session_takes_its_entries_along(world) {
        let sessions = sessions(&world).await;
        let ada = agent("ada");
        for session in ["s1", "s2", "ünï"] {
            sessions.store_session_learning(session, &ada, &NewEntry::new("learned")).await.unwrap();
        }
        let gone = ["s1".to_owned(), "ünï".to_owned(), "unknown".to_owned()];
        assert_eq!(sessions.remove(&gone).await.unwrap(), 2);
        assert_eq!(sessions.agent_counts().await.unwrap(), [(ada.clone(), 1)]);
        assert_eq!(sessions.list().await.unwrap().len(), 1);
        assert!(sessions.store_session_learning("s1", &ada, &NewEntry::new("learned")).await.unwrap().is_some());
    }
}
