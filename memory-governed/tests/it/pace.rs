//! A promotion and a rebuild of many rows, with their times, which are not asserted. `MEMORY_GOVERNED_EVENTS` sets the
//! number of events in the rebuild: 2,000 by default.

use std::time::Instant;

use memory_governed::Bucket;
use serde_json::json;

use crate::support::*;

/// Events of one note.
const NOTE: u64 = 16;

fn events() -> u64 {
    let wanted = std::env::var("MEMORY_GOVERNED_EVENTS").ok().and_then(|count| count.parse().ok());
    wanted.map_or(2_000, |count: u64| count.next_multiple_of(NOTE))
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
        // A rebuild verifies the chain first, so the events are real ones.
        for block in 0..count / NOTE {
            let event = |i: u64| match i % 2 {
                0 => append("results", &format!("r-{i}"), json!({ "metric_name": "m", "metric_value": i })),
                _ => upsert("issues", &format!("issue-{}", i % 1_000), json!({ "title": format!("thing {i} fails") })),
            };
            world.note(json!((block * NOTE..(block + 1) * NOTE).map(event).collect::<Vec<_>>())).await;
            world.promote().await;
        }
        // More than a page.
        let all = world.shared.bucket(Bucket::Results, true).await.unwrap();
        assert_eq!(all.len() as u64, count / 2);
        let began = Instant::now();
        let rebuilt = world.ledger.rebuild().await.unwrap();
        let took = began.elapsed();
        println!("{count} events, {} rows, rebuilt in {took:?}", rebuilt.rows);
        assert_eq!((rebuilt.events, world.count("shared_results").await), (count, i64::try_from(count / 2).unwrap()));
        assert!(world.ledger.rebuild().await.unwrap().agrees());
    }
}
