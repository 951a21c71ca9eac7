//! A full disk during a backup: in a child process with a file size limit.

use std::process::{Command, Stdio};

use memory::{DriftPolicy, ErrorKind, NewEntry};

use super::support::{Agent, Fixture, json, key, reason};

const CHILD: &str = "MEMORY_DRIFT_TEST_FULL";
const NAME: &str = "drift::sqlite::full_disk::scenario_20_with_a_full_disk_the_write_is_still_refused";

#[tokio::test]
async fn scenario_20_with_a_full_disk_the_write_is_still_refused() {
    let Some(mut fixture) = Fixture::new().await else { return };
    if let Ok(path) = std::env::var(CHILD) {
        // The store filled by the parent: a copy does not fit, but a page of its log does.
        fixture.memory = super::support::open(path.as_ref(), &fixture.clock).await;
        let session = fixture.session(DriftPolicy::Row);
        let agent = Agent::of(&session, &fixture);
        agent.read("k0000").await;
        fixture.other_sets("k0000", "\"of somebody else\"").await;
        for _ in 0..2 {
            let error = agent.set("k0000", "1").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DriftDetected, "{error:?}");
            assert!(error.details()["drift_backup"].is_null(), "{error:?}");
        }
        assert_eq!(reason(agent.set("k0000", "1").await), "changed");
        let saved = fixture.memory.drift_backups().unwrap().join(fixture.scope.digest().to_hex());
        let left: Vec<_> =
            std::fs::read_dir(saved).map(|files| files.flatten().collect()).unwrap_or_default();
        assert!(
            left.iter().all(|file| file.metadata().unwrap().len() == 0),
            "no half of a copy stays: {left:?}"
        );
        // A write that is not refused needs no backup.
        agent.read("k0000").await;
        agent.set("k0000", "1").await.unwrap();
        assert_eq!(fixture.value("k0000").await.unwrap(), "1");
        println!("refused");
        return;
    }
    let text = json(&format!("\"{}\"", "x".repeat(500)));
    let items = (0..4_000).map(|n| NewEntry::new(key(&format!("k{n:04}")), text.clone())).collect();
    fixture.backend().bulk_insert(&fixture.scope, items, Default::default()).await.unwrap();
    // So that the log restarts below the limit.
    fixture.foreign().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    // In units of 512 bytes. The limit's signal is ignored, so that a write beyond it fails as on a full disk.
    let child = Command::new("/bin/sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" --exact \"$1\" --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(CHILD, &fixture.path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let (said, failed) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success() && said.contains("refused"), "{said}\n{failed}");
}
