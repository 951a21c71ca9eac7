//! Disabled triggers, and databases restored as a whole.

use memory::{BackendExt as _, DriftPolicy};
use memory_postgres::operator;

use super::support::{Agent, BOTH, Fixture, OFF, ON, json, key, reason};

#[tokio::test]
async fn scenarios_15_and_16_disabled_triggers_stop_guarded_writes_and_hide_no_change() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        agent.foreign_runs(OFF);
        assert_eq!(reason(agent.set("k", "2").await), "triggers");
        agent.foreign_runs("UPDATE entry SET value = '9'");
        assert_eq!(reason(agent.set("k", "2").await), "triggers");
        assert_eq!(reason(agent.delete("k").await), "triggers");
        // A write without a guard is not stopped.
        agent.other_sets("other", "1").await;
        agent.foreign_runs("DELETE FROM entry WHERE key = 'other'");
        agent.foreign_runs(ON);
        let refused = reason(agent.set("k", "2").await);
        assert_eq!(refused, if policy == DriftPolicy::Row { "changed" } else { "scope_changed" });
        assert_eq!(agent.read("k").await.unwrap().value.as_str(), "9");
    }
}

#[tokio::test]
async fn rows_changed_without_triggers_are_found_by_content_or_counters() {
    for (policy, sql, expected) in [
        (DriftPolicy::Row, "UPDATE entry SET value = '9' WHERE key = 'k'", "changed"),
        (DriftPolicy::Strict, "UPDATE entry SET value = '9' WHERE key = 'k'", "changed"),
        (DriftPolicy::Row, "UPDATE entry SET expires_at = 1 WHERE key = 'k'", "changed"),
        (DriftPolicy::Row, "DELETE FROM entry WHERE key = 'k'", "vanished"),
        (DriftPolicy::Strict, "DELETE FROM entry WHERE key = 'other'", "silent"),
        (DriftPolicy::Strict, "UPDATE entry SET size = 77 WHERE key = 'other'", "silent"),
    ] {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.other_sets("other", "1").await;
        agent.set("k", "1").await.unwrap();
        agent.foreign_runs(&format!("BEGIN; {OFF} {sql}; {ON} COMMIT"));
        assert_eq!(reason(agent.set("k", "2").await), expected, "{policy}: {sql}");
        assert_eq!(reason(agent.set("k", "2").await), expected, "{policy}: {sql}");
    }
}

#[tokio::test]
async fn recreated_triggers_do_not_refuse_unchanged_entries() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        agent.foreign_runs(&format!("BEGIN; {OFF} {ON} COMMIT"));
        agent.set("k", "2").await.unwrap();
        agent.set("k", "3").await.unwrap();
        agent.set("new", "3").await.unwrap();
        assert!(agent.delete("k").await.unwrap());
        let items = ["a", "new"].map(|name| memory::NewEntry::new(key(name), json("7"))).to_vec();
        agent.bulk(items).await.unwrap();
        agent.foreign_runs("UPDATE entry SET value = '9' WHERE key = 'a'");
        assert!(reason(agent.set("a", "8").await).contains("changed"));
    }
}

#[tokio::test]
async fn a_changed_function_of_a_trigger_is_a_changed_trigger() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = fixture.session(DriftPolicy::Row);
    let agent = Agent::of(&session, &fixture);
    agent.set("k", "1").await.unwrap();
    fixture.foreign_runs(
        "CREATE OR REPLACE FUNCTION guard_updated() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
    );
    assert_eq!(reason(agent.set("k", "2").await), "triggers");
    // A new handle gets the same error.
    let again = fixture.again().await;
    let session = fixture.session(DriftPolicy::Row);
    let later = Agent::on(&again, &session, &fixture);
    later.read("k").await;
    assert_eq!(reason(later.set("k", "2").await), "triggers");

    let config = memory_postgres::PostgresConfig::new(fixture.database.url());
    assert!(operator::provision(&config, None).await.unwrap().repaired);
    assert!(!operator::provision(&config, None).await.unwrap().repaired);
    later.read("k").await;
    later.set("k", "2").await.unwrap();
    fixture.foreign_runs("UPDATE entry SET value = '9'");
    assert_eq!(reason(later.set("k", "3").await), "changed");
}

#[tokio::test]
async fn recreating_the_triggers_makes_every_session_check_again_and_recounts_scopes() {
    let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
    agent.other_sets("other", "1").await;
    agent.set("k", "1").await.unwrap();
    agent.foreign_runs("DROP TRIGGER guard_deleted ON entry; DELETE FROM entry WHERE key = 'other'");
    assert_eq!(reason(agent.set("k", "2").await), "triggers");
    let config = memory_postgres::PostgresConfig::new(agent.database.url());
    assert!(operator::provision(&config, None).await.unwrap().repaired);
    assert_eq!(agent.backend().stats(&agent.scope).await.unwrap().entries, 1);
    assert_eq!(reason(agent.set("k", "2").await), "scope_changed");
    agent.acks().await;
    agent.set("k", "2").await.unwrap();
}

#[tokio::test]
async fn scenarios_18_and_19_a_restored_database_is_another_state() {
    for write_again in [false, true] {
        for policy in BOTH {
            let Some(agent) = Agent::new(policy).await else { return };
            agent.other_sets("k", "1").await;
            agent.provider.flush().await.unwrap();
            agent.read("k").await;
            replace(&agent, "CREATE DATABASE DATABASE_NAME_copy TEMPLATE DATABASE_NAME");
            connected(&agent).await;
            agent.set("k", "\"mine\"").await.unwrap();
            replace(&agent, "DROP DATABASE DATABASE_NAME");
            agent.admin_runs(&["CREATE DATABASE DATABASE_NAME TEMPLATE DATABASE_NAME_copy"]);
            if write_again {
                // The same version and, except for the nonce, the same token as the session's own write.
                let other = agent.again().await;
                other.backend().unwrap().put(&agent.scope, &key("k"), json("\"them\"")).await.unwrap();
            }
            connected(&agent).await;
            assert!(reason(agent.set("k", "3").await).contains("changed"), "{policy}, {write_again}");
            agent.admin_runs(&["DROP DATABASE DATABASE_NAME_copy"]);
        }
    }
}

/// Runs statements that need everyone disconnected.
fn replace(fixture: &Fixture, sql: &str) {
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = 'DATABASE_NAME'";
    fixture.admin_runs(&[end, sql]);
}

/// Waits until the store has noticed that its connections are closed.
async fn connected(fixture: &Fixture) {
    loop {
        match fixture.provider.sweep().await {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), memory::ErrorKind::Unavailable),
        }
    }
}

#[tokio::test]
async fn a_replaced_database_stops_guarded_writes_until_reopened() {
    let (Some(fixture), Some(other)) = (Fixture::new().await, Fixture::new().await) else { return };
    other.other_sets("k", "1").await;
    let session = fixture.session(DriftPolicy::Row);
    let agent = Agent::of(&session, &fixture);
    agent.set("k", "1").await.unwrap();
    replace(&fixture, "DROP DATABASE DATABASE_NAME");
    replace(&other, "SELECT 1");
    fixture.admin_runs(&[&format!("CREATE DATABASE DATABASE_NAME TEMPLATE {}", other.database.name)]);
    connected(&fixture).await;
    assert_eq!(reason(agent.set("k", "2").await), "file_replaced");
    let again = fixture.again().await;
    let session = fixture.session(DriftPolicy::Row);
    let later = Agent::on(&again, &session, &fixture);
    later.read("k").await;
    later.set("k", "2").await.unwrap();
}
