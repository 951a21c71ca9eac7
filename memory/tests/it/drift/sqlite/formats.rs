//! A failed commit, and files of earlier formats.

use std::path::Path;

use memory::ErrorKind;

use super::support::{Agent, BOTH, Fixture};

#[tokio::test]
async fn scenario_08_a_failed_commit_keeps_what_was_seen() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        let observed = agent.session.status(&agent.scope).observed;
        let foreign = agent.foreign();
        foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert_eq!(agent.set("k", "2").await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(agent.session.status(&agent.scope).observed, observed);
        foreign.execute_batch("ROLLBACK").unwrap();
        agent.set("k", "3").await.unwrap();
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
            let agent = Agent::on(&memory, &session, &fixture);
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
