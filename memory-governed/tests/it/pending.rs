//! What waits: whose, for what, and how long.

use std::time::Duration;

use memory_core::{ErrorKind, Retry};
use memory_governed::{Bucket, Options, PendingStatus, Trust};
use serde_json::json;

use crate::support::*;

on_both_stores! {
    async fn a_vague_note_waits_and_is_bound_once_a_later_note_names_the_row(world) {
        world.open_issue("redis_timeout", "redis times out").await;
        world.open_issue("lint", "lint fails").await;
        let eve = actor("eve", Trust::Agent);
        let pending = pending_of(&world.tell_by(&eve, resolve_the("the cache trouble")).await).to_owned();
        let shown = world.queue.show(&pending).await.unwrap().unwrap();
        assert_eq!((shown.candidates.len(), shown.status), (2, PendingStatus::Waiting));
        world.note(json!({ "bucket": "issues", "operation": "upsert", "target_id": "redis_timeout",
            "payload": { "severity": "high" }, "candidate_aliases": ["Cache   Trouble"] })).await;
        let promotion = world.promote().await;
        assert!(promotion.replayed.iter().any(is_committed), "{promotion:?}");
        assert_eq!(world.row(Bucket::Issues, "redis_timeout").await.status, "resolved");
        assert_eq!(world.row(Bucket::Issues, "lint").await.status, "open");
        let why = world.shared.why(Bucket::Issues, "redis_timeout").await.unwrap();
        let last = why.events.last().unwrap();
        assert_eq!(last.event.actor, eve, "it is still who said it");
        assert_eq!(last.event.causation_pending_id.as_deref(), Some(pending.as_str()));
        let resolved = world.queue.show(&pending).await.unwrap().unwrap();
        assert_eq!(resolved.status, PendingStatus::Resolved);
        assert_eq!(resolved.resolved_event.as_ref(), Some(&last.event.event_id));
        world.sound().await;
    }

    async fn what_is_committed_is_told_though_others_cannot_be_tried_again(world) {
        world.open_issue("redis_timeout", "redis times out").await;
        world.open_issue("lint", "lint fails").await;
        pending_of(&world.tell(resolve_the("whatever")).await);
        let other = pending_of(&world.tell(resolve_the("the other trouble")).await).to_owned();
        world.clock.advance(Duration::from_secs(3_600));
        let broken = if world.store.given.contains("postgres:") {
            "ALTER TABLE pending_memory_events ADD CONSTRAINT broken CHECK (attempts < 1)"
        } else {
            "CREATE TRIGGER broken BEFORE UPDATE OF attempts ON pending_memory_events BEGIN SELECT RAISE(ABORT, 'broken'); END"
        };
        world.sql(broken).await.unwrap();
        assert!(world.pipeline.promote(0).await.is_err(), "a run that only tries again says that it cannot");
        assert!(is_committed(&world.tell(resolve("redis_timeout")).await));
        let bound = world.review.bind(&other, "lint", &person()).await.unwrap();
        assert!(is_committed(&bound), "{bound:?}");
    }

    async fn many_that_cannot_be_bound_do_not_starve_one_that_can(world) {
        world.open_issue("redis_timeout", "redis times out").await;
        for n in 0..40 {
            world.tell(resolve_the(&format!("thing {n}"))).await;
        }
        let last = pending_of(&world.tell(resolve_the("the slow cache")).await).to_owned();
        // Written behind the stages' back, so that nothing wakes it.
        world.sql("UPDATE shared_issues SET reference_memory_json = '[{\"alias\":\"slow cache\",\"trust\":\"agent\"}]'").await.unwrap();
        let mut rounds = 0;
        while world.queue.show(&last).await.unwrap().unwrap().status == PendingStatus::Waiting {
            world.clock.advance(Duration::from_secs(5));
            world.pipeline.promote(0).await.unwrap();
            rounds += 1;
            assert!(rounds < 20, "it starves");
        }
        assert_eq!(world.row(Bucket::Issues, "redis_timeout").await.status, "resolved");
    }

    async fn attempts_back_off_and_end_with_a_person(world) {
        let mut options = Options::default();
        options.max_attempts = 3;
        let world = world.again(options).await;
        let pending = pending_of(&world.tell(resolve_the("whatever")).await).to_owned();
        let mut waits = Vec::new();
        for attempt in 1..=3 {
            let mut seconds = 0;
            loop {
                world.clock.advance(Duration::from_secs(1));
                seconds += 1;
                world.pipeline.promote(0).await.unwrap();
                let now = world.queue.show(&pending).await.unwrap().unwrap();
                if now.attempts == attempt || now.status == PendingStatus::NeedsReview {
                    break;
                }
                assert!(seconds < 100);
            }
            waits.push(seconds);
        }
        // 1, 2 and 4 seconds, plus up to a quarter.
        assert!(waits.iter().zip([1, 2, 4]).all(|(waited, pause)| *waited == pause || *waited == pause + 1), "{waits:?}");
        assert_eq!(world.queue.list(PendingStatus::NeedsReview, 10).await.unwrap().len(), 1);
    }

    /// Regression: after five minutes a name no longer bound anything, and neither did one for a write behind 200
    /// others.
    async fn a_name_binds_what_was_tried_too_often_until_it_has_waited_too_long(world) {
        world.open_issue("redis_timeout", "redis times out").await;
        world.open_issue("lint", "lint fails").await;
        world.tell(append("decisions", "other", json!({ "statement": "x" }))).await;
        for n in 0..210 {
            world.tell(resolve_the(&format!("thing {n}"))).await;
        }
        let vague = pending_of(&world.tell(resolve_the("the Wet box mess")).await).to_owned();
        let late = pending_of(&world.tell(resolve_the("the dry box mess")).await).to_owned();
        world.sql("UPDATE pending_memory_events SET status = 'needs_review', attempts = max_attempts").await.unwrap();
        world.sql(&format!("UPDATE pending_memory_events SET expires_at = 1 WHERE pending_id = '{late}'")).await.unwrap();
        let called = json!({ "bucket": "issues", "operation": "upsert", "target_id": "redis_timeout",
            "payload": { "severity": "high" }, "candidate_aliases": ["wet box mess"] });
        world.note(called).await;
        let promotion = world.promote().await;
        assert!(promotion.replayed.iter().any(is_committed), "{promotion:?}");
        assert_eq!(world.queue.show(&vague).await.unwrap().unwrap().status, PendingStatus::Resolved);
        let other = json!({ "bucket": "issues", "operation": "upsert", "target_id": "lint",
            "payload": { "severity": "high" }, "candidate_aliases": ["dry box mess"] });
        world.note(other).await;
        world.promote().await;
        assert_eq!(world.queue.show(&late).await.unwrap().unwrap().status, PendingStatus::NeedsReview);
        world.sound().await;
    }

    async fn people_bind_and_reject_and_each_decision_is_kept(world) {
        world.open_issue("disk_full", "one").await;
        world.open_issue("net_down", "two").await;
        let eve = actor("eve", Trust::Agent);
        let first = pending_of(&world.tell_by(&eve, resolve_the("the earlier blocker")).await).to_owned();
        let second = pending_of(&world.tell_by(&eve, resolve_the("that thing")).await).to_owned();
        assert_eq!(world.review.bind(&first, "disk_full", &eve).await.unwrap_err().kind(), ErrorKind::Forbidden);
        assert_eq!(world.review.bind(&first, "nowhere", &person()).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert!(is_committed(&world.review.bind(&first, "disk_full", &person()).await.unwrap()));
        let again = world.review.bind(&first, "net_down", &person()).await.unwrap_err();
        assert_eq!((again.kind(), again.retry()), (ErrorKind::Conflict, Retry::Never));
        for none in ["", "x".repeat(4_001).as_str()] {
            let refused = world.review.reject(&second, none, &person()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        }
        world.review.reject(&second, "nothing was meant", &person()).await.unwrap();
        assert_eq!(world.queue.show(&second).await.unwrap().unwrap().status, PendingStatus::Rejected);
        assert_eq!(world.row(Bucket::Issues, "net_down").await.status, "open");
        let why = world.shared.why(Bucket::Issues, "disk_full").await.unwrap();
        let event = &why.events.last().unwrap().event;
        assert_eq!((&event.actor, &event.source_ref.reviewed_by), (&eve, &Some(person())));
        assert_eq!(world.count("reviews").await, 2);
        // A decision that changed no row is an event too: four in all, with the two issues and the end of one.
        let decided = format!("events_memory WHERE operation = 'review' AND trust = 'person' AND causation_pending_id = '{second}'");
        assert_eq!((world.count("events_memory").await, world.count(&decided).await), (4, 1));
        let reasons = "events_memory WHERE payload_json LIKE '%nothing was meant%'";
        assert_eq!(world.count(reasons).await, 1);
        let gone = world.eraser.note(&world.queue.show(&second).await.unwrap().unwrap().note.id, &person(), false).await.unwrap();
        assert!(gone.rows.is_empty(), "{gone:?}");
        assert_eq!(world.count(reasons).await, 0);
        assert!(world.sql("DELETE FROM reviews").await.is_err());
        world.sound().await;
    }

    async fn a_note_that_cannot_be_told_now_stays_new_and_is_tried_later(world) {
        let note = world.note("retry: the model is busy").await;
        let promotion = world.promote().await;
        assert!(promotion.is_retried && promotion.outcomes.is_empty());
        assert!(world.pipeline.promote_one().await.unwrap().is_none(), "not at once");
        assert_eq!(world.notes.notes("ada", "run").await.unwrap()[0].state, "new");
        world.clock.advance(Duration::from_secs(5));
        let begun = world.pipeline.now();
        assert_eq!(world.promote().await.note_id, note.id);
        world.clock.advance(Duration::from_secs(60));
        assert!(world.pipeline.promote_due(begun).await.unwrap().is_none(), "a run tries each note once");
        assert_eq!(world.promote().await.note_id, note.id);
        assert_eq!(world.count("events_memory").await, 0);
    }

    async fn a_note_is_not_tried_again_before_the_model_allows_it(world) {
        let note = world.note("retry in an hour: the model is busy").await;
        world.note("noise that it would tell at once").await;
        for _ in 0..2 {
            let left = world.promote().await;
            assert!(left.is_retried, "{left:?}");
        }
        world.clock.advance(Duration::from_secs(3_500));
        assert!(world.pipeline.promote_one().await.unwrap().is_none());
        world.clock.advance(Duration::from_secs(101));
        assert_eq!(world.promote().await.note_id, note.id);
    }
}
