//! FB-3: reports by the tool and the audit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory::audit::{AuditRecord, AuditSink, Auditor};
use memory::{MemoryTool, Policy, RunContext, ScopeKind};
use serde_json::{Value, json};

use crate::fallback::support::{Stand, set};

#[derive(Debug, Default, Clone)]
struct Kept(Arc<Mutex<Vec<Value>>>);

impl AuditSink for Kept {
    fn write(&mut self, record: &AuditRecord) -> memory::Result<()> {
        self.0.lock().unwrap().push(serde_json::to_value(record).unwrap());
        Ok(())
    }
}

#[tokio::test]
async fn an_answer_of_the_fallback_names_it_for_the_agent_and_in_the_audit() {
    let stand = Stand::journaling();
    set(&stand.spare, "k", "{}").await.unwrap();
    let kept = Kept::default();
    let auditor = Auditor::builder(stand.clock.clone()).sink(kept.clone()).start().unwrap();
    let auditor = Arc::new(auditor);
    let run = RunContext::new("acme".parse().unwrap(), "planner".parse().unwrap(), "r".parse().unwrap());
    let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
    let tool = MemoryTool::new(stand.memory.clone(), policy, run).unwrap().with_auditor(Arc::clone(&auditor));
    let call =
        async |input: Value| serde_json::from_str::<Value>(&tool.call(&input.to_string()).await).unwrap();

    assert_eq!(call(json!({"op": "get", "key": "k"})).await["fallback"], Value::Null);
    stand.down();
    let answer = call(json!({"op": "get", "key": "k"})).await;
    assert_eq!((&answer["fallback"], &answer["found"]), (&json!("spare"), &json!(true)), "{answer}");
    let answer = call(json!({"op": "set", "key": "k", "value": 1})).await;
    assert_eq!((&answer["fallback"], &answer["created"]), (&json!("spare"), &json!(false)), "{answer}");
    let answer = call(json!({"op": "incr", "key": "n"})).await;
    assert_eq!(answer["error"]["code"], "unavailable");
    assert_eq!(answer["error"]["details"]["fallback"], "refused");
    assert!(auditor.flush(Duration::from_secs(10)));
    let told: Vec<Value> = kept.0.lock().unwrap().iter().map(|record| record["fallback"].clone()).collect();
    assert_eq!(told, [Value::Null, json!("spare"), json!("spare"), Value::Null]);
}
