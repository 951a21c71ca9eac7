//! What a session has seen, and why its writes are refused.

use memory::drift::DriftSession;
use memory::{
    Backend as _, BackendExt as _, DriftPolicy, ErrorKind, Expect, ListQuery, NewEntry, Reducer, Scope,
    SearchMode, SearchQuery, SetOptions, Ttl, UpdateOptions,
};

use super::support::{Agent, BOTH, Fixture, json, key, reason, text};

#[tokio::test]
async fn scenario_02_an_entry_changed_by_another_is_not_overwritten() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.other_sets("k", "1").await;
        agent.read("k").await;
        let version = agent.other_sets("k", "2").await;
        let refused = reason(agent.set("k", "3").await);
        assert_eq!(refused, if policy == DriftPolicy::Row { "changed" } else { "scope_changed" });
        assert!(reason(agent.delete("k").await).contains("changed"));
        let entry = agent.read("k").await.unwrap();
        assert_eq!((entry.value.as_str(), entry.version), ("2", version), "nothing was written");
    }
}

#[tokio::test]
async fn scenario_03_an_entry_deleted_by_another_is_not_recreated() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.other_sets("k", "1").await;
        agent.read("k").await;
        agent.other_deletes("k").await;
        let refused = reason(agent.set("k", "2").await);
        assert_eq!(refused, if policy == DriftPolicy::Row { "vanished" } else { "scope_changed" });
        assert_eq!(agent.value("k").await, None);
        // It is gone, as intended.
        assert!(!agent.delete("k").await.unwrap());
    }
}

#[tokio::test]
async fn an_entry_that_appeared_after_being_absent_is_not_overwritten() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        assert!(agent.read("k").await.is_none());
        agent.other_sets("k", "1").await;
        let refused = reason(agent.set("k", "2").await);
        assert_eq!(refused, if policy == DriftPolicy::Row { "appeared" } else { "scope_changed" });
    }
}

#[tokio::test]
async fn an_entry_that_appeared_since_the_session_began_is_not_written_over_unread() {
    let Some(agent) = Agent::new(DriftPolicy::Row).await else { return };
    for name in ["old", "older"] {
        agent.other_sets(name, "1").await;
    }
    agent.guarded().meet(&agent.scope).await.unwrap();
    agent.other_sets("k", "1").await;
    agent.other_sets("older", "2").await;
    for name in ["k", "older"] {
        let error = agent.set(name, "3").await.unwrap_err();
        assert_eq!(
            (&error.details()["reason"], &error.details()["changed"]),
            (&"appeared".into(), &[name].into())
        );
        assert_eq!(reason(agent.delete(name).await), "appeared");
        let items = ["new", name].map(|name| NewEntry::new(key(name), json("3"))).to_vec();
        let bulk = agent.bulk(items).await;
        assert_eq!(bulk.unwrap_err().details()["reason"], "appeared");
    }
    assert_eq!((agent.value("k").await.as_deref(), agent.value("new").await), (Some("1"), None));
    // What existed when it began may be overwritten, and so may what it has read by now.
    agent.set("old", "3").await.unwrap();
    agent.read("k").await;
    agent.set("k", "3").await.unwrap();
    assert!(agent.session.status(&agent.scope).unresolved, "`older` is still to be read");
}

#[tokio::test]
async fn what_a_session_wrote_itself_and_forgot_is_not_taken_for_somebody_elses() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = fixture.session(DriftPolicy::Row).with_capacity(2);
    let agent = Agent::of(&session, &fixture);
    for name in ["a", "b", "c", "d", "a"] {
        agent.set(name, "1").await.unwrap();
    }
    fixture.other_sets("k", "1").await;
    assert_eq!(reason(agent.set("k", "2").await), "appeared");
}

#[tokio::test]
async fn scenario_04_a_change_of_another_entry_does_not_refuse_a_row() {
    let Some(agent) = Agent::new(DriftPolicy::Row).await else { return };
    agent.other_sets("mine", "1").await;
    agent.other_sets("theirs", "1").await;
    agent.read("mine").await;
    agent.read("theirs").await;
    agent.other_sets("theirs", "2").await;
    agent.set("mine", "2").await.unwrap();
    agent.set("mine", "3").await.unwrap();
    assert_eq!(reason(agent.set("theirs", "3").await), "changed");
}

#[tokio::test]
async fn scenario_05_a_blind_retry_stays_refused_and_a_read_clears_it() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.other_sets("k", "1").await;
        agent.read("k").await;
        agent.other_sets("k", "2").await;
        for _ in 0..3 {
            reason(agent.set("k", "3").await);
            reason(agent.delete("k").await);
        }
        assert!(agent.session.status(&agent.scope).unresolved);
        assert_eq!(agent.read("k").await.unwrap().value.as_str(), "2");
        assert!(!agent.session.status(&agent.scope).unresolved);
        agent.set("k", "3").await.unwrap();
        assert_eq!(agent.value("k").await.unwrap(), "3");
    }
}

#[tokio::test]
async fn every_kind_of_read_counts_as_seeing() {
    let Some(agent) = Agent::new(DriftPolicy::Row).await else { return };
    for name in ["a", "b", "c", "d"] {
        agent.other_sets(name, "\"green tea\"").await;
    }
    agent.read("a").await;
    agent.guarded().get_many(&agent.scope, &[key("b"), key("none")], Default::default()).await.unwrap();
    agent.guarded().list(&agent.scope, ListQuery::prefix("c")).await.unwrap();
    let query = SearchQuery::new("tea").with_mode(SearchMode::Lexical).with_prefix("d");
    assert_eq!(agent.guarded().search(&agent.scope, query).await.unwrap().hits.len(), 1);
    assert_eq!(agent.session.status(&agent.scope).entries, 5);
    for name in ["a", "b", "c", "d", "none"] {
        agent.other_sets(name, "\"black tea\"").await;
        assert!(["changed", "appeared"].contains(&reason(agent.set(name, "1").await).as_str()), "{name}");
    }
}

#[tokio::test]
async fn an_entry_that_was_never_read_is_not_guarded_by_row() {
    let Some(agent) = Agent::new(DriftPolicy::Row).await else { return };
    agent.other_sets("k", "1").await;
    agent.set("k", "2").await.unwrap();
    // From now on it is known.
    agent.other_sets("k", "3").await;
    assert_eq!(reason(agent.set("k", "4").await), "changed");
}

#[tokio::test]
async fn what_a_session_has_forgotten_counts_as_never_read() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = fixture.session(DriftPolicy::Row).with_capacity(2);
    let agent = Agent::of(&session, &fixture);
    for name in ["a", "b", "c"] {
        fixture.other_sets(name, "1").await;
        agent.read(name).await;
        fixture.other_sets(name, "2").await;
    }
    let status = session.status(&fixture.scope);
    assert_eq!((status.entries, status.forgotten), (2, 1));
    assert_eq!(reason(agent.set("c", "3").await), "changed");
    assert_eq!(reason(agent.set("a", "3").await), "appeared");
}

#[tokio::test]
async fn sessions_of_one_process_are_strangers() {
    let Some(fixture) = Fixture::new().await else { return };
    let (one, two) = (fixture.session(DriftPolicy::Row), fixture.session(DriftPolicy::Row));
    let (first, second) = (Agent::of(&one, &fixture), Agent::of(&two, &fixture));
    first.set("k", "1").await.unwrap();
    second.read("k").await;
    second.set("k", "2").await.unwrap();
    assert_eq!(reason(first.set("k", "3").await), "changed");
}

#[tokio::test]
async fn scenario_11_two_handles_of_one_process_see_each_other() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        let other = agent.again().await;
        agent.set("k", "1").await.unwrap();
        other.backend().unwrap().put(&agent.scope, &key("k"), json("2")).await.unwrap();
        assert!(reason(agent.set("k", "3").await).contains("changed"));
    }
}

#[tokio::test]
async fn scenario_26_another_tenants_writes_never_refuse() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        for scope in [
            Scope::agent("other", "ada").unwrap(),
            Scope::user("acme", "ada").unwrap(),
            Scope::agent("acme", "bob").unwrap(),
        ] {
            agent.backend().put(&scope, &key("k"), json("2")).await.unwrap();
        }
        agent.set("k", "3").await.unwrap();
    }
}

#[tokio::test]
async fn scenario_29_writing_what_is_stored_succeeds() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.other_sets("k", "1").await;
        agent.read("k").await;
        let version = agent.other_sets("k", "2").await;
        let outcome = agent.set("k", "2").await.unwrap();
        assert_eq!((outcome.written, outcome.version), (false, version));
        assert_eq!(agent.backup_files(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn increments_reducers_and_preconditions_are_safe_by_themselves() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.other_sets("n", "1").await;
        agent.other_sets("list", "[]").await;
        agent.read("n").await;
        agent.read("list").await;
        agent.other_sets("n", "5").await;
        agent.other_sets("list", "[1]").await;
        let n =
            agent.guarded().increment(&agent.scope, &key("n"), 1, UpdateOptions::default()).await.unwrap();
        assert_eq!(n.value, 6);
        let push = Reducer::AppendDedupe(json("2"));
        let list =
            agent.guarded().update(&agent.scope, &key("list"), push, UpdateOptions::default()).await.unwrap();
        assert_eq!(list.value.as_str(), "[1,2]");
        let version = agent.other_sets("n", "9").await;
        let options = SetOptions::default().with_expect(Expect::Version(version));
        agent.guarded().set(&agent.scope, &key("n"), json("10"), options).await.unwrap();
        let stale = SetOptions::default().with_expect(Expect::Version(version));
        let refused = agent.guarded().set(&agent.scope, &key("n"), json("11"), stale).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
    }
}

#[tokio::test]
async fn an_exempt_write_does_not_hide_earlier_changes() {
    let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
    agent.set("mine", "1").await.unwrap();
    agent.other_sets("theirs", "1").await;
    agent.guarded().increment(&agent.scope, &key("n"), 1, UpdateOptions::default()).await.unwrap();
    assert_eq!(reason(agent.set("mine", "2").await), "scope_changed");
}

#[tokio::test]
async fn an_expiry_is_not_drift() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        let ttl = Ttl::After(std::time::Duration::from_secs(5));
        let options = SetOptions::default().with_ttl(ttl);
        agent.guarded().set(&agent.scope, &key("k"), json("1"), options).await.unwrap();
        agent.clock.advance(6);
        assert!(agent.set("k", "2").await.unwrap().created);
    }
}

#[tokio::test]
async fn a_bulk_write_is_refused_as_a_whole_and_names_the_entry() {
    let Some(agent) = Agent::new(DriftPolicy::Row).await else { return };
    agent.other_sets("b", "1").await;
    agent.read("b").await;
    agent.other_sets("b", "2").await;
    let items =
        |names: &[&str]| names.iter().map(|name| NewEntry::new(key(name), json("9"))).collect::<Vec<_>>();
    let bulk = agent.bulk(items(&["a", "b", "c"])).await;
    let refused = bulk.unwrap_err();
    assert_eq!((refused.kind(), refused.details()["index"].as_u64()), (ErrorKind::DriftDetected, Some(1)));
    assert_eq!(refused.details()["changed"], serde_json::json!(["b"]));
    assert_eq!(agent.value("a").await, None);
    // The same key twice is the session's own work.
    agent.bulk(items(&["x", "x"])).await.unwrap();
    agent.set("x", "1").await.unwrap();
}

#[tokio::test]
async fn acknowledging_accepts_the_scope_and_an_old_token_is_refused() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        agent.other_sets("k", "2").await;
        let refused = agent.set("k", "3").await.unwrap_err();
        let actual = text(&refused, "actual").parse().unwrap();
        agent.other_sets("k", "2.5").await;
        let stale = agent.guarded().ack(&agent.scope, actual).await.unwrap_err();
        assert_eq!(stale.kind(), ErrorKind::Conflict);
        reason(agent.set("k", "3").await);
        let now = agent.backend().drift_state(&agent.scope).await.unwrap().token;
        agent.guarded().ack(&agent.scope, now).await.unwrap();
        agent.set("k", "3").await.unwrap();
        agent.set("k", "4").await.unwrap();
    }
}

#[tokio::test]
async fn off_refuses_nothing_and_checks_nothing() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = DriftSession::new(DriftPolicy::Off);
    let agent = Agent::of(&session, &fixture);
    agent.set("k", "1").await.unwrap();
    fixture.other_sets("k", "2").await;
    agent.set("k", "3").await.unwrap();
    assert_eq!(session.status(&fixture.scope).observed, None);
}

#[tokio::test]
async fn scenario_06_own_writes_are_clean_however_many() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        let items = (0..50).map(|n| NewEntry::new(key(&format!("k{n}")), json("1")));
        agent.bulk(items).await.unwrap();
        for n in 0..50 {
            agent.set(&format!("k{n}"), "2").await.unwrap();
        }
        assert!(agent.delete("k7").await.unwrap());
        agent.set("k7", "3").await.unwrap();
        agent.guarded().increment(&agent.scope, &key("n"), 1, Default::default()).await.unwrap();
        agent.set("n", "5").await.unwrap();
        agent.set("k8", "3").await.unwrap();
    }
}

#[tokio::test]
async fn scenario_07_a_rolled_back_own_write_leaves_no_trace() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        let mut last = NewEntry::new(key("k"), json("3"));
        last.options = SetOptions::default().with_expect(Expect::Absent);
        let items = vec![NewEntry::new(key("a"), json("2")), NewEntry::new(key("k"), json("2")), last];
        let refused = agent.bulk(items).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        agent.set("k", "4").await.unwrap();
        assert!(agent.read("a").await.is_none());
    }
}
