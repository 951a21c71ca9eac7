//! Notes that were once committed as new rows, decisions or states, but are none.

use memory_governed::Bucket;

use crate::support::*;
use crate::turned::{begin, change_nothing};

on_both_stores! {
    /// Regression: each became a new issue, constraint or decision.
    async fn news_of_a_row_is_no_new_row(world) {
        begin(&world, &[
            "issue redis_timeout: Redis times out under load",
            "issue redis_slow: Redis is slow at night",
            "constraint no_friday: no deploys on Fridays",
            "decision use_kafka: events go over Kafka",
        ]).await;
        change_nothing(&world, &[
            "issue: redis_timeout is fixed",
            "issue: redis_timeout is not fixed",
            "issue: redis_timeout and redis_slow are the same",
            "blocker: redis_timeout",
            "bug: resolve redis_timeout",
            "blocker: resolved",
            "blocker: unblocked",
            "bug: fixed the importer",
            "problem: solved by Ida",
            "bug: not a bug",
            "issue: no issue",
            "constraint: no_friday is lifted",
            "constraint: no_friday no longer applies",
            "issue: no_friday is lifted",
            "decision: use_kafka is revoked",
            "decision: revoke use_kafka",
        ]).await;
        // The row it names has ended since, which decides nothing.
        begin(&world, &["redis_timeout is resolved"]).await;
        change_nothing(&world, &["issue: redis_timeout is back"]).await;
        assert_eq!(world.row(Bucket::Issues, "redis_slow").await.status, "open");
        begin(&world, &[
            "issue: Exports fail, see redis_slow",
            "issue: Closed accounts are not deleted",
            "issue: Done button missing",
            "constraint: Fixed IP addresses only",
            "decision: Dropped packets are sent again",
        ]).await;
        world.sound().await;
    }

    /// Regression: each was a decision, a constraint or the plan.
    async fn what_is_not_decided_binds_nobody(world) {
        change_nothing(&world, &[
            "decision: pending",
            "decision: postponed",
            "decision: yes",
            "decision: to be made tomorrow",
            "decision: tbd by Monday",
            "decision: should we move to Postgres",
            "decision: we might move to Postgres",
            "decision: we will probably move to Postgres",
            "decision: I think we move to Postgres",
            "decision: proposal: move to Postgres",
            "decision: unless Bob objects, we move",
            "constraint: do we need two reviews",
            "plan: to be decided",
            "plan: cancelled",
            "result: recall might be = 0.7",
        ]).await;
        begin(&world, &[
            "decision: Postgres",
            "decision: Do not move before May",
            "constraint: Should a build fail, nobody merges",
            "constraint: Can only be deployed by Ida",
            "plan: ship the beta",
        ]).await;
        change_nothing(&world, &["plan: dead", "plan: scrap it", "plan: the plan is dead", "plan: we have no plan", "plan: lgtm", "plan: +1", "plan: {}", "plan: []"]).await;
    }

    /// Regression: the rule then said the opposite.
    async fn a_denial_is_not_left_out_silently(world) {
        begin(&world, &[
            "constraint no_friday: no deploys on Fridays",
            "issue tokens: OAuth refresh tokens are not rotated",
            "decision no_kafka: We do not use Kafka for events",
        ]).await;
        change_nothing(&world, &[
            "constraint no_friday: deploys on Fridays",
            "issue tokens: OAuth refresh tokens are rotated",
            "decision no_kafka: We use Kafka for events",
        ]).await;
        begin(&world, &[
            "constraint no_friday: no deploys on Fridays and Mondays",
            "constraint no_friday: text: deploys on Fridays need two reviews",
        ]).await;
    }

    /// The last one won.
    async fn two_states_of_one_task_are_none(world) {
        begin(&world, &["task import: pending", "plan: one"]).await;
        change_nothing(&world, &[
            "task import: done\ntask import: failed",
            "task import is done\ntask import: blocked",
            "plan: two\nplan: three",
        ]).await;
        begin(&world, &["task import: done\ntask export: failed"]).await;
        assert_eq!(world.row(Bucket::TaskState, "import").await.status, "done");
    }
}
