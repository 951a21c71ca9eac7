//! What a request alone shows.

use memory_governed::{Bucket, Operation, WriteRequest, is_id};
use serde_json::{Value, json};

fn request(value: Value) -> Result<WriteRequest, String> {
    let request: WriteRequest = serde_json::from_value(value).map_err(|error| error.to_string())?;
    request.check().map(|()| request).map_err(|error| error.to_string())
}

fn payload(bucket: Bucket) -> Value {
    match bucket {
        Bucket::Plan => json!({"plan_json": {"steps": ["ship"]}}),
        Bucket::Constraints => json!({"text": "no writes on Friday"}),
        Bucket::Issues => json!({"title": "disk full"}),
        Bucket::Decisions | Bucket::Learnings => json!({"statement": "use SQLite"}),
        Bucket::Results => json!({"metric_name": "recall", "metric_value": 0.5}),
        Bucket::TaskState => json!({"status": "done"}),
    }
}

#[test]
fn every_bucket_takes_its_own_operations_and_no_others() {
    for bucket in Bucket::ALL {
        for operation in [Operation::Upsert, Operation::Append, Operation::Resolve, Operation::Invalidate] {
            let members = if operation.is_lifecycle() { json!({}) } else { payload(bucket) };
            let target = if bucket == Bucket::Plan { "main" } else { "a_row" };
            let made = request(
                json!({"bucket": bucket, "operation": operation, "target_id": target, "payload": members}),
            );
            assert_eq!(
                made.is_ok(),
                bucket.operations().contains(&operation),
                "{bucket} {operation}: {made:?}"
            );
        }
    }
}

#[test]
fn what_a_bucket_needs_must_be_there() {
    for bucket in Bucket::ALL {
        let operation = bucket.operations()[0];
        let empty = request(json!({"bucket": bucket, "operation": operation, "payload": {}}));
        assert!(empty.is_err(), "{bucket}");
        for (name, value) in payload(bucket).as_object().unwrap() {
            if bucket != Bucket::Plan {
                let mut broken = payload(bucket);
                broken[name] = json!([value]);
                assert!(
                    request(
                        json!({"bucket": bucket, "operation": operation, "target_id": "t", "payload": broken})
                    )
                    .is_err()
                );
            }
        }
    }
    assert!(
        request(json!({"bucket": "results", "operation": "append", "payload": {"metric_name": "x"}}))
            .is_err()
    );
    let bad = json!({"bucket": "task_state", "operation": "upsert", "target_id": "t", "payload": {"status": "nearly"}});
    assert!(request(bad).unwrap_err().contains("in_progress"));
}

#[test]
fn unknown_members_are_refused_everywhere() {
    for member in ["actor", "trust", "observed_at", "rev", "decision"] {
        let mut value = json!({"bucket": "issues", "operation": "resolve"});
        value[member] = json!("x");
        assert!(request(value).unwrap_err().contains("unknown field"), "{member}");
        let mut value = json!({"bucket": "issues", "operation": "upsert", "payload": {"title": "t"}});
        value["payload"][member] = json!("x");
        assert!(request(value).unwrap_err().contains(member), "{member}");
    }
}

#[test]
fn ids_are_slugs() {
    for id in ["a", "pandas_import_blocker", "bd-a0cp", &"a".repeat(64)] {
        assert!(is_id(id), "{id}");
    }
    for id in ["", "1st", "_a", "A", "a b", "a.b", "é", "а", "a\n", &"a".repeat(65)] {
        assert!(!is_id(id), "{id}");
        let value = json!({"bucket": "issues", "operation": "resolve", "target_id": id});
        assert!(request(value).is_err(), "{id}");
    }
    let plan =
        json!({"bucket": "plan", "operation": "upsert", "target_id": "other", "payload": {"plan_json": 1}});
    assert!(request(plan).unwrap_err().contains("main"));
}

#[test]
fn floods_are_refused() {
    let ends = |member: &str, value: Value| {
        let mut request_value = json!({"bucket": "issues", "operation": "resolve"});
        request_value[member] = value;
        request(request_value)
    };
    assert!(ends("candidate_aliases", json!(vec!["a"; 8])).is_ok());
    assert!(ends("candidate_aliases", json!(vec!["a"; 9])).is_err());
    assert!(ends("candidate_aliases", json!(["x".repeat(201)])).is_err());
    assert!(ends("candidate_aliases", json!([" "])).is_err());
    assert!(ends("reference_text", json!("x".repeat(1_001))).is_err());
    assert!(ends("rationale", json!("x".repeat(4_001))).is_err());
    for confidence in [json!(-0.1), json!(1.5)] {
        assert!(ends("confidence", confidence).is_err());
    }
    let issue = |title: String| {
        request(json!({"bucket": "issues", "operation": "upsert", "payload": {"title": title}}))
    };
    assert!(issue("x".repeat(8 << 10)).is_ok());
    assert!(issue("x".repeat((8 << 10) + 1)).is_err());
    assert!(issue("a\0b".to_owned()).is_err());
    let plan =
        json!({"bucket": "plan", "operation": "upsert", "payload": {"plan_json": "x".repeat(33 << 10)}});
    assert!(request(plan).is_err());
}

#[test]
fn a_request_survives_json() {
    let made = WriteRequest::new(Bucket::Issues, Operation::Upsert)
        .with_target("disk_full")
        .with("title", "Disk is full");
    let text = serde_json::to_string(&made).unwrap();
    assert_eq!(serde_json::from_str::<WriteRequest>(&text).unwrap(), made);
    assert_eq!(
        text,
        r#"{"bucket":"issues","operation":"upsert","target_id":"disk_full","payload":{"title":"Disk is full"}}"#
    );
}
