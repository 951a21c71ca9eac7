//! `strict`: any change by someone else.

use memory::{Backend as _, BackendExt as _, DriftPolicy};

use super::support::{Agent, Fixture, key, reason, text};

#[tokio::test]
async fn scenario_01_an_entry_added_by_another_causes_a_refusal_and_a_backup() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = fixture.session(DriftPolicy::Strict);
    let agent = Agent::of(&session, &fixture);
    agent.set("mine", "1").await.unwrap();
    fixture.other_sets("theirs", "\"secret plan\"").await;
    let refused = agent.set("mine", "2").await.unwrap_err();
    assert_eq!(text(&refused, "reason"), "scope_changed");
    assert_eq!(text(&refused, "policy"), "strict");
    assert_eq!(refused.details()["changed"], serde_json::json!(["theirs"]));
    assert_eq!(refused.details()["changed_truncated"], false);
    assert_ne!(text(&refused, "observed"), text(&refused, "actual"));
    assert_eq!(fixture.value("mine").await.unwrap(), "1", "nothing was written");

    let path = text(&refused, "drift_backup");
    let backup = memory::drift::backup::Backup::load(path.as_ref()).await.unwrap();
    assert_eq!(backup.scope, fixture.scope);
    assert_eq!(backup.generation_observed.unwrap().to_string(), text(&refused, "observed"));
    assert_eq!(backup.generation_actual.unwrap().to_string(), text(&refused, "actual"));
    assert_eq!(backup.generation_actual, Some(backup.generation_snapshot));
    let saved: Vec<(&str, &str)> = backup
        .records
        .iter()
        .map(|record| (record.entry.key.as_str(), record.entry.value.as_str()))
        .collect();
    assert_eq!(saved, [("mine", "1"), ("theirs", "\"secret plan\"")]);
    let text = std::fs::read_to_string(&path).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["count"], 2);
    assert_eq!(document["timestamp"], "2027-01-15T08:00:00.000Z");
}

#[tokio::test]
async fn reading_the_named_entries_clears_it_and_reading_fewer_does_not() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = fixture.session(DriftPolicy::Strict);
    let agent = Agent::of(&session, &fixture);
    agent.set("mine", "1").await.unwrap();
    fixture.other_sets("one", "1").await;
    fixture.other_sets("two", "1").await;
    let refused = agent.set("mine", "2").await.unwrap_err();
    assert_eq!(refused.details()["changed"], serde_json::json!(["one", "two"]));
    agent.read("mine").await;
    agent.read("one").await;
    reason(agent.set("mine", "2").await);
    agent.read("one").await;
    agent.read("two").await;
    agent.set("mine", "2").await.unwrap();
}

#[tokio::test]
async fn without_unread_changes_the_write_is_refused_until_the_next_read() {
    // An entry deleted unseen leaves nothing to read; the other was read before the write.
    for is_deleted in [true, false] {
        let Some(fixture) = Fixture::new().await else { return };
        fixture.other_sets("theirs", "1").await;
        let session = fixture.session(DriftPolicy::Strict);
        let agent = Agent::of(&session, &fixture);
        agent.set("mine", "1").await.unwrap();
        if is_deleted {
            fixture.other_deletes("theirs").await;
        } else {
            fixture.other_sets("theirs", "2").await;
            agent.read("theirs").await;
        }
        for _ in 0..2 {
            let refused = agent.set("mine", "2").await.unwrap_err();
            assert_eq!(text(&refused, "reason"), "scope_changed");
            assert_eq!(refused.details()["changed"], serde_json::json!([]));
            assert_eq!(refused.details()["changed_truncated"], false);
            assert!(text(&refused, "remediation").contains("read again"));
        }
        agent.0.increment(agent.1, &key("count"), 1, Default::default()).await.unwrap();
        assert_eq!(reason(agent.set("mine", "2").await), "scope_changed", "an own write is no read");
        agent.0.list(agent.1, Default::default()).await.unwrap();
        agent.set("mine", "2").await.unwrap();
        assert!(fixture.backups().list(&fixture.scope).unwrap().iter().all(|info| info.resolved));
        // Later changes are a separate matter.
        fixture.other_sets("theirs", "3").await;
        assert_eq!(reason(agent.set("mine", "3").await), "scope_changed");
        agent.read("mine").await;
        assert_eq!(reason(agent.set("mine", "3").await), "scope_changed");
        let token = agent.0.drift_state(agent.1).await.unwrap().token;
        agent.0.ack(agent.1, token).await.unwrap();
        agent.set("mine", "3").await.unwrap();
    }
}

#[tokio::test]
async fn a_scope_that_was_dropped_refuses() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = fixture.session(DriftPolicy::Strict);
    let agent = Agent::of(&session, &fixture);
    agent.set("k", "1").await.unwrap();
    fixture.backend().drop_scope(&fixture.scope).await.unwrap();
    assert_eq!(reason(agent.set("k", "2").await), "scope_changed");
}

#[tokio::test]
async fn a_scope_never_written_has_no_generation_and_its_first_write_is_clean() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = fixture.session(DriftPolicy::Strict);
    let agent = Agent::of(&session, &fixture);
    assert!(agent.read("k").await.is_none());
    assert_eq!(session.status(&fixture.scope).observed.unwrap().generation, None);
    agent.set("k", "1").await.unwrap();
    assert_eq!(session.status(&fixture.scope).observed.unwrap().generation.unwrap().get(), 1);
    assert_eq!(fixture.backend().value(&fixture.scope, &key("k")).await.unwrap().unwrap().as_str(), "1");
}
