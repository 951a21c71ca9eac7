//! The conversational and SQL operations, over a small provider that records its calls.

use std::sync::Arc;

use memory::{Memory, MemoryTool, Policy, ScopeKind};
use serde_json::json;

use super::fake::Fake;
use super::{code, ok, refused, run};

/// A tool over the fake provider, with SQL allowed in the agent's scope.
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
        json!({"facts": [{"id": "fact-1", "memory": "I live in Oslo", "score": 0.5, "score_kind": "similarity", "metadata": {"day": 3}, "scope": "agent"}],
               "truncated": false})
    );
    assert_eq!(ok(&tool, r#"{"op":"recall","query":"Oslo","scope":"user"}"#).await["facts"], json!([]));
    assert_eq!(ok(&tool, r#"{"op":"recall","query":"Oslo","threshold":0.9}"#).await["facts"], json!([]));
    let of = async |scopes: &str| {
        let found =
            ok(&tool, &format!(r#"{{"op":"recall","query":"Oslo","top_k":1,"scopes":{scopes}}}"#)).await;
        found["facts"].as_array().unwrap().iter().map(|fact| fact["scope"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(r#"["user","agent","user"]"#).await, ["agent"], "of several, each fact names its own");
    assert_eq!(of(r#"["agent"]"#).await, [json!(null)]);
    assert_eq!(of(r#"["user"]"#).await, [json!(null); 0]);
    for (fields, said) in
        [(r#""scopes":[]"#, "`scopes` is empty"), (r#""scopes":["user"],"scope":"agent""#, "not both")]
    {
        let (code, message, _) =
            refused(&tool, &format!(r#"{{"op":"recall","query":"Oslo",{fields}}}"#)).await;
        assert!(code == "invalid_argument" && message.contains(said), "{code}: {message}");
    }
    let forgot = ok(&tool, r#"{"op":"forget","ids":["fact-1","fact-9"]}"#).await;
    assert_eq!(json!(forgot), json!({"forgotten": 1, "not_found": ["fact-9"], "truncated": false}));
    assert_eq!(ok(&tool, r#"{"op":"forget","all":true}"#).await["forgotten"], 2);
}

#[tokio::test]
async fn pending_adds_are_queried_by_event() {
    let tool = tool_over(&Arc::default());
    let say = |text: &str| format!(r#"{{"op":"add","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let event = ok(&tool, &say("Oslo is cold")).await["event"].clone();
    let done = ok(&tool, &json!({"op": "event", "event": event}).to_string()).await;
    assert_eq!(json!(done), json!({"status": "done", "ids": ["fact-1"], "truncated": false}));
    let event = ok(&tool, &say("[fail]")).await["event"].clone();
    let failed = ok(&tool, &json!({"op": "event", "event": event}).to_string()).await;
    assert_eq!(json!(failed), json!({"status": "failed", "reason": "no words"}));
    for unknown in ["event-9", "event-1/../event-2"] {
        let input = json!({"op": "event", "event": unknown}).to_string();
        assert_eq!(code(&tool, &input).await, "not_found");
    }
    let other = r#"{"op":"event","event":"event-1","scope":"user"}"#;
    assert_eq!(code(&tool, other).await, "not_found", "an event belongs to its scope");
    assert_eq!(code(&tool, r#"{"op":"event","event":"event-1","scope":"run"}"#).await, "scope_denied");
    assert_eq!(code(&tool, r#"{"op":"event","event":"*"}"#).await, "invalid_argument");
}

#[tokio::test]
async fn facts_are_listed_a_page_at_a_time_within_rows_and_bytes() {
    let fake = Arc::<Fake>::default();
    let tool = tool_over(&fake);
    for n in 0..5 {
        let words = format!("{n}{}", "x".repeat(n * 5_000));
        let said = json!({"op": "add", "infer": false, "messages": [{"role": "user", "content": words}]});
        ok(&tool, &said.to_string()).await;
    }
    let listed = |tool: MemoryTool| async move {
        let (mut ids, mut pages, mut cursor) = (Vec::new(), Vec::new(), json!(null));
        loop {
            let page = ok(&tool, &json!({"op": "facts", "cursor": cursor}).to_string()).await;
            assert_eq!(page["truncated"], page.contains_key("next"));
            pages.push(page["facts"].as_array().unwrap().len());
            ids.extend(page["facts"].as_array().unwrap().iter().map(|fact| fact["id"].clone()));
            match page.get("next") {
                Some(next) => cursor = next.clone(),
                None => return (ids, pages),
            }
        }
    };
    let all: Vec<_> = (1..=5).map(|n| json!(format!("fact-{n}"))).collect();
    assert_eq!(
        listed(tool_over(&fake)).await,
        (all.clone(), vec![3, 2]),
        "three rows are the operator's cap"
    );
    // An answer has space for 12 KiB of facts: two, then the third, and larger ones without their text.
    let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]).with_max_answer_bytes(16 << 10);
    let narrow = || MemoryTool::new(Memory::new(fake.clone()).unwrap(), policy.clone(), run(None)).unwrap();
    let (ids, pages) = listed(narrow()).await;
    assert_eq!(ids, all);
    assert_eq!(pages, [2, 3]);
    let last = ok(&narrow(), r#"{"op":"facts","cursor":"4"}"#).await;
    assert_eq!(last["facts"], json!([{"id": "fact-5", "score": 0.5, "omitted_bytes": 20_001}]));
    let recalled = ok(&narrow(), r#"{"op":"recall","query":"4x"}"#).await;
    assert_eq!(recalled["facts"], last["facts"]);
    for bad in
        [r#"{"op":"facts","limit":0}"#, r#"{"op":"facts","cursor":""}"#, r#"{"op":"facts","cursor":"x"}"#]
    {
        assert_eq!(code(&tool, bad).await, "invalid_argument", "{bad}");
    }
    assert_eq!(code(&tool, r#"{"op":"facts","limit":1001}"#).await, "too_large");
    assert_eq!(code(&tool, r#"{"op":"facts","scope":"run"}"#).await, "scope_denied");
}

#[tokio::test]
async fn operations_a_layer_lacks_are_neither_shown_nor_run() {
    let bare = || Arc::new(Fake::bare());
    let schema = tool_over(&bare()).schema();
    assert_eq!(
        schema["properties"]["op"]["enum"],
        json!(["add", "recall", "facts", "list_scopes", "describe"])
    );
    for field in ["infer", "metadata", "threshold", "event", "ids", "key", "sql"] {
        assert_eq!(schema["properties"].get(field), None, "{field}");
    }
    let description = tool_over(&bare()).description();
    assert!(description.contains("- add(messages): "), "{description}");
    let full = tool_over(&Arc::default());
    assert!(full.description().contains("- add(messages, infer?, metadata?): "), "{}", full.description());
    assert_eq!(full.schema()["properties"]["infer"]["type"], "boolean");

    let tool = tool_over(&bare());
    for (option, call) in [
        ("infer", r#"{"op":"add","infer":false,"messages":[{"role":"user","content":"x"}]}"#),
        ("metadata", r#"{"op":"add","metadata":{"a":1},"messages":[{"role":"user","content":"x"}]}"#),
        ("threshold", r#"{"op":"recall","query":"x","threshold":0.5}"#),
    ] {
        let (code, _, details) = refused(&tool, call).await;
        assert_eq!((code.as_str(), &details["option"]), ("capability_unsupported", &json!(option)));
    }
    for call in [r#"{"op":"event","event":"event-1"}"#, r#"{"op":"forget","all":true}"#] {
        assert_eq!(code(&tool, call).await, "capability_unsupported", "{call}");
    }
    assert_eq!(ok(&tool, r#"{"op":"facts"}"#).await["facts"], json!([]));
}

#[tokio::test]
async fn an_operation_of_the_other_facet_is_refused_with_the_one_to_use_instead() {
    let tool = tool_over(&Arc::default());
    for (call, instead) in [
        (r#"{"op":"get","key":"k"}"#, "recall"),
        (r#"{"op":"search","query":"k"}"#, "recall"),
        (r#"{"op":"list"}"#, "facts"),
        (r#"{"op":"set","key":"k","value":1}"#, "add"),
        (r#"{"op":"incr","key":"k"}"#, "add"),
        (r#"{"op":"update","key":"k","append":1}"#, "add"),
        (r#"{"op":"bulk_insert","items":[{"key":"k","value":1}]}"#, "add"),
        (r#"{"op":"delete","key":"k"}"#, "forget"),
    ] {
        let (code, message, details) = refused(&tool, call).await;
        assert_eq!(
            (code.as_str(), &details["instead"]),
            ("capability_unsupported", &json!(instead)),
            "{call}"
        );
        assert!(message.contains(&format!("`{instead}`")) && message.contains("sqlite"), "{message}");
    }
}

#[tokio::test]
async fn a_run_s_credentials_reach_the_backend_and_no_answer() {
    let fake = Arc::<Fake>::default();
    let mut run = run(None);
    run.credentials.insert("mem0".to_owned(), memory::Secret::new("hunter2"));
    let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
    let tool = MemoryTool::new(Memory::new(fake.clone()).unwrap(), policy, run).unwrap();
    ok(&tool, r#"{"op":"recall","query":"x"}"#).await;
    assert_eq!(fake.last_credentials(), ["hunter2"]);
    for answer in [tool.call(r#"{"op":"describe"}"#).await, tool.call(r#"{"op":"recall"}"#).await] {
        assert!(!answer.contains("hunter2"), "{answer}");
    }
    let forged = r#"{"op":"recall","query":"x","credentials":{"mem0":"other"}}"#;
    assert_eq!(code(&tool, forged).await, "invalid_argument");
}

#[tokio::test]
async fn the_layer_s_inputs_are_checked() {
    let tool = tool_over(&Arc::default());
    let many = tool.call(r#"{"op":"recall","query":"x","max_tokens":1000000000}"#).await;
    assert!(many.contains("1000000000 tokens"), "{many}");
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
async fn the_open_transaction_is_tracked_until_it_ends() {
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
async fn a_lost_transaction_never_falls_back_to_auto_commit() {
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
async fn a_transaction_reported_lost_is_replaced_by_the_next() {
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
async fn a_statement_is_given_in_exactly_one_of_two_fields() {
    let fake = Arc::<Fake>::default();
    let tool = tool_over(&fake);
    ok(&tool, r#"{"op":"sql_query","statement":"A"}"#).await;
    ok(&tool, r#"{"op":"sql_exec","sql":"B"}"#).await;
    assert_eq!(fake.ran().iter().map(|(sql, _)| sql.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    let (code, message, _) = refused(&tool, r#"{"op":"sql_exec","sql":"C","statement":"D"}"#).await;
    assert!(code == "invalid_argument" && message.contains("another name for `sql`"), "{message}");
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
