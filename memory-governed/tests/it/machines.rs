//! The seven state machines.

use memory_core::Timestamp;
use memory_governed::{Bucket, NoteSource, Outcome, Trust};
use serde_json::json;

use crate::support::*;

on_both_stores! {
    async fn a_plan_is_one_row_whose_version_grows(world) {
        for (goal, version) in [("ship", 1), ("ship", 1), ("rest", 2)] {
            world.tell(json!({ "bucket": "plan", "operation": "upsert", "target_id": "another",
                "payload": { "plan_json": { "goal": goal } } })).await;
            let row = world.row(Bucket::Plan, "main").await;
            assert_eq!((row.rev, &row.fields["plan_json"]["goal"]), (version, &json!(goal)));
        }
        assert_eq!((world.count("shared_plan").await, world.count("events_memory").await), (1, 2));
        world.sound().await;
    }

    async fn the_latest_observation_of_a_task_wins_in_whatever_order_notes_come(world) {
        let ada = actor("ada", Trust::Agent);
        let observed = |status: &str, at: i64| {
            let request = upsert("task_state", "build", json!({ "status": status, "phase": status })).to_string();
            (request, Timestamp::from_millis(1_700_000_000_000 + at).unwrap())
        };
        for (status, at, projection) in [
            ("in_progress", 10, "applied"), ("done", 30, "applied"), ("blocked", 20, "recorded"), ("done", 40, "applied"),
            ("failed", 35, "recorded"),
        ] {
            let (request, at) = observed(status, at);
            world.notes.note(&ada, NoteSource::Agent, &literal(&request), Some(at)).await.unwrap();
            let promotion = world.promote().await;
            assert!(
                matches!(&promotion.outcomes[0], Outcome::Committed { projection: found, .. } if *found == projection),
                "{status}: {promotion:?}"
            );
        }
        let row = world.row(Bucket::TaskState, "build").await;
        assert_eq!((row.status.as_str(), row.text("phase")), ("done", Some("done")));
        assert_eq!(world.count("events_memory").await, 5);
        world.sound().await;
    }

    async fn learnings_are_known_once(world) {
        let said = |id: &str| append("learnings", id, json!({ "statement": "retries hide faults", "confidence": 0.5 }));
        assert!(is_committed(&world.tell(said("one")).await));
        assert!(is_no_op(&world.tell(said("two")).await));
        let nameless = json!({ "bucket": "learnings", "operation": "append", "payload": { "statement": "Clocks lie." } });
        assert!(is_committed(&world.tell(nameless).await));
        assert_eq!(world.row(Bucket::Learnings, "clocks_lie").await.status, "active");
        world.sound().await;
    }
}
