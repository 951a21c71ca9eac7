//! Failing projections: the event stays, half a projection leaves nothing, and later ones wait.

use std::time::Duration;

use memory_governed::{Bucket, Options, Outcome};
use serde_json::json;

use crate::support::*;

/// Makes every projection of a title fail halfway.
async fn break_titles(world: &World, title: &str) {
    let sql = if world.store.given.contains("postgres:") {
        format!("ALTER TABLE shared_issues ADD CONSTRAINT broken CHECK (title <> '{title}')")
    } else {
        format!(
            "CREATE TRIGGER broken AFTER INSERT ON shared_issues WHEN NEW.title = '{title}' \
             BEGIN SELECT RAISE(ABORT, 'broken'); END"
        )
    };
    world.sql(&sql).await.unwrap();
}

async fn mend(world: &World) {
    let sql = if world.store.given.contains("postgres:") {
        "ALTER TABLE shared_issues DROP CONSTRAINT broken"
    } else {
        "DROP TRIGGER broken"
    };
    world.sql(sql).await.unwrap();
}

fn projection(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Committed { projection, .. } => projection,
        other => panic!("{other:?}"),
    }
}

on_both_stores! {
    async fn the_event_stays_the_row_does_not_and_both_are_tried_again_in_order(world) {
        break_titles(&world, "boom").await;
        assert_eq!(projection(&world.open_issue("a", "boom").await), "failed");
        assert_eq!(projection(&world.tell(upsert("issues", "a", json!({ "severity": "low" }))).await), "blocked");
        assert_eq!(projection(&world.open_issue("b", "fine").await), "applied");
        assert!(world.shared.row(Bucket::Issues, "a").await.unwrap().is_none());
        assert_eq!(world.count("applied_events WHERE applied_successfully = 0").await, 2);
        // A dependent write that only the row can prove waits.
        pending_of(&world.tell(resolve("a")).await);
        world.clock.advance(Duration::from_secs(10));
        world.pipeline.promote(0).await.unwrap();
        assert!(world.shared.row(Bucket::Issues, "a").await.unwrap().is_none(), "it fails again");
        mend(&world).await;
        world.clock.advance(Duration::from_secs(60));
        let report = world.pipeline.promote(0).await.unwrap();
        assert_eq!(report.committed, 1, "the deferred write");
        let row = world.row(Bucket::Issues, "a").await;
        assert_eq!((row.status.as_str(), row.text("severity"), row.rev), ("resolved", Some("low"), 3));
        world.sound().await;
    }

    /// Regression: only the first 64 stuck events were examined, including those of a row that was given up.
    async fn a_row_with_many_stuck_events_keeps_no_other_from_being_tried(world) {
        let mut options = Options::default();
        options.max_attempts = 2;
        let world = world.again(options).await;
        break_titles(&world, "boom").await;
        world.open_issue("a", "boom").await;
        world.clock.advance(Duration::from_secs(4_000));
        world.pipeline.promote(0).await.unwrap();
        assert_eq!(world.count("event_projection WHERE status = 'dead'").await, 1);
        world.open_issue("b", "boom").await;
        for n in 0..70 {
            for id in ["a", "b"] {
                assert_eq!(projection(&world.tell(upsert("issues", id, json!({ "severity": n.to_string() }))).await), "blocked");
            }
        }
        world.open_issue("c", "boom").await;
        mend(&world).await;
        world.clock.advance(Duration::from_secs(4_000));
        world.pipeline.promote(0).await.unwrap();
        assert_eq!(world.row(Bucket::Issues, "b").await.rev, 71, "with all that waited behind its first event");
        assert_eq!(world.row(Bucket::Issues, "c").await.status, "open");
        assert!(world.shared.row(Bucket::Issues, "a").await.unwrap().is_none());
    }

    async fn what_fails_too_often_is_given_up_until_a_rebuild(world) {
        let mut options = Options::default();
        options.max_attempts = 2;
        let world = world.again(options).await;
        break_titles(&world, "boom").await;
        world.open_issue("a", "boom").await;
        for _ in 0..3 {
            world.clock.advance(Duration::from_secs(4_000));
            world.pipeline.promote(0).await.unwrap();
        }
        assert_eq!(world.count("event_projection WHERE status = 'dead' AND attempts = 2").await, 1);
        mend(&world).await;
        world.clock.advance(Duration::from_secs(4_000));
        world.pipeline.promote(0).await.unwrap();
        assert!(world.shared.row(Bucket::Issues, "a").await.unwrap().is_none());
        let rebuilt = world.ledger.rebuild().await.unwrap();
        assert_eq!((rebuilt.agrees(), rebuilt.repaired, rebuilt.rows), (false, 1, 1));
        assert_eq!(world.row(Bucket::Issues, "a").await.text("title"), Some("boom"));
        world.sound().await;
    }
}
