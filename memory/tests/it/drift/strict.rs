//! `strict`: any change by someone else.

use memory::{Backend as _, BackendExt as _, DriftPolicy, MemoryTool, Policy, RunContext, ScopeKind};

use super::support::{Agent, Fixture, key, reason, text};

#[tokio::test]
async fn scenario_01_an_entry_added_by_another_causes_a_refusal_and_a_backup() {
    let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
    agent.set("mine", "1").await.unwrap();
    agent.other_sets("theirs", "\"secret plan\"").await;
    let refused = agent.set("mine", "2").await.unwrap_err();
    assert_eq!(text(&refused, "reason"), "scope_changed");
    assert_eq!(text(&refused, "policy"), "strict");
    assert_eq!(refused.details()["changed"], serde_json::json!(["theirs"]));
    assert_eq!(refused.details()["changed_truncated"], false);
    assert_ne!(text(&refused, "observed"), text(&refused, "actual"));
    assert_eq!(agent.value("mine").await.unwrap(), "1", "nothing was written");

    let path = text(&refused, "drift_backup");
    let backup = memory::drift::backup::Backup::load(path.as_ref()).await.unwrap();
    assert_eq!(backup.scope, agent.scope);
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
    let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
    agent.set("mine", "1").await.unwrap();
    agent.other_sets("one", "1").await;
    agent.other_sets("two", "1").await;
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
        let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
        agent.other_sets("theirs", "1").await;
        agent.set("mine", "1").await.unwrap();
        if is_deleted {
            agent.other_deletes("theirs").await;
        } else {
            agent.other_sets("theirs", "2").await;
            agent.read("theirs").await;
        }
        for _ in 0..2 {
            let refused = agent.set("mine", "2").await.unwrap_err();
            assert_eq!(text(&refused, "reason"), "scope_changed");
            assert_eq!(refused.details()["changed"], serde_json::json!([]));
            assert_eq!(refused.details()["changed_truncated"], false);
            assert!(text(&refused, "remediation").contains("read again"));
        }
        agent.guarded().increment(&agent.scope, &key("count"), 1, Default::default()).await.unwrap();
        assert_eq!(reason(agent.set("mine", "2").await), "scope_changed", "an own write is no read");
        agent.guarded().list(&agent.scope, Default::default()).await.unwrap();
        agent.set("mine", "2").await.unwrap();
        assert!(agent.backups().list(&agent.scope).unwrap().iter().all(|info| info.resolved));
        // Later changes are a separate matter.
        agent.other_sets("theirs", "3").await;
        assert_eq!(reason(agent.set("mine", "3").await), "scope_changed");
        agent.read("mine").await;
        assert_eq!(reason(agent.set("mine", "3").await), "scope_changed");
        agent.acks().await;
        agent.set("mine", "3").await.unwrap();
    }
}

#[tokio::test]
async fn a_scope_that_was_dropped_refuses() {
    let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
    agent.set("k", "1").await.unwrap();
    agent.backend().drop_scope(&agent.scope).await.unwrap();
    assert_eq!(reason(agent.set("k", "2").await), "scope_changed");
}

#[tokio::test]
async fn a_scope_never_written_has_no_generation_and_its_first_write_is_clean() {
    let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
    assert!(agent.read("k").await.is_none());
    assert_eq!(agent.session.status(&agent.scope).observed.unwrap().generation, None);
    agent.set("k", "1").await.unwrap();
    assert_eq!(agent.session.status(&agent.scope).observed.unwrap().generation.unwrap().get(), 1);
    assert_eq!(agent.backend().value(&agent.scope, &key("k")).await.unwrap().unwrap().as_str(), "1");
}

#[tokio::test]
async fn what_a_run_says_and_forgets_is_no_change_by_another() {
    let Some(fixture) = Fixture::new().await else { return };
    let place = fixture.place();
    let memory = match place.contains("://") {
        true => memory::open(&place).await.unwrap(),
        false => memory::open(&format!("sqlite:{place}")).await.unwrap(),
    };
    let tool = || {
        let run = RunContext::new("acme".parse().unwrap(), "ada".parse().unwrap(), "1".parse().unwrap());
        let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
        MemoryTool::new(memory.clone(), policy.with_drift(DriftPolicy::Strict), run).unwrap()
    };
    let (one, two) = (tool(), tool());
    let set = r#"{"op":"set","key":"k","value":"#;
    let said = |words: &str| format!(r#"{{"op":"add","messages":[{{"role":"user","content":"{words}"}}]}}"#);
    assert!(one.call(&format!("{set}1}}")).await.contains("version"));
    let answer: serde_json::Value = serde_json::from_str(&one.call(&said("Tea, please.")).await).unwrap();
    let id = answer["ids"][0].as_str().unwrap();
    assert!(one.call(&format!("{set}2}}")).await.contains("version"));
    let correction = format!(
        r#"{{"op":"add","supersedes":["{id}"],"messages":[{{"role":"user","content":"Coffee, please."}}]}}"#
    );
    assert!(one.call(&correction).await.contains("done"));
    assert!(one.call(&format!("{set}3}}")).await.contains("version"));
    for forget in [format!(r#"{{"op":"forget","ids":["{id}"]}}"#), r#"{"op":"forget","all":true}"#.to_owned()]
    {
        assert!(one.call(&forget).await.contains(r#""forgotten":1"#));
        assert!(one.call(&format!("{set}4}}")).await.contains("version"));
    }
    // What another run says is a change by someone else; its turns cannot be read by their keys.
    assert!(two.call(&said("Water, please.")).await.contains("done"));
    let refused: serde_json::Value = serde_json::from_str(&one.call(&format!("{set}5}}")).await).unwrap();
    assert_eq!(refused["error"]["code"], "drift_detected");
    assert_eq!(refused["error"]["details"]["changed"], serde_json::json!([]));
    assert!(one.call(r#"{"op":"get","key":"k"}"#).await.contains("4"));
    // And an own write does not hide it.
    assert!(two.call(&said("No, juice.")).await.contains("done"));
    assert!(one.call(&said("Cheers.")).await.contains("done"));
    assert!(one.call(&format!("{set}6}}")).await.contains("drift_detected"));
    assert!(one.call(r#"{"op":"list"}"#).await.contains("entries"));
    assert!(one.call(&format!("{set}6}}")).await.contains("version"));
}
