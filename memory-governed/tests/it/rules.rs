//! The interpreter of explicit forms.

use memory_governed::interpret::{Context, Rules};
use memory_governed::{Bucket, Decision, Operation, WriteRequest};
use serde_json::json;

use crate::space::{busy, day};

fn decide(text: &str) -> Decision {
    Rules::decide(text, &Context::of(busy().live(), day(10)))
}

#[track_caller]
fn accepted(text: &str) -> WriteRequest {
    match decide(text) {
        Decision::Accept(requests) if requests.len() == 1 => requests[0].clone(),
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn rejected(text: &str) -> String {
    match decide(text) {
        Decision::Reject(reason) => reason,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn prefixes_say_what_is_written() {
    for (text, bucket, operation, target, payload) in [
        (
            "plan: ship on Monday",
            Bucket::Plan,
            Operation::Upsert,
            None,
            json!({"plan_json": "ship on Monday"}),
        ),
        (r#"plan: {"steps": 2}"#, Bucket::Plan, Operation::Upsert, None, json!({"plan_json": {"steps": 2}})),
        (
            "constraint budget: at most 10 euros",
            Bucket::Constraints,
            Operation::Upsert,
            Some("budget"),
            json!({"text": "at most 10 euros"}),
        ),
        (
            "Blocker: cannot import pandas\nSeen in CI",
            Bucket::Issues,
            Operation::Upsert,
            None,
            json!({"title": "cannot import pandas", "description": "Seen in CI"}),
        ),
        (
            "issue Disk_Full: no space left",
            Bucket::Issues,
            Operation::Upsert,
            Some("disk_full"),
            json!({"title": "no space left"}),
        ),
        (
            "decision: use SQLite",
            Bucket::Decisions,
            Operation::Append,
            None,
            json!({"statement": "use SQLite"}),
        ),
        (
            "result: recall@10 = 0.71",
            Bucket::Results,
            Operation::Append,
            None,
            json!({"metric_name": "recall@10", "metric_value": 0.71}),
        ),
        (
            "task import: in progress",
            Bucket::TaskState,
            Operation::Upsert,
            Some("import"),
            json!({"status": "in_progress"}),
        ),
        (
            "lesson: measure first",
            Bucket::Learnings,
            Operation::Append,
            None,
            json!({"statement": "measure first"}),
        ),
    ] {
        let request = accepted(text);
        assert_eq!((request.bucket, request.operation), (bucket, operation), "{text}");
        assert_eq!(request.target_id.as_deref(), target, "{text}");
        assert_eq!(json!(request.payload), payload, "{text}");
    }
}

#[test]
fn verbs_of_ending_end_what_is_named() {
    let request = accepted("db_outage is resolved");
    assert_eq!((request.bucket, request.operation), (Bucket::Issues, Operation::Resolve));
    assert_eq!(request.target_id.as_deref(), Some("db_outage"));
    let vague = accepted("The earlier blocker is fixed.");
    assert_eq!((vague.bucket, vague.target_id), (Bucket::Issues, None));
    let request = accepted("The constraint on spending was lifted.");
    assert_eq!((request.bucket, request.operation), (Bucket::Constraints, Operation::Invalidate));
    assert_eq!(accepted("The decision on SQLite was revoked").bucket, Bucket::Decisions);
}

/// The original read the first as a resolve, the second as in progress.
#[test]
fn questions_denials_and_promises_ask_for_nothing() {
    for text in [
        "Please confirm db_outage is closed?",
        "task import: not done yet, in progress soon",
        "db_outage is not done yet",
        "If the failover works, db_outage is resolved",
        "I will fix db_outage tomorrow",
        "> db_outage is resolved",
        "issue: is the disk full?",
        "revoked it",
        "issue:",
    ] {
        rejected(text);
    }
}

#[test]
fn everything_else_is_noise() {
    for text in
        ["", "hello", "Looking at the logs now.", "note to self: buy milk", "http://example.com/: see there"]
    {
        assert_eq!(rejected(text), "no rule applies", "{text}");
    }
}

#[test]
fn an_id_named_in_passing_is_not_the_target() {
    assert_eq!(accepted("Fixed the lint job, unrelated to db_outage").target_id, None);
    assert_eq!(accepted("Fixed db_outage and csv_export").target_id, None);
}
