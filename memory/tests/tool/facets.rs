//! The conversational and SQL operations, over a small provider that tells what reached it.

use std::sync::Arc;

use memory::{Memory, MemoryTool, Policy, ScopeKind};
use serde_json::json;

use super::fake::Fake;
use super::{code, ok, refused, run};

/// A tool over the fake, with SQL allowed in the agent's scope.
pub(super) fn tool_over(fake: &Arc<Fake>) -> MemoryTool {
    let policy = Policy::default()
        .with_memory_scopes([ScopeKind::Agent, ScopeKind::User])
        .with_sql_scopes([ScopeKind::Agent])
        .with_sql_max_bytes(1_000_000)
        .with_max_rows(3);
    MemoryTool::new(Memory::new(fake.clone()).unwrap(), policy, run(Some("ada"))).unwrap()
}

#[tokio::test]
async fn facts_are_added_recalled_and_forgotten() {
    let tool = tool_over(&Arc::default());
    let added = ok(
        &tool,
        r#"{"op":"add","infer":false,"metadata":{"day":3},"messages":[{"role":"user","content":"I live in Oslo"},
           {"role":"assistant","content":"noted","name":"bot","at":"2026-01-31T09:30:00Z"}]}"#,
    )
    .await;
    assert_eq!(json!(added), json!({"status": "done", "ids": ["fact-1", "fact-2"], "truncated": false}));
    let pending = ok(&tool, r#"{"op":"add","messages":[{"role":"user","content":"Oslo is cold"}]}"#).await;
    assert_eq!(json!(pending), json!({"status": "pending", "event": "event-3"}));
    let found = ok(&tool, r#"{"op":"recall","query":"Oslo","top_k":1}"#).await;
    assert_eq!(
        json!(found),
        json!({"facts": [{"id": "fact-1", "memory": "I live in Oslo", "score": 0.5, "score_kind": "similarity", "metadata": {"day": 3}}],
               "truncated": false})
    );
    assert_eq!(ok(&tool, r#"{"op":"recall","query":"Oslo","scope":"user"}"#).await["facts"], json!([]));
    assert_eq!(ok(&tool, r#"{"op":"recall","query":"Oslo","threshold":0.9}"#).await["facts"], json!([]));
    let forgot = ok(&tool, r#"{"op":"forget","ids":["fact-1","fact-9"]}"#).await;
    assert_eq!(json!(forgot), json!({"forgotten": 1, "not_found": ["fact-9"], "truncated": false}));
    assert_eq!(ok(&tool, r#"{"op":"forget","all":true}"#).await["forgotten"], 2);
}

#[tokio::test]
async fn the_layer_s_inputs_are_checked() {
    let tool = tool_over(&Arc::default());
    for bad in [
        r#"{"op":"add","messages":[]}"#,
        r#"{"op":"add","messages":[{"role":"user"}]}"#,
        r#"{"op":"add","messages":[{"role":"user","content":"x","mood":"glad"}]}"#,
        r#"{"op":"recall","query":""}"#,
        r#"{"op":"recall","query":"x","top_k":0}"#,
        r#"{"op":"forget"}"#,
        r#"{"op":"forget","all":false}"#,
        r#"{"op":"forget","all":true,"ids":["a"]}"#,
        r#"{"op":"forget","ids":["*"]}"#,
        r#"{"op":"forget","ids":[""]}"#,
    ] {
        assert_eq!(code(&tool, bad).await, "invalid_argument", "{bad}");
    }
    let (_, message, _) =
        refused(&tool, r#"{"op":"add","messages":[{"role":"user","content":"x","mood":"glad"}]}"#).await;
    assert!(message.contains("mood") && message.contains("content"), "{message}");
    assert_eq!(code(&tool, r#"{"op":"get","key":"k"}"#).await, "capability_unsupported");
}

#[tokio::test]
async fn statements_carry_exact_values_and_the_operator_s_caps() {
    let fake = Arc::<Fake>::default();
    let tool = tool_over(&fake);
    let answer = tool
        .call(r#"{"op":"sql_query","sql":"SELECT ?, ?, ?","args":[9007199254740993,{"$blob":"AP8="},{"$json":{"b":1e400}}]}"#)
        .await;
    assert_eq!(
        answer,
        r#"{"columns":["value"],"rows":[[9007199254740993],[{"$blob":"AP8="}],[{"$json":{"b":1e400}}]],"truncated":false}"#
    );
    let options = fake.last_options();
    assert_eq!((options.max_rows, options.quota_bytes, options.tx), (3, Some(1_000_000), None));
    assert_eq!(fake.last_run(), "run-1");
    let cut = ok(&tool, r#"{"op":"sql_query","sql":"SELECT","args":[1,2,3,4]}"#).await;
    assert_eq!((cut["rows"].as_array().unwrap().len(), &cut["truncated"]), (3, &json!(true)));
    let wrote = ok(&tool, r#"{"op":"sql_exec","sql":"INSERT … RETURNING","args":[1]}"#).await;
    assert_eq!(
        json!(wrote),
        json!({"rows_affected": 1, "returning": {"columns": ["value"], "rows": [[1]], "truncated": false}})
    );
    assert_eq!(json!(ok(&tool, r#"{"op":"sql_exec","sql":"DELETE"}"#).await), json!({"rows_affected": 0}));
    let wide = format!(r#"{{"op":"sql_query","sql":"SELECT","args":["{}","b"]}}"#, "x".repeat(2 << 20));
    let cut = ok(&tool, &wide).await;
    assert_eq!((&cut["rows"], &cut["truncated"]), (&json!([]), &json!(true)));
}

#[tokio::test]
async fn sql_needs_a_scope_of_its_own_in_the_policy() {
    let tool = tool_over(&Arc::default());
    for op in ["sql_begin", "sql_commit", "sql_rollback"] {
        assert_eq!(code(&tool, &format!(r#"{{"op":"{op}","scope":"user"}}"#)).await, "scope_denied");
    }
    let (code_, message, details) =
        refused(&tool, r#"{"op":"sql_query","scope":"user","sql":"SELECT 1"}"#).await;
    assert_eq!((code_.as_str(), &details["allowed"]), ("scope_denied", &json!(["agent"])));
    assert!(message.contains("SQL"), "{message}");
}

#[tokio::test]
async fn the_open_transaction_is_remembered_until_it_ends() {
    let fake = Arc::<Fake>::default();
    let tool = tool_over(&fake);
    assert_eq!(json!(ok(&tool, r#"{"op":"sql_begin"}"#).await), json!({"tx": "tx-1", "depth": 1}));
    assert_eq!(json!(ok(&tool, r#"{"op":"sql_begin"}"#).await), json!({"tx": "tx-1", "depth": 2}));
    ok(&tool, r#"{"op":"sql_exec","sql":"A"}"#).await;
    assert_eq!(ok(&tool, r#"{"op":"sql_rollback"}"#).await["depth"], 1);
    ok(&tool, r#"{"op":"sql_query","sql":"B","tx":"tx-1"}"#).await;
    assert_eq!(ok(&tool, r#"{"op":"sql_commit"}"#).await["depth"], 0);
    ok(&tool, r#"{"op":"sql_exec","sql":"C"}"#).await;
    let tx = || Some("tx-1".to_owned());
    assert_eq!(fake.ran(), [("A".to_owned(), tx()), ("B".to_owned(), tx()), ("C".to_owned(), None)]);
    assert_eq!(code(&tool, r#"{"op":"sql_commit"}"#).await, "transaction_lost");
}

#[tokio::test]
async fn a_lost_transaction_never_falls_through_to_auto_commit() {
    let fake = Arc::<Fake>::default();
    let tool = tool_over(&fake);
    let tx = ok(&tool, r#"{"op":"sql_begin"}"#).await["tx"].clone();
    fake.lose_transactions();
    for _ in 0..3 {
        let (code, message, details) = refused(&tool, r#"{"op":"sql_exec","sql":"A"}"#).await;
        assert_eq!((code.as_str(), &details["tx"]), ("transaction_lost", &tx));
        assert!(message.contains("`sql_begin`") && message.contains("`sql_rollback`"), "{message}");
    }
    assert!(fake.ran().is_empty());
    assert_eq!(code(&tool, r#"{"op":"sql_rollback"}"#).await, "transaction_lost");
    ok(&tool, r#"{"op":"sql_exec","sql":"B"}"#).await;
    assert_eq!(
        fake.ran(),
        [("B".to_owned(), None)],
        "after it was rolled back, statements commit by themselves"
    );
    assert_eq!(code(&tool, r#"{"op":"sql_exec","sql":"C","tx":"tx-404"}"#).await, "transaction_lost");
}

#[tokio::test]
async fn a_transaction_told_to_be_lost_is_replaced_by_the_next() {
    let fake = Arc::<Fake>::default();
    let tool = tool_over(&fake);
    ok(&tool, r#"{"op":"sql_begin"}"#).await;
    fake.lose_transactions();
    assert_eq!(code(&tool, r#"{"op":"sql_begin"}"#).await, "transaction_lost", "a savepoint was meant");
    let begun = ok(&tool, r#"{"op":"sql_begin"}"#).await;
    assert_eq!(json!(begun), json!({"tx": "tx-2", "depth": 1}));
    ok(&tool, r#"{"op":"sql_exec","sql":"A"}"#).await;
    assert_eq!(fake.ran(), [("A".to_owned(), Some("tx-2".to_owned()))]);
}

#[tokio::test]
async fn a_statement_may_stand_in_either_field_and_in_one_of_them() {
    let fake = Arc::<Fake>::default();
    let tool = tool_over(&fake);
    ok(&tool, r#"{"op":"sql_query","statement":"A"}"#).await;
    ok(&tool, r#"{"op":"sql_exec","sql":"B"}"#).await;
    assert_eq!(fake.ran().iter().map(|(sql, _)| sql.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    let (code, message, _) = refused(&tool, r#"{"op":"sql_exec","sql":"C","statement":"D"}"#).await;
    assert!(code == "invalid_argument" && message.contains("another name of `sql`"), "{message}");
    assert_eq!(self::code(&tool, r#"{"op":"get","key":"k","statement":"D"}"#).await, "invalid_argument");
}

#[tokio::test]
async fn describe_of_a_scope_with_sql_lists_its_tables() {
    let tool = tool_over(&Arc::default());
    let about = ok(&tool, r#"{"op":"describe","scope":"agent"}"#).await;
    assert_eq!((&about["tables"], &about["sql_dialect"]), (&json!([]), &json!("sqlite")));
    assert!(!ok(&tool, r#"{"op":"describe","scope":"user"}"#).await.contains_key("tables"));
    assert_eq!(code(&tool, r#"{"op":"describe","scope":"run"}"#).await, "scope_denied");
    let ops = about["ops"].as_array().unwrap();
    assert!(
        ops.contains(&json!("sql_begin")) && ops.contains(&json!("recall")) && !ops.contains(&json!("get"))
    );
}
