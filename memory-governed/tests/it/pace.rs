//! A promotion and a rebuild of many rows, and how long they take; nothing asserts the time. `MEMORY_GOVERNED_EVENTS` sets the events of the rebuild: 2,000 by default.

use std::time::Instant;

use memory_governed::Bucket;
use serde_json::json;

use crate::support::*;

fn events() -> u64 {
    std::env::var("MEMORY_GOVERNED_EVENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(2_000)
}

on_both_stores! {
    async fn a_promotion_among_400_open_issues(world) {
        for block in 0..25 {
            let requests: Vec<_> = (0..16)
                .map(|n| upsert("issues", &format!("issue_{block}_{n}"), json!({ "title": format!("thing {block} {n} fails"),
                    "description": "it has happened since the last release, and nobody knows why" })))
                .collect();
            world.note(json!(requests)).await;
            world.promote().await;
        }
        assert_eq!(world.shared.bucket(Bucket::Issues, false).await.unwrap().len(), 400);
        let mut took = Vec::new();
        for n in 0..40 {
            world.note(resolve(&format!("issue_{n}_3"))).await;
            let began = Instant::now();
            let promotion = world.promote().await;
            took.push(began.elapsed());
            assert_eq!(promotion.outcomes.len(), 1);
        }
        took.sort();
        println!("a promotion among 400 open issues: median {:?}, 90th percentile {:?}", took[20], took[36]);
    }

    async fn a_rebuild(world) {
        let count = events();
        world.sql(&format!(
            "INSERT INTO events_memory (seq, event_id, idempotency_key, observed_at, recorded_at, source_agent, source_run, \
             trust, note_id, bucket, target_id, operation, payload_json, source_ref, raw_digest, target_digest, content_digest, prev_hash, hash) \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
             SELECT i, 'e' || i, 'k' || i, i, i, 'ada', 'run', 'agent', 'note', \
             CASE i % 2 WHEN 0 THEN 'results' ELSE 'issues' END, \
             CASE i % 2 WHEN 0 THEN 'r-' || i ELSE 'issue-' || (i % 1000) END, \
             CASE i % 2 WHEN 0 THEN 'append' ELSE 'upsert' END, \
             CASE i % 2 WHEN 0 THEN '{{\"metric_name\":\"m\",\"metric_value\":' || i || '}}' \
             ELSE '{{\"title\":\"thing ' || i || ' fails\"}}' END, '{{}}', '', '', '', '', '' FROM n"
        )).await.unwrap();
        let began = Instant::now();
        let rebuilt = world.ledger.rebuild().await.unwrap();
        let took = began.elapsed();
        println!("{count} events, {} rows, rebuilt in {took:?}", rebuilt.rows);
        assert_eq!((rebuilt.events, world.count("shared_results").await), (count, i64::try_from(count / 2).unwrap()));
        assert!(world.ledger.rebuild().await.unwrap().agrees());
    }
}
