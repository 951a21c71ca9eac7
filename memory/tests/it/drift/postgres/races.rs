//! Concurrent writers: acknowledged writes are stored.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use memory::drift::DriftSession;
use memory::{DriftPolicy, ErrorKind, Hook, Interposed, Memory, Op, Reply, Request, Result, async_trait};

use super::support::{Agent, BOTH, Fixture, foreign_runs, memory, provider, reason};

/// Increments a number by reading and writing it, as often as the store accepts; returns how often.
async fn count(agent: &Agent<'_>, rounds: u32) -> u32 {
    let mut done = 0;
    for _ in 0..rounds {
        let entry = agent.read("n").await;
        let n: u32 = entry.map_or(0, |entry| entry.value.as_str().parse().unwrap());
        match agent.set("n", &(n + 1).to_string()).await {
            Ok(outcome) => done += u32::from(outcome.written),
            Err(error) if error.kind() == ErrorKind::DriftDetected => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenario_09_two_tasks_lose_no_acknowledged_write() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        let fixture = Arc::new(fixture);
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let fixture = Arc::clone(&fixture);
                tokio::spawn(async move {
                    let session = DriftSession::new(policy);
                    count(&Agent::of(&session, &fixture), 500).await
                })
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            done += task.await.unwrap();
        }
        let n: u32 = fixture.value("n").await.unwrap().parse().unwrap();
        assert!(done > 0);
        assert_eq!(n, done, "{policy}");
    }
}

const CHILD: &str = "MEMORY_DRIFT_TEST_URL";

#[tokio::test]
async fn scenario_10_two_processes_lose_no_acknowledged_write() {
    let session = DriftSession::new(DriftPolicy::Row);
    if let Ok(url) = std::env::var(CHILD) {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(super::support::TestClock(0.into()));
        let memory = memory(&provider(&url, &clock).await, folder.path());
        let scope = memory::Scope::agent("acme", "ada").unwrap();
        let done = count(&Agent(session.guard(memory.backend().unwrap()), &scope), 200).await;
        println!("\ndone={done}.");
        return;
    }
    let Some(fixture) = Fixture::new().await else { return };
    let name = "drift::postgres::races::scenario_10_two_processes_lose_no_acknowledged_write";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, fixture.database.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut done = count(&Agent::of(&session, &fixture), 200).await;
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let theirs = said.split("done=").nth(1).and_then(|rest| rest.split('.').next());
    done += theirs.unwrap_or_else(|| panic!("the child said: {said}")).parse::<u32>().unwrap();
    let n: u32 = fixture.value("n").await.unwrap().parse().unwrap();
    assert_eq!(n, done);
}

/// Writes with SQL just before a set reaches the store, after all of the session's checks.
#[derive(Debug)]
struct Injected(Mutex<Option<String>>);

#[async_trait]
impl Hook for Injected {
    async fn before(&self, request: &mut Request) -> Result<Option<Reply>> {
        if request.op() == Op::Set
            && let Some(url) = self.0.lock().unwrap().take()
        {
            foreign_runs(&url, "UPDATE entry SET value = '\"injected\"'");
        }
        Ok(None)
    }
}

#[tokio::test]
async fn scenario_12_a_write_between_check_and_write_is_detected() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        fixture.other_sets("k", "1").await;
        let hook = Injected(Mutex::new(Some(fixture.database.url())));
        let memory = Memory::new(Arc::new(Interposed::new(fixture.memory.clone(), hook))).unwrap();
        let session = fixture.session(policy);
        let agent = Agent(session.guard(memory.backend().unwrap()), &fixture.scope);
        agent.read("k").await;
        assert!(reason(agent.set("k", "2").await).contains("changed"));
        assert_eq!(fixture.value("k").await.unwrap(), "\"injected\"");
    }
}

/// Both lock the scope and the row, in different orders: whichever the server aborts, nothing is overwritten unseen.
#[tokio::test]
async fn an_uncommitted_foreign_write_is_awaited() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        let session = fixture.session(policy);
        let agent = Agent::of(&session, &fixture);
        agent.set("k", "1").await.unwrap();
        let stranger = fixture.client().await;
        stranger.batch_execute("BEGIN; UPDATE memory.entry SET value = '9'").await.unwrap();
        let (refused, committed) =
            futures_util::future::join(agent.set("k", "2"), stranger.batch_execute("COMMIT")).await;
        committed.unwrap();
        assert!(reason(refused).contains("changed"));
        assert_eq!(fixture.value("k").await.unwrap(), "9");
    }
}
