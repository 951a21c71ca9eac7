//! Several pipelines at once.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Clock as _, ErrorKind};
use memory_governed::{Options, PromotionPipeline, Trust};
use serde_json::json;

use crate::support::*;

on_both_stores! {
    async fn many_pipelines_promote_each_note_exactly_once(world) {
        for n in 0..24 {
            world.note(append("results", &format!("r_{n}"), json!({ "metric_name": "m", "metric_value": n }))).await;
            world.note_by(&actor("bob", Trust::Agent), upsert("issues", "shared", json!({ "title": format!("t{}", n % 3) }))).await;
        }
        // The clock advances each time it is read: a lease must outlast the race.
        let mut options = Options::default();
        options.lease = Duration::from_secs(3_600);
        let mut running = Vec::new();
        for _ in 0..4 {
            // Each has its own handle on the same store, like another process.
            let provider = opened(&world.store.given).await;
            let space = space_on(provider, Arc::clone(&world.clock), options.clone()).await.unwrap();
            let pipeline = PromotionPipeline::new(&space, Arc::new(Literal), Arc::new(Exact));
            running.push(tokio::spawn(async move {
                let mut notes = 0;
                while let Some(promotion) = pipeline.promote_one().await.unwrap() {
                    assert_eq!(promotion.outcomes.len(), 1);
                    notes += 1;
                }
                notes
            }));
        }
        let mut notes = 0;
        for one in running {
            notes += one.await.unwrap();
        }
        assert_eq!(notes, 48);
        assert_eq!(world.count("shared_results").await, 24);
        assert_eq!(world.count("notes WHERE state = 'done'").await, 48);
        world.sound().await;
    }

    async fn a_rehearsal_says_what_would_be_and_changes_nothing(world) {
        world.open_issue("a", "one").await;
        let (before, vague) = (world.ledger.verify(None).await.unwrap(), world.note(resolve_the("thing")).await);
        let clear = world.note(resolve("a")).await;
        for (note, commits) in [(&vague, false), (&clear, true), (&clear, true)] {
            let told = world.pipeline.rehearse(note).await.unwrap();
            assert_eq!(is_committed(&told.outcomes[0]), commits, "{told:?}");
        }
        assert_eq!(world.ledger.verify(None).await.unwrap(), before);
        assert_eq!(world.count("pending_memory_events").await, 0);
        assert_eq!(world.pipeline.promote(10).await.unwrap().committed, 1);
        world.sound().await;
    }

    async fn what_another_pipeline_holds_is_told_until_its_lease_ends(world) {
        world.note(append("results", "r", json!({ "metric_name": "m", "metric_value": 1 }))).await;
        assert_eq!(world.pipeline.held().await.unwrap(), None);
        let now = world.clock.now();
        let until = now.as_millis() + 60_000;
        world.sql(&format!("UPDATE notes SET state = 'leased', lease = 'killed', lease_until = {until}")).await.unwrap();
        assert!(world.pipeline.promote_one().await.unwrap().is_none());
        let held = world.pipeline.held().await.unwrap().expect("a note");
        assert_eq!((held.notes, held.until.as_millis()), (1, until));
        world.clock.advance(Duration::from_secs(61));
        assert_eq!(world.pipeline.held().await.unwrap(), None);
        assert!(world.pipeline.promote_one().await.unwrap().is_some());
    }

    async fn a_pipeline_that_is_too_slow_commits_nothing_and_another_takes_the_note(world) {
        world.note(append("results", "r", json!({ "metric_name": "m", "metric_value": 1 }))).await;
        let slow = PromotionPipeline::new(&world.space, Arc::new(Slow(Arc::clone(&world.clock))), Arc::new(Exact));
        // While the slow one thinks, its lease ends, and the other promotes the note.
        let (slow, fast) = tokio::join!(slow.promote_one(), async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            world.pipeline.promote_one().await
        });
        assert!(fast.unwrap().is_some());
        assert_eq!(slow.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!((world.count("events_memory").await, world.count("shared_results").await), (1, 1));
        world.sound().await;
    }
}

/// Takes two minutes of the test's clock, and some real time.
#[derive(Debug)]
struct Slow(Arc<TestClock>);

#[memory_core::async_trait]
impl memory_governed::Interpreter for Slow {
    async fn interpret(
        &self,
        note: &memory_governed::Note,
        context: &memory_governed::Context,
    ) -> memory_governed::Interpretation {
        self.0.advance(Duration::from_secs(120));
        tokio::time::sleep(Duration::from_millis(600)).await;
        Literal.interpret(note, context).await
    }

    fn name(&self) -> &str {
        "slow-1"
    }
}
