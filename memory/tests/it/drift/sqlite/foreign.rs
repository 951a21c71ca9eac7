//! Other programs on the same file: SQL clients, restored copies, removed triggers.

use memory::{Backend as _, DriftPolicy, ErrorKind, Expect, SetOptions};

use super::agent::is_refused_after;
use super::support::{Agent, BOTH, Fixture, json, key, reason, text};

/// The scope's entries, in SQL.
const OURS: &str = "space = (SELECT space FROM scope WHERE tenant = 'acme' AND name = 'ada')";

#[tokio::test]
async fn every_change_by_an_sql_client_is_detected() {
    let written = [
        format!("UPDATE entry SET value = '9' WHERE {OURS} AND key = 'k'"),
        format!("UPDATE entry SET metadata = '{{\"a\":1}}' WHERE {OURS} AND key = 'k'"),
        format!("UPDATE entry SET version = 77 WHERE {OURS} AND key = 'k'"),
        format!("UPDATE entry SET value = '9', version = 1 WHERE {OURS} AND key = 'k'"),
        // Changed and changed back.
        format!(
            "UPDATE entry SET version = 77, value = '9' WHERE {OURS} AND key = 'k'; \
             UPDATE entry SET version = 1 WHERE {OURS} AND key = 'k'"
        ),
        // Deleted and recreated with the same version.
        format!(
            "CREATE TEMP TABLE kept AS SELECT * FROM entry WHERE {OURS} AND key = 'k'; \
             DELETE FROM entry WHERE {OURS} AND key = 'k'; INSERT INTO entry SELECT * FROM kept"
        ),
        format!("DELETE FROM entry WHERE {OURS} AND key = 'k'"),
        // Scenario 13.
        "DELETE FROM entry".to_owned(),
        format!("REPLACE INTO entry SELECT * FROM entry WHERE {OURS} AND key = 'k'"),
        format!(
            "PRAGMA recursive_triggers = ON; REPLACE INTO entry SELECT * FROM entry WHERE {OURS} AND key = 'k'"
        ),
        format!("PRAGMA recursive_triggers = ON; UPDATE entry SET value = '9', version = 3 WHERE {OURS}"),
        format!(
            "INSERT INTO entry SELECT * FROM entry WHERE {OURS} AND key = 'k' ON CONFLICT DO UPDATE SET value = '9'"
        ),
        "CREATE TEMP TRIGGER cascade AFTER UPDATE ON main.scope BEGIN DELETE FROM entry; END; \
         UPDATE scope SET bytes = bytes"
            .to_owned(),
        format!("UPDATE entry SET key = 'other' WHERE {OURS} AND key = 'k'"),
    ];
    for sql in written {
        is_refused_after(&sql).await;
    }
}

#[tokio::test]
async fn changes_in_side_tables_are_detected_too() {
    for sql in ["UPDATE body SET value = '9'", "DELETE FROM body", "UPDATE body SET id = id + 100"] {
        for policy in BOTH {
            let Some(agent) = Agent::new(policy).await else { return };
            agent.set("k", &format!("\"{}\"", "long ".repeat(400))).await.unwrap();
            agent.foreign_runs(sql);
            assert!(agent.set("k", "2").await.is_err(), "{policy}: {sql}");
        }
    }
}

#[tokio::test]
async fn an_entry_inserted_by_a_client_is_seen_and_counted_by_the_next_write() {
    let Some(agent) = Agent::new(DriftPolicy::Row).await else { return };
    agent.set("gone", "1").await.unwrap();
    agent.delete("gone").await.unwrap();
    assert!(agent.read("k").await.is_none());
    agent.foreign_runs(
        "INSERT INTO entry (space, key, version, born, created_at, updated_at, accesses, size, value) \
         SELECT space, 'k', 1, 1, 1, 1, 0, 2, '7' FROM scope WHERE name = 'ada'",
    );
    assert_eq!(reason(agent.set("k", "8").await), "appeared");
    assert_eq!(agent.read("k").await.unwrap().value.as_str(), "7");
    assert!(!agent.set("k", "8").await.unwrap().created);
    let stats = agent.backend().stats(&agent.scope).await.unwrap();
    assert_eq!((stats.entries, stats.bytes), (1, 2));
    agent.foreign_runs("DELETE FROM entry");
    assert_eq!(agent.backend().stats(&agent.scope).await.unwrap().entries, 0);
    assert_eq!(
        agent.backend().scopes(&agent.scope.tenant, Default::default()).await.unwrap().scopes.len(),
        0
    );
}

#[tokio::test]
async fn a_version_assigned_by_a_client_is_never_reused() {
    let Some(fixture) = Fixture::new().await else { return };
    let first = fixture.other_sets("k", "1").await;
    fixture.foreign_runs("UPDATE entry SET value = '2'");
    let read = fixture.backend().get(&fixture.scope, &key("k"), Default::default()).await.unwrap().unwrap();
    assert!(read.version > first);
    let third = fixture.other_sets("k", "3").await;
    assert!(third > read.version);
    let options = SetOptions::default().with_expect(Expect::Version(read.version));
    let stale = fixture.backend().set(&fixture.scope, &key("k"), json("4"), options).await;
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn scenario_07_a_rolled_back_change_is_not_drift() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        agent.foreign_runs("BEGIN; UPDATE entry SET value = '9'; ROLLBACK");
        agent.foreign_runs("BEGIN; SAVEPOINT s; DELETE FROM entry; ROLLBACK TO s; RELEASE s; COMMIT");
        agent.foreign_runs("INSERT OR IGNORE INTO entry SELECT * FROM entry");
        agent.set("k", "2").await.unwrap();
    }
}

#[tokio::test]
async fn scenario_14_other_tables_vacuum_and_checkpoints_refuse_nothing() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        for (round, sql) in [
            "UPDATE sequence SET last = last + 1",
            "UPDATE entry SET accesses = 5",
            "PRAGMA wal_checkpoint(TRUNCATE)",
            "VACUUM",
            "ANALYZE",
        ]
        .into_iter()
        .enumerate()
        {
            let foreign = agent.foreign();
            // The pragma's answer does not matter.
            if let Err(error) = foreign.execute_batch(sql) {
                assert!(sql.starts_with("PRAGMA") || sql == "VACUUM", "{sql}: {error}");
            }
            drop(foreign);
            agent
                .set("k", &round.to_string())
                .await
                .unwrap_or_else(|error| panic!("{policy}, {sql}: {error:?}"));
        }
    }
}

#[tokio::test]
async fn scenario_15_removed_and_restored_triggers_hide_no_change() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        let foreign = agent.foreign();
        let triggers: Vec<(String, String)> = foreign
            .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(!triggers.is_empty());
        for (name, _) in &triggers {
            foreign.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
        }
        foreign.execute_batch("UPDATE entry SET value = '9'").unwrap();
        assert_eq!(reason(agent.set("k", "2").await), "triggers");
        for (_, sql) in &triggers {
            foreign.execute_batch(sql).unwrap();
        }
        assert_eq!(reason(agent.set("k", "2").await), "changed");
        assert_eq!(agent.read("k").await.unwrap().value.as_str(), "9");
        agent.set("k", "3").await.unwrap();
    }
}

/// DRF-54, DRF-58.
#[tokio::test]
async fn after_a_repair_a_session_can_write_once_it_has_read() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        agent.foreign_runs("DROP TRIGGER entry_updated; UPDATE entry SET value = '9'");
        let refused = agent.set("k", "2").await.unwrap_err();
        assert_eq!(text(&refused, "reason"), "triggers");
        for told in [refused.message(), &text(&refused, "remediation")] {
            assert!(told.contains("`memory drift repair`") && told.contains("provision --apply"), "{told}");
        }
        let url = memory::BackendUrl::parse(&format!("sqlite:{}", agent.path.display())).unwrap();
        let repaired = memory::sqlite::repair(&url, &Default::default(), Default::default()).unwrap();
        assert_eq!(repaired.made, ["trigger entry_updated"]);
        assert!(reason(agent.set("k", "2").await).contains("changed"));
        assert_eq!(agent.read("k").await.unwrap().value.as_str(), "9");
        agent.set("k", "3").await.unwrap();
    }
}

#[tokio::test]
async fn scenario_16_disabled_triggers_hide_no_change() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        agent.without_triggers().execute_batch("UPDATE entry SET value = '9'").unwrap();
        assert_eq!(reason(agent.set("k", "2").await), "changed");
        reason(agent.set("k", "2").await);
        agent.read("k").await;
        agent.set("k", "3").await.unwrap();
    }
}

#[tokio::test]
async fn rows_added_or_removed_with_triggers_off_are_missed_by_the_counters() {
    for sql in [
        "DELETE FROM entry WHERE key = 'b'",
        "UPDATE entry SET size = 77 WHERE key = 'b'",
        "UPDATE entry SET expires_at = 9000000000000 WHERE key = 'b'",
        "UPDATE entry SET version = version + 100 WHERE key = 'b'",
    ] {
        let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
        agent.other_sets("b", "1").await;
        agent.set("k", "1").await.unwrap();
        agent.without_triggers().execute_batch(sql).unwrap();
        assert_eq!(reason(agent.set("k", "2").await), "silent", "{sql}");
        assert_eq!(reason(agent.set("k", "2").await), "silent", "{sql}");
    }
}

#[tokio::test]
async fn scenario_17_a_file_renamed_over_stops_writes_that_would_be_lost() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        let copy = agent.folder.path().join("copy.db");
        agent.foreign().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        std::fs::rename(&copy, &agent.path).unwrap();
        let placed = std::fs::read(&agent.path).unwrap();
        let refused = agent.set("k", "2").await.unwrap_err();
        assert_eq!(refused.details()["reason"], "file_replaced");
        for told in [refused.message(), &text(&refused, "remediation")] {
            assert!(told.contains("open the store again"), "{told}");
        }
        let backup =
            memory::drift::backup::Backup::load(text(&refused, "drift_backup").as_ref()).await.unwrap();
        assert_eq!(backup.records.len(), 1, "of what was there before");
        reason(agent.delete("k").await);
        assert_eq!(reason(agent.set("never read", "1").await), "file_replaced");
        let counted = agent.guarded().increment(&agent.scope, &key("count"), 1, Default::default()).await;
        let counted = counted.unwrap_err();
        assert_eq!(text(&counted, "reason"), "file_replaced");
        assert!(text(&counted, "remediation").contains("open the store again"));
        assert!(std::fs::read(&agent.path).unwrap() == placed, "the file that was put in place is as it was");
    }
}
