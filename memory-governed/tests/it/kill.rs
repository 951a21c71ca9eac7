//! A pipeline killed at any moment loses no note, promotes none twice, and leaves ledger and tables in agreement.
//!
//! `MEMORY_KILL_ROUNDS` sets the number of kills of each store: 12 by default, 1,000 before a release.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use memory_governed::{NoteSource, Options, PromotionPipeline, Trust, WorkingMemory};
use serde_json::json;

use crate::support::*;

const CHILD: &str = "MEMORY_GOVERNED_CHILD";
/// What the child writes, note by note.
const NOTES: &str = "MEMORY_GOVERNED_NOTES";

fn rounds() -> u64 {
    std::env::var("MEMORY_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12)
}

/// The child's leases are short, so that its successor need not wait.
fn options() -> Options {
    let mut options = Options::default();
    options.lease = Duration::from_millis(1);
    options
}

fn spawn(given: &str, round: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["kill::the_process_that_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, given)
        .env(NOTES, round.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Notes and promotes until it is killed. Not a test in itself: without its variable it does nothing.
#[tokio::test]
async fn the_process_that_is_killed() {
    let Ok(given) = std::env::var(CHILD) else { return };
    let round = std::env::var(NOTES).unwrap();
    let clock = World::real_clock();
    let mut options = Options::default();
    options.lease = Duration::from_secs(5);
    let space = space_on(opened(&given).await, clock, options).await.unwrap();
    let notes = WorkingMemory::new(&space);
    let pipeline = PromotionPipeline::new(&space, Arc::new(Literal), Arc::new(Exact));
    for n in 0_u64.. {
        let requests = json!([
            append("results", &format!("r_{round}_{n}"), json!({ "metric_name": "m", "metric_value": n })),
            upsert("task_state", "work", json!({ "status": if n % 2 == 0 { "done" } else { "pending" } })),
            resolve_the("nobody knows what"),
        ]);
        let ada = actor("ada", Trust::Agent);
        notes.note(&ada, NoteSource::Agent, &literal(&requests.to_string()), None).await.unwrap();
        pipeline.promote_one().await.unwrap();
    }
}

async fn survives(store: Kept) {
    let given = store.given.clone();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..rounds() {
        let mut child = spawn(&given, round);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // At first opening takes most of the time; then every step of a promotion is equally likely.
        tokio::time::sleep(Duration::from_millis(250 + random % 400)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Past every lease that a killed process left.
    let world = World::real(store, options()).await;
    world.clock.advance(Duration::from_secs(60));
    while world.pipeline.promote_one().await.unwrap().is_some() {}
    let (notes, done) = (world.count("notes").await, world.count("notes WHERE state = 'done'").await);
    println!("{} kills, {notes} notes, {} events", rounds(), world.count("events_memory").await);
    assert!(notes > 0, "no child came as far as a note");
    assert_eq!(notes, done, "a note was lost");
    assert_eq!(world.count("shared_results").await, notes, "each note is one result, once");
    assert_eq!(world.count("pending_memory_events").await, notes, "each note defers one write, once");
    assert_eq!(world.count("event_projection WHERE status NOT IN ('applied', 'recorded')").await, 0);
    world.sound().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite() {
    survives(Store::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres() {
    if let Some(store) = Store::postgres().await {
        survives(store).await;
    }
}
