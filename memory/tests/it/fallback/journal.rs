//! FB-10 to FB-27: queued writes.

use std::time::Duration;

use memory::fallback::{FallbackOptions, JournalState, forget_set_aside, journal_entries, observe, pair};
use memory::{
    BulkOptions, DeleteOptions, ErrorKind, Expect, HealthStatus, ListQuery, NewEntry, Op, Scope, ScopesQuery,
    SetOptions, Ttl, UpdateOptions,
};

use crate::fallback::support::{Fault, Stand, expecting, get, json, key, scope, set, store, text};

#[tokio::test]
async fn queued_writes_can_be_read_and_reach_the_primary_in_order() {
    let stand = Stand::journaling();
    stand.set("old", "0").await.unwrap();
    stand.down();
    let (outcome, who) = observe(stand.set("k", "1")).await;
    assert_eq!(who.as_deref(), Some("spare"));
    assert!(outcome.unwrap().version > 1 << 52);
    stand.set("k", "2").await.unwrap();
    let items = ["a", "b"].map(|name| NewEntry::new(key(name), json("7"))).to_vec();
    stand.kv().bulk_insert(&scope(), items, BulkOptions::default()).await.unwrap();
    stand.kv().delete(&scope(), &key("old"), DeleteOptions::default()).await.unwrap();
    assert_eq!((stand.counts().waiting, stand.counts().scopes), (4, 1));
    assert_eq!(stand.memory.health().await.unwrap().status, HealthStatus::Degraded);
    // Served where the writes are, even through handles that never failed.
    assert_eq!(stand.get("k").await, (Some("2".into()), Some("spare".into())));
    assert_eq!(text(&stand.primary, "k").await, None);

    stand.clock.advance(Duration::from_secs(5));
    stand.up();
    assert_eq!(stand.get("k").await, (Some("2".into()), None));
    assert_eq!(stand.counts().waiting, 0);
    for (name, value) in [("k", Some("2")), ("a", Some("7")), ("b", Some("7")), ("old", None)] {
        assert_eq!(text(&stand.primary, name).await.as_deref(), value, "{name}");
    }
    assert_eq!(stand.memory.health().await.unwrap().status, HealthStatus::Ok);
}

#[tokio::test]
async fn a_scope_with_queued_writes_is_served_by_the_fallback_in_every_process() {
    let stand = Stand::journaling();
    stand.down();
    stand.set("k", "1").await.unwrap();
    let other = stand.again();
    let (entry, who) = observe(get(&other, "k")).await;
    assert_eq!((entry.unwrap().value, who.as_deref()), (json("1"), Some("spare")));
    // Other scopes are not affected.
    let elsewhere = Scope::agent("acme", "other").unwrap();
    stand.up();
    stand.faults.calls.lock().unwrap().clear();
    stand.kv().list(&elsewhere, ListQuery::default()).await.unwrap();
    assert_eq!(*stand.faults.calls.lock().unwrap(), [Op::List]);
    assert_eq!(stand.counts().waiting, 1);
}

#[tokio::test]
async fn operations_that_need_the_primarys_entries_are_refused_meanwhile() {
    let stand = Stand::journaling();
    stand.set("k", "1").await.unwrap();
    stand.down();
    for waits in [false, true] {
        if waits {
            stand.set("other", "1").await.unwrap();
        }
        let before = stand.counts();
        let kv = stand.kv();
        for expect in [Expect::Absent, Expect::Version(1), Expect::Sha256([0; 32])] {
            let error = kv.set(&scope(), &key("k"), json("2"), expecting(expect)).await.unwrap_err();
            assert_eq!(
                (error.kind(), &error.details()["fallback"]),
                (ErrorKind::Unavailable, &"refused".into())
            );
            let options = DeleteOptions::expecting(expect);
            assert_eq!(
                kv.delete(&scope(), &key("k"), options).await.unwrap_err().kind(),
                ErrorKind::Unavailable
            );
        }
        let sum = kv.increment(&scope(), &key("n"), 1, UpdateOptions::default()).await;
        assert_eq!(sum.unwrap_err().kind(), ErrorKind::Unavailable);
        let twice = vec![NewEntry::new(key("t"), json("1")), NewEntry::new(key("t"), json("2"))];
        let bulk = kv.bulk_insert(&scope(), twice, BulkOptions::default()).await;
        assert_eq!(bulk.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(kv.drop_scope(&scope()).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(stand.counts(), before);
        let scopes = kv.scopes(&scope().tenant, ScopesQuery::default()).await;
        assert_eq!(scopes.is_err(), waits);
    }
}

#[tokio::test]
async fn a_write_with_unknown_outcome_never_goes_to_the_fallback() {
    let stand = Stand::journaling();
    stand.fail(Fault::Lost);
    assert_eq!(stand.set("k", "1").await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(stand.counts().waiting, 0);
    assert_eq!(*stand.spare_faults.calls.lock().unwrap(), []);
}

#[tokio::test]
async fn a_replay_with_a_lost_reply_is_not_repeated() {
    let stand = Stand::journaling();
    set(&stand.primary, "gone", "0").await.unwrap();
    stand.clock.advance(Duration::from_millis(1));
    stand.down();
    stand.set("k", "1").await.unwrap();
    let items = ["a", "b"].map(|name| NewEntry::new(key(name), json("7"))).to_vec();
    stand.kv().bulk_insert(&scope(), items, BulkOptions::default()).await.unwrap();
    stand.kv().delete(&scope(), &key("gone"), DeleteOptions::default()).await.unwrap();
    stand.fail(Fault::LostWrites);
    let mut versions = Vec::new();
    // Each attempt performs one more of the three, and learns of it in the next.
    for _ in 0..4 {
        stand.clock.advance(Duration::from_secs(1));
        stand.get("k").await;
        versions.push(get(&stand.primary, "k").await.unwrap().version);
    }
    stand.up();
    assert_eq!(stand.get("k").await, (Some("1".into()), None));
    assert_eq!((stand.counts().waiting, stand.counts().set_aside), (0, 0));
    assert!(versions.windows(2).all(|pair| pair[0] == pair[1]), "{versions:?}");
    assert_eq!(text(&stand.primary, "b").await.as_deref(), Some("7"));
    assert_eq!(text(&stand.primary, "gone").await, None);
}

#[tokio::test]
async fn an_ambiguous_lost_reply_keeps_the_other_write() {
    let stand = Stand::journaling();
    stand.down();
    stand.set("k", "\"ours\"").await.unwrap();
    stand.fail(Fault::LostWrites);
    stand.get("k").await;
    set(&stand.primary, "k", "\"theirs\"").await.unwrap();
    stand.up();
    assert_eq!(stand.get("k").await, (Some("\"theirs\"".into()), None));
    assert_eq!((stand.counts().waiting, stand.counts().set_aside), (0, 1));
    assert!(journal_entries(&stand.journal(), 1).unwrap()[0].why.as_ref().unwrap().starts_with("conflict"));
}

#[tokio::test]
async fn a_later_write_at_the_primary_is_kept_and_the_queued_one_set_aside() {
    let stand = Stand::journaling();
    stand.down();
    stand.set("k", "\"ours\"").await.unwrap();
    stand.set("free", "1").await.unwrap();
    stand.clock.advance(Duration::from_secs(1));
    set(&stand.primary, "k", "\"theirs\"").await.unwrap();
    stand.up();
    assert_eq!(stand.get("k").await, (Some("\"theirs\"".into()), None));
    assert_eq!(stand.get("free").await, (Some("1".into()), None));
    let counts = stand.counts();
    assert_eq!((counts.waiting, counts.set_aside), (0, 1));
    let health = stand.memory.health().await.unwrap();
    assert_eq!(health.status, HealthStatus::Degraded);
    assert!(health.message.contains("1 set aside"), "{}", health.message);
    let kept = journal_entries(&stand.journal(), 10).unwrap();
    assert_eq!(
        (kept.len(), kept[0].state, kept[0].keys.as_slice()),
        (1, JournalState::SetAside, &["k".to_owned()][..])
    );
    assert!(kept[0].why.as_ref().unwrap().starts_with("newer"));
    assert_eq!(forget_set_aside(&stand.journal()).unwrap(), 1);
    assert_eq!(stand.memory.health().await.unwrap().status, HealthStatus::Ok);
}

#[tokio::test]
async fn a_lifetime_continues_while_its_write_is_queued() {
    let stand = Stand::journaling();
    stand.down();
    for (name, millis) in [("short", 1_000), ("long", 60_000)] {
        let options = SetOptions::default().with_ttl(Ttl::After(Duration::from_millis(millis)));
        stand.kv().set(&scope(), &key(name), json("1"), options).await.unwrap();
    }
    let end = stand.clock_now() + 60_000;
    stand.clock.advance(Duration::from_secs(30));
    stand.up();
    assert_eq!(stand.get("short").await, (None, None));
    assert_eq!(get(&stand.primary, "long").await.unwrap().expires_at.unwrap().as_millis(), end);
}

#[tokio::test]
async fn an_unacknowledged_write_is_completed_before_the_next() {
    let stand = Stand::journaling();
    stand.down();
    // The fallback stores it but its reply is lost, as if the process ended there.
    *stand.spare_faults.fault.lock().unwrap() = Some(Fault::Lost);
    assert_eq!(stand.set("k", "1").await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(journal_entries(&stand.journal(), 9).unwrap()[0].state, JournalState::Intended);
    *stand.spare_faults.fault.lock().unwrap() = None;
    assert_eq!(stand.get("k").await.0.as_deref(), Some("1"));
    stand.set("other", "2").await.unwrap();
    let states: Vec<JournalState> =
        journal_entries(&stand.journal(), 9).unwrap().into_iter().map(|entry| entry.state).collect();
    assert_eq!(states, [JournalState::Waiting, JournalState::Waiting]);
    stand.up();
    assert_eq!(stand.get("other").await, (Some("2".into()), None));
    assert_eq!(text(&stand.primary, "k").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_read_does_not_wait_for_another_process_to_replay() {
    let stand = Stand::journaling();
    stand.down();
    stand.set("k", "1").await.unwrap();
    stand.up();
    let lock =
        std::fs::File::options().write(true).open(stand.folder.path().join("journal.db.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(stand.get("k").await, (Some("1".into()), Some("spare".into())));
    stand.again();
    drop(lock);
    assert_eq!(stand.get("k").await, (Some("1".into()), None));
}

#[tokio::test]
async fn a_full_journal_refuses_until_there_is_space() {
    let stand = Stand::of(|file, mut options| {
        options.max_waiting = 2;
        options.with_journal(file)
    });
    stand.down();
    stand.set("a", "1").await.unwrap();
    stand.set("b", "1").await.unwrap();
    let error = stand.set("c", "1").await.unwrap_err();
    assert_eq!((error.kind(), &error.details()["journal_waiting"]), (ErrorKind::Unavailable, &2.into()));
    assert_eq!(stand.get("c").await.0, None);
    stand.up();
    stand.set("c", "1").await.unwrap();
    assert_eq!(text(&stand.primary, "c").await.as_deref(), Some("1"));
    assert_eq!(text(&stand.primary, "a").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn the_end_of_a_run_drops_its_queued_writes() {
    let stand = Stand::journaling();
    let scope = Scope::run("acme", "r1").unwrap();
    stand.down();
    stand.kv().set(&scope, &key("k"), json("1"), SetOptions::default()).await.unwrap();
    assert_eq!(
        stand.memory.end_run(&scope.tenant, &scope.id).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(stand.counts().waiting, 0);
    stand.up();
    stand.memory.end_run(&scope.tenant, &scope.id).await.unwrap();
    for store in [&stand.primary, &stand.spare] {
        let page = store.backend().unwrap().list(&scope, ListQuery::default()).await.unwrap();
        assert!(page.entries.is_empty());
    }
}

#[tokio::test]
async fn a_journal_belongs_to_one_pair_and_to_its_owner() {
    let stand = Stand::journaling();
    stand.down();
    stand.set("k", "1").await.unwrap();
    let mut options = FallbackOptions::new("other").with_journal(stand.journal());
    options.fingerprint = "another pair".into();
    let clock = stand.clock.clone();
    let refused = pair(store(&clock), store(&clock), options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(stand.journal()).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
    let foreign = stand.folder.path().join("foreign.db");
    std::fs::write(&foreign, b"not a database, but long enough to be looked at as one would be").unwrap();
    let options = FallbackOptions::new("spare").with_journal(foreign);
    assert_eq!(pair(store(&clock), store(&clock), options).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn nothing_is_journaled_that_could_not_be_replayed_once() {
    let clock = std::sync::Arc::new(memory_conformance::TestClock::new());
    let folder = tempfile::tempdir().unwrap();
    let inner = store(&clock);
    let faults = std::sync::Arc::new(crate::fallback::support::Faults::default());
    *faults.less.lock().unwrap() = Some(|capabilities| capabilities.compare_and_set = false);
    let primary = crate::fallback::support::limited(&inner, &faults);
    let options = FallbackOptions::new("spare").with_journal(folder.path().join("j.db"));
    assert_eq!(pair(primary, store(&clock), options).unwrap_err().kind(), ErrorKind::Unsupported);
}
