//! The seven state machines.

use std::time::Duration;

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

    async fn a_constraint_is_active_until_it_is_invalidated_and_nothing_reopens_it(world) {
        assert!(is_committed(&world.tell(upsert("constraints", "budget", json!({ "text": "spend 5" }))).await));
        assert_eq!(world.row(Bucket::Constraints, "budget").await.status, "active");
        assert!(is_committed(&world.tell(upsert("constraints", "budget", json!({ "scope": "team" }))).await));
        assert!(is_committed(&world.tell(invalidate("constraints", "budget")).await));
        let row = world.row(Bucket::Constraints, "budget").await;
        assert_eq!((row.status.as_str(), row.valid_to.is_some(), row.rev), ("invalidated", true, 3));
        assert!(is_no_op(&world.tell(invalidate("constraints", "budget")).await));
        let again = world.tell(upsert("constraints", "budget", json!({ "text": "spend 9" }))).await;
        pending_of(&again);
        assert_eq!(world.row(Bucket::Constraints, "budget").await, row);
        world.sound().await;
    }

    async fn an_issue_is_patched_resolved_and_never_silently_reopened(world) {
        let payload = json!({ "title": "redis times out", "severity": "high", "description": "since noon" });
        assert!(is_committed(&world.tell(upsert("issues", "redis_timeout", payload)).await));
        assert!(is_committed(&world.tell(upsert("issues", "redis_timeout", json!({ "severity": "low" }))).await));
        let row = world.row(Bucket::Issues, "redis_timeout").await;
        assert_eq!((row.text("severity"), row.text("description")), (Some("low"), Some("since noon")));
        assert!(is_committed(&world.tell(resolve("redis_timeout")).await));
        let resolved = world.row(Bucket::Issues, "redis_timeout").await;
        assert_eq!((resolved.status.as_str(), resolved.text("severity")), ("resolved", Some("low")));
        pending_of(&world.tell(upsert("issues", "redis_timeout", json!({ "title": "redis times out" }))).await);
        assert_eq!(world.row(Bucket::Issues, "redis_timeout").await, resolved);
        assert!(is_no_op(&world.tell(resolve("redis_timeout")).await));
        world.sound().await;
    }

    async fn decisions_accumulate_and_a_different_one_of_the_same_id_is_a_sibling(world) {
        let one = append("decisions", "storage", json!({ "statement": "use sqlite" }));
        assert!(is_committed(&world.tell(one.clone()).await));
        assert!(is_no_op(&world.tell(one).await));
        let other = append("decisions", "storage", json!({ "statement": "use postgres" }));
        assert!(is_committed(&world.tell(other.clone()).await));
        assert!(is_no_op(&world.tell(other).await), "the sibling's id comes of what it says");
        assert_eq!(world.count("shared_decisions").await, 2);
        assert_eq!(world.row(Bucket::Decisions, "storage").await.text("statement"), Some("use sqlite"));
        assert!(is_committed(&world.tell(invalidate("decisions", "storage")).await));
        assert_eq!(world.row(Bucket::Decisions, "storage").await.status, "superseded");
        assert_eq!(world.shared.bucket(Bucket::Decisions, false).await.unwrap().len(), 1);
        world.sound().await;
    }

    async fn results_only_accumulate(world) {
        for value in [1.5, 1.5, 2.0] {
            let measured = append("results", "latency", json!({ "metric_name": "p50", "metric_value": value }));
            assert!(is_committed(&world.tell(measured).await));
        }
        assert_eq!(world.count("shared_results").await, 3);
        let whole = append("results", "count", json!({ "metric_name": "n", "metric_value": 7, "baseline_value": null }));
        assert!(is_committed(&world.tell(whole).await));
        assert_eq!(world.row(Bucket::Results, "count").await.fields["metric_value"].as_f64(), Some(7.0));
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

    async fn a_write_that_makes_no_sense_is_rejected_and_leaves_no_event(world) {
        for request in [
            upsert("results", "a", json!({ "metric_name": "n", "metric_value": 1 })),
            upsert("issues", "Not_A_Slug", json!({ "title": "t" })),
            upsert("issues", "a", json!({ "description": "no title" })),
            upsert("issues", "a", json!({ "title": "t", "status": "resolved" })),
            upsert("issues", "a", json!({ "title": 7 })),
            upsert("issues", "a", json!({ "title": "x".repeat(9_000) })),
            upsert("task_state", "a", json!({ "status": "finished" })),
            append("results", "a", json!({ "metric_name": "n", "metric_value": "1" })),
            json!({ "bucket": "task_state", "operation": "upsert", "payload": { "status": "done" } }),
            json!({ "bucket": "issues", "operation": "upsert", "target_id": "a", "payload": { "title": "t" },
                "candidate_aliases": (0..9).map(|n| n.to_string()).collect::<Vec<_>>() }),
        ] {
            let outcome = world.tell(request.clone()).await;
            assert!(matches!(outcome, Outcome::Rejected { .. }), "{request}: {outcome:?}");
        }
        world.note("just a thought").await;
        assert_eq!(world.promote().await.reason.as_deref(), Some("noise"));
        assert_eq!(world.count("events_memory").await, 0);
        assert_eq!(world.count("pending_memory_events").await, 0);
    }

    async fn an_id_of_one_bucket_or_tenant_is_not_that_of_another(world) {
        world.open_issue("cache", "cold cache").await;
        world.tell(upsert("constraints", "cache", json!({ "text": "stay under 1 GB" }))).await;
        assert!(is_committed(&world.tell(resolve("cache")).await));
        assert_eq!(world.row(Bucket::Constraints, "cache").await.status, "active");
        let other = memory_governed::Space::open(
            std::sync::Arc::clone(&world.store.provider), &"zeta".parse().unwrap(), "shared",
            std::sync::Arc::clone(&world.clock) as _, std::sync::Arc::new(TestIds), memory_governed::Options::default(),
        ).await.unwrap();
        assert!(memory_governed::SharedMemory::new(&other).row(Bucket::Issues, "cache").await.unwrap().is_none());
    }

    async fn an_older_note_ends_no_row_that_was_opened_later(world) {
        let ada = actor("ada", Trust::Agent);
        world.clock.advance(Duration::from_secs(60));
        world.open_issue("redis_timeout", "redis times out").await;
        let before = Timestamp::from_millis(1_800_000_000_500).unwrap();
        world.notes.note(&ada, NoteSource::Agent, &resolve("redis_timeout").to_string(), Some(before)).await.unwrap();
        pending_of(&world.promote().await.outcomes[0]);
        assert_eq!(world.row(Bucket::Issues, "redis_timeout").await.status, "open");
    }

    async fn what_a_tool_says_ends_nothing_by_itself(world) {
        world.open_issue("redis_timeout", "redis times out").await;
        let tool = actor("fetch", Trust::Untrusted);
        world.notes.note(&tool, NoteSource::ToolResult, &resolve("redis_timeout").to_string(), None).await.unwrap();
        pending_of(&world.promote().await.outcomes[0]);
        assert_eq!(world.row(Bucket::Issues, "redis_timeout").await.status, "open");
    }
}
