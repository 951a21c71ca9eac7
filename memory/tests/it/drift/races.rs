//! Concurrent writers: acknowledged writes are stored.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use memory::drift::DriftSession;
use memory::{
    DriftPolicy, DriftToken, ErrorKind, Hook, Interposed, Memory, Op, Reply, Request, Result, async_trait,
};

use super::support::{Agent, BOTH, Fixture, foreign_runs, reason};

/// Increments a number by reading and writing it, as often as the store accepts; returns how often.
async fn count(agent: &Agent<&DriftSession, &Fixture>, rounds: u32) -> u32 {
    let mut done = 0;
    for _ in 0..rounds {
        let entry = agent.read("n").await;
        let n: u32 = entry.map_or(0, |entry| entry.value.as_str().parse().unwrap());
        match agent.set("n", &(n + 1).to_string()).await {
            Ok(outcome) => done += u32::from(outcome.written),
            Err(error) if matches!(error.kind(), ErrorKind::DriftDetected | ErrorKind::Unavailable) => {}
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
        let task = || {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move { count(&Agent::of(&DriftSession::new(policy), &fixture), 500).await })
        };
        let (one, other) = (task(), task());
        let done = one.await.unwrap() + other.await.unwrap();
        let n: u32 = fixture.value("n").await.unwrap().parse().unwrap();
        assert!(done > 0);
        assert_eq!(n, done, "{policy}");
    }
}

const CHILD: &str = "MEMORY_DRIFT_TEST_STORE";

#[tokio::test]
async fn scenario_10_two_processes_lose_no_acknowledged_write() {
    let session = DriftSession::new(DriftPolicy::Row);
    let Some(fixture) = Fixture::new().await else { return };
    if let Ok(place) = std::env::var(CHILD) {
        let memory = fixture.opened(&place).await;
        println!("\ndone={}.", count(&Agent::on(&memory, &session, &fixture), 200).await);
        return;
    }
    let module = module_path!().split_once("::").unwrap().1;
    let child = Command::new(std::env::current_exe().unwrap())
        .arg("--exact")
        .arg(format!("{module}::scenario_10_two_processes_lose_no_acknowledged_write"))
        .arg("--nocapture")
        .env(CHILD, fixture.place())
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
            && let Some(place) = self.0.lock().unwrap().take()
        {
            foreign_runs(&place, "UPDATE entry SET value = '\"injected\"'");
        }
        Ok(None)
    }
}

#[tokio::test]
async fn scenario_12_a_write_between_check_and_write_is_detected() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        fixture.other_sets("k", "1").await;
        let hook = Injected(Mutex::new(Some(fixture.place())));
        let memory = Memory::new(Arc::new(Interposed::new(fixture.memory.clone(), hook))).unwrap();
        let session = fixture.session(policy);
        let agent = Agent::on(&memory, &session, &fixture);
        agent.read("k").await;
        assert!(reason(agent.set("k", "2").await).contains("changed"));
        assert_eq!(fixture.value("k").await.unwrap(), "\"injected\"");
    }
}

#[tokio::test]
async fn writes_of_one_session_to_one_key_do_not_refuse_each_other() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
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
        fixture.foreign_runs("UPDATE entry SET value = value || ' '");
        let state = fixture.backend().drift_state(&fixture.scope).await.unwrap();
        assert!(!seen.contains(&state.token));
        seen.push(state.token);
    }
}
