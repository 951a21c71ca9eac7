//! Events: never changed, chained, and enough to make the tables from.

use std::sync::Arc;

use memory_core::ErrorKind;
use memory_governed::{Anchor, Options, Trust};
use serde_json::json;

use crate::support::*;

on_both_stores! {
    async fn no_statement_changes_an_event(world) {
        world.open_issue("a", "one").await;
        for sql in [
            "UPDATE events_memory SET source_agent = 'eve'",
            "DELETE FROM events_memory",
            "DELETE FROM events_raw",
        ] {
            assert_eq!(world.sql(sql).await.unwrap_err().kind(), ErrorKind::InvalidArgument, "{sql}");
        }
        world.sound().await;
    }

    async fn what_is_missing_of_the_tables_is_made_when_the_space_is_opened(world) {
        world.open_issue("a", "one").await;
        let off = if world.store.given.contains("postgres:") {
            "DROP TRIGGER events_memory_rows ON events_memory"
        } else {
            "DROP TRIGGER events_memory_DELETE"
        };
        for sql in [off, "DROP INDEX notes_by_agent", "DROP TABLE shadow_shared_issues"] {
            world.sql(sql).await.unwrap();
        }
        let world = world.again(Options::default()).await;
        let refused = world.sql("DELETE FROM events_memory").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert_eq!(world.sql("DROP INDEX notes_by_agent").await.unwrap(), 0);
        assert!(world.ledger.rebuild().await.unwrap().agrees());
    }

    async fn an_event_that_was_changed_removed_or_cut_off_is_found(world) {
        for n in 0..5 {
            world.open_issue(&format!("issue_{n}"), "one").await;
        }
        let anchor = world.ledger.anchor().await.unwrap();
        assert_eq!(anchor.seq, 5);
        assert_eq!(world.ledger.verify(Some(&anchor)).await.unwrap().anchor, anchor);
        // Whoever owns the file can switch the triggers off.
        let off: &[&str] = if world.store.given.contains("postgres:") {
            &["ALTER TABLE events_memory DISABLE TRIGGER USER", "ALTER TABLE events_raw DISABLE TRIGGER USER"]
        } else {
            &[
                "DROP TRIGGER events_memory_UPDATE",
                "DROP TRIGGER events_memory_DELETE",
                "DROP TRIGGER events_raw_DELETE",
            ]
        };
        for sql in off {
            world.sql(sql).await.unwrap();
        }
        let seq = |error: memory_core::Error| {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            error.details()["seq"].as_u64().unwrap()
        };
        world.sql("UPDATE events_memory SET target_id = 'x' WHERE seq = 3").await.unwrap();
        assert_eq!(seq(world.ledger.verify(None).await.unwrap_err()), 3);
        world.sql("UPDATE events_memory SET target_id = 'issue_2' WHERE seq = 3").await.unwrap();
        world.sql("UPDATE events_raw SET raw_input = raw_input || '!'").await.unwrap();
        assert_eq!(seq(world.ledger.verify(None).await.unwrap_err()), 1);
        world.sql("UPDATE events_raw SET raw_input = substr(raw_input, 1, length(raw_input) - 1)").await.unwrap();
        world.ledger.verify(Some(&anchor)).await.unwrap();
        world.sql("DELETE FROM events_memory WHERE seq = 5").await.unwrap();
        // The chain alone cannot tell that its end is missing.
        assert_eq!(world.ledger.verify(None).await.unwrap().events, 4);
        assert_eq!(seq(world.ledger.verify(Some(&anchor)).await.unwrap_err()), 5);
        world.sql("DELETE FROM events_memory WHERE seq = 2").await.unwrap();
        assert_eq!(seq(world.ledger.verify(None).await.unwrap_err()), 2);
        let foreign = Anchor { seq: 1, hash: "0".repeat(64) };
        assert_eq!(seq(world.ledger.verify(Some(&foreign)).await.unwrap_err()), 1);
        // Words that are missing without a tombstone were not forgotten.
        world.sql("DELETE FROM events_raw").await.unwrap();
        assert_eq!(seq(world.ledger.verify(None).await.unwrap_err()), 1);
    }

    async fn a_space_that_an_earlier_build_made_is_refused(world) {
        world.sql("ALTER TABLE events_memory RENAME COLUMN target_digest TO other").await.unwrap();
        let again = space_on(Arc::clone(&world.store.provider), Arc::clone(&world.clock), Options::default()).await;
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Unsupported);
    }

    async fn the_tables_are_what_the_events_give_whatever_happened(world) {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for step in 0..120_u64 {
            let id = format!("id_{}", next(6));
            let request = match next(9) {
                0 => upsert("plan", "main", json!({ "plan_json": { "step": next(3) } })),
                1 => upsert("constraints", &id, json!({ "text": format!("c{}", next(3)) })),
                2 => invalidate("constraints", &id),
                3 => upsert("issues", &id, json!({ "title": format!("t{}", next(3)), "severity": "low" })),
                4 => resolve(&id),
                5 => append("decisions", &id, json!({ "statement": format!("s{}", next(3)) })),
                6 => invalidate("decisions", &id),
                7 => upsert("task_state", &id, json!({ "status": "done", "blockers_json": ["b", step] })),
                _ => append("results", &id, json!({ "metric_name": "m", "metric_value": (step as f64) / 3.0 })),
            };
            world.tell_by(&actor(&format!("agent_{}", next(3)), Trust::Agent), request).await;
        }
        assert!(world.count("events_memory").await > 40);
        world.sound().await;
    }

    async fn the_same_note_is_promoted_once(world) {
        world.open_issue("a", "one").await;
        let note = world.note(append("results", "r", json!({ "metric_name": "m", "metric_value": 1 }))).await;
        world.promote().await;
        assert!(world.pipeline.promote_one().await.unwrap().is_none(), "a second run takes no note twice");
        // Even if somebody hands the note out again, its requests are known.
        world.sql(&format!("UPDATE notes SET state = 'new', lease_until = 0 WHERE note_id = '{}'", note.id)).await.unwrap();
        world.promote().await;
        assert_eq!((world.count("events_memory").await, world.count("shared_results").await), (2, 1));
        world.sound().await;
    }
}
