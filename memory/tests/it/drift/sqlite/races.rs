//! Concurrent writers: acknowledged writes are stored.

use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier, Mutex};

use memory::{
    DriftPolicy, DriftToken, ErrorKind, Hook, Interposed, Memory, Op, Reply, Request, Result, async_trait,
};
use rusqlite::Connection;

use super::support::{Agent, BOTH, Fixture, reason};

const ROUNDS: u32 = 500;

/// Increments a number by reading and writing it, as often as the store accepts; returns how often.
async fn count(agent: &Agent<'_>, rounds: u32) -> u32 {
    let mut done = 0;
    for _ in 0..rounds {
        let entry = agent.read("n").await;
        let n: u32 = entry.map_or(0, |entry| entry.value.as_str().parse().unwrap());
        match agent.set("n", &(n + 1).to_string()).await {
            Ok(outcome) => done += u32::from(outcome.written),
            Err(error) if error.kind() == ErrorKind::DriftDetected => {}
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    done
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn scenario_09_two_threads_lose_no_acknowledged_write() {
    for policy in BOTH {
        let fixture = Arc::new(runtime().block_on(Fixture::new()).unwrap());
        let barrier = Arc::new(Barrier::new(2));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (fixture, barrier) = (Arc::clone(&fixture), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    let session = memory::drift::DriftSession::new(policy);
                    barrier.wait();
                    runtime().block_on(count(&Agent::of(&session, &fixture), ROUNDS))
                })
            })
            .collect();
        let done: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        let n: u32 = runtime().block_on(fixture.value("n")).unwrap().parse().unwrap();
        assert!(done > 0);
        assert_eq!(n, done, "{policy}");
    }
}

const CHILD: &str = "MEMORY_DRIFT_TEST_FILE";

#[test]
fn scenario_10_two_processes_lose_no_acknowledged_write() {
    let session = memory::drift::DriftSession::new(DriftPolicy::Row);
    if let Ok(path) = std::env::var(CHILD) {
        let done = runtime().block_on(async {
            let clock = Fixture::new().await.unwrap().clock;
            let memory = super::support::open(path.as_ref(), &clock).await;
            let scope = memory::Scope::agent("acme", "ada").unwrap();
            count(&Agent(session.guard(memory.backend().unwrap()), &scope), 200).await
        });
        println!("\ndone={done}.");
        return;
    }
    let fixture = runtime().block_on(Fixture::new()).unwrap();
    let name = "drift::sqlite::races::scenario_10_two_processes_lose_no_acknowledged_write";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, &fixture.path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut done = runtime().block_on(count(&Agent::of(&session, &fixture), 200));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let theirs = said.split("done=").nth(1).and_then(|rest| rest.split('.').next());
    done += theirs.unwrap_or_else(|| panic!("the child said: {said}")).parse::<u32>().unwrap();
    let n: u32 = runtime().block_on(fixture.value("n")).unwrap().parse().unwrap();
    assert_eq!(n, done);
}

/// Writes with SQL just before a set reaches the store, after all of the session's checks.
#[derive(Debug)]
struct Injected(Mutex<Option<Connection>>);

#[async_trait]
impl Hook for Injected {
    async fn before(&self, request: &mut Request) -> Result<Option<Reply>> {
        if request.op() == Op::Set
            && let Some(foreign) = self.0.lock().unwrap().take()
        {
            foreign.execute_batch("UPDATE entry SET value = '\"injected\"'").unwrap();
        }
        Ok(None)
    }
}

#[tokio::test]
async fn scenario_12_a_write_between_check_and_write_is_detected() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        fixture.other_sets("k", "1").await;
        let hook = Injected(Mutex::new(Some(fixture.foreign())));
        let memory = Memory::new(Arc::new(Interposed::new(fixture.memory.clone(), hook))).unwrap();
        let session = fixture.session(policy);
        let agent = Agent(session.guard(memory.backend().unwrap()), &fixture.scope);
        agent.read("k").await;
        assert!(reason(agent.set("k", "2").await).contains("changed"));
        assert_eq!(fixture.value("k").await.unwrap(), "\"injected\"");
    }
}

#[tokio::test]
async fn writes_of_one_session_to_one_key_do_not_refuse_each_other() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        let session = fixture.session(policy);
        let agent = Agent::of(&session, &fixture);
        agent.set("k", "0").await.unwrap();
        let writes =
            futures_util::future::join3(agent.set("k", "1"), agent.set("k", "2"), agent.set("other", "3"));
        let (one, two, three) = writes.await;
        one.unwrap();
        two.unwrap();
        three.unwrap();
    }
}

#[tokio::test]
async fn every_change_changes_the_token() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut seen: Vec<DriftToken> = Vec::new();
    for n in 0..100 {
        fixture.other_sets("k", &n.to_string()).await;
        fixture.foreign_runs("UPDATE entry SET value = value");
        let state = fixture.memory.backend().unwrap().drift_state(&fixture.scope).await.unwrap();
        assert!(!seen.contains(&state.token));
        seen.push(state.token);
    }
    assert_eq!(fixture.memory.name(), "sqlite");
}
