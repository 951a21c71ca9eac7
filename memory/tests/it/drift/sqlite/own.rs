//! A session's and a store's own work is not drift; unreadable entries are not absent.

use std::path::Path;
use std::sync::Arc;

use memory::{Backend as _, DriftPolicy, ErrorKind, GetOptions, SetOptions, Ttl};
use memory_sqlite::{SqliteConfig, SqliteProvider};

use super::support::{Agent, BOTH, Fixture, json, key};

#[tokio::test]
async fn scenario_08_a_failed_commit_keeps_what_was_seen() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        let session = fixture.session(policy);
        let agent = Agent::of(&session, &fixture);
        agent.set("k", "1").await.unwrap();
        let observed = session.status(&fixture.scope).observed;
        let foreign = fixture.foreign();
        foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert_eq!(agent.set("k", "2").await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(session.status(&fixture.scope).observed, observed);
        foreign.execute_batch("ROLLBACK").unwrap();
        agent.set("k", "3").await.unwrap();
    }
}

#[tokio::test]
async fn scenario_31_housekeeping_is_not_drift() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        let mut config = SqliteConfig::default();
        config.sweep_interval_ms = 0;
        let clock = Arc::clone(&fixture.clock);
        let provider = SqliteProvider::open(&fixture.path, config, clock).unwrap();
        let session = fixture.session(policy);
        let agent = Agent(session.guard(&provider), &fixture.scope);
        let brief = SetOptions::default().with_ttl(Ttl::After(std::time::Duration::from_secs(1)));
        for n in 0..300 {
            agent.0.set(agent.1, &key(&format!("b{n}")), json("1"), brief.clone()).await.unwrap();
        }
        agent.set("k", "1").await.unwrap();
        fixture.clock.advance(2);
        for _ in 0..3 {
            agent.0.get(agent.1, &key("k"), GetOptions::default()).await.unwrap();
        }
        assert_eq!(provider.sweep().await.unwrap(), 300);
        provider.flush().await.unwrap();
        agent.set("k", "2").await.unwrap();
    }
}

fn released(version: u32) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../memory-sqlite/tests/fixtures/v{version}.db"))
}

#[tokio::test]
async fn scenario_27_a_file_of_an_earlier_format_gets_its_tokens_and_its_first_write_is_clean() {
    for version in [1, 2] {
        for policy in BOTH {
            let Some(fixture) = Fixture::new().await else { return };
            let path = fixture.folder.path().join("old.db");
            if std::fs::copy(released(version), &path).is_err() {
                println!("skipped: the files of earlier formats are not here");
                return;
            }
            let memory = super::support::open(&path, &fixture.clock).await;
            let session = fixture.session(policy);
            let agent = Agent(session.guard(memory.backend().unwrap()), &fixture.scope);
            assert!(agent.read("number").await.is_some());
            let token = session.status(&fixture.scope).observed.unwrap();
            assert_eq!(token.generation.unwrap().get(), 1);
            agent.set("number", "1").await.unwrap();
            let foreign = rusqlite::Connection::open(&path).unwrap();
            foreign.execute_batch("UPDATE entry SET value = '9' WHERE key = 'number'").unwrap();
            assert_eq!(agent.set("number", "2").await.unwrap_err().kind(), ErrorKind::DriftDetected);
        }
    }
}

#[tokio::test]
async fn scenario_28_an_unreadable_entry_is_an_error_not_absent() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = fixture.session(DriftPolicy::Row);
    let agent = Agent::of(&session, &fixture);
    agent.set("k", "1").await.unwrap();
    fixture.foreign_runs("UPDATE entry SET value = 'no JSON'");
    let unread = agent.0.get(agent.1, &key("k"), GetOptions::default()).await.unwrap_err();
    assert_eq!(unread.kind(), ErrorKind::Corrupt);
    // It is still guarded by the earlier read.
    let refused = agent.set("k", "2").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DriftDetected);
    assert!(refused.details()["drift_backup"].is_null(), "what cannot be read cannot be saved");
    let stored: String =
        fixture.foreign().query_row("SELECT value FROM entry", [], |row| row.get(0)).unwrap();
    assert_eq!(stored, "no JSON");
}
