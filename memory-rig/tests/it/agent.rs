//! The tool and the index in rig's agent loop.

use memory::{Error, ErrorKind};
use memory_rig::MemoryIndex;
use rig_agent::AgentBuilder;
use rig_core::tool::{Tool, ToolContext, ToolErrorKind};
use serde_json::{Value, json};

use crate::support::{model, scope, set, store, tool};

#[tokio::test]
async fn what_one_agent_remembers_another_knows() {
    let (memory, model) = (store().await, model().await);
    let agent = |model| AgentBuilder::new(model).tool(tool(&memory)).default_max_turns(5).build();

    let stored = agent(model.clone()).prompt("Remember: Dinner is in Lisbon on Friday.").await.unwrap();
    assert!(stored.output().contains(r#""version":1,"created":true"#), "{}", stored.output());
    let found = agent(model).prompt("Where is dinner?").await.unwrap();
    assert!(found.output().contains("Dinner is in Lisbon on Friday."), "{}", found.output());
}

#[tokio::test]
async fn a_refusal_reaches_the_model_and_the_run_goes_on() {
    let memory = store().await;
    let agent = AgentBuilder::new(model().await).tool(tool(&memory)).default_max_turns(5).build();
    for (asked, code) in [
        (r#"{"op": "get", "key": "note", "scope": "user"}"#, "scope_denied"),
        (r#"{"op": "get"}"#, "invalid_argument"),
    ] {
        let told = agent.prompt(asked).await.unwrap();
        assert!(told.output().contains(&format!(r#""code":"{code}""#)), "{}", told.output());
    }
}

#[tokio::test]
async fn the_host_gets_the_error_itself() {
    let tool = tool(&store().await);
    let denied = serde_json::from_str(r#"{"op": "get", "key": "note", "scope": "user"}"#).unwrap();
    let error = Tool::call(&tool, &mut ToolContext::new(), denied).await.unwrap_err();
    let told = tool.map_error(error);
    assert!(told.is_refusal());
    assert_eq!(told.code(), Some("scope_denied"));
    assert_eq!(told.downcast_ref::<Error>().unwrap().kind(), ErrorKind::ScopeDenied);

    for (kind, expected, retryable) in [
        (ErrorKind::Unavailable, ToolErrorKind::Provider, true),
        (ErrorKind::TooLarge, ToolErrorKind::InvalidArgs, false),
        (ErrorKind::Conflict, ToolErrorKind::Other, true),
    ] {
        let told = tool.map_error(Error::new(kind, "it failed; do something else"));
        assert_eq!((told.kind(), told.retryable(), told.is_refusal()), (expected, Some(retryable), false));
    }
}

#[tokio::test]
async fn the_model_is_shown_what_the_policy_allows() {
    let shown = Tool::parameters(&tool(&store().await));
    assert_eq!(shown["properties"]["scope"]["enum"], json!(["agent"]));
    let ops = shown["properties"]["op"]["enum"].as_array().unwrap();
    assert!(ops.contains(&json!("set")) && !ops.contains(&json!("sql_exec")), "{ops:?}");
}

#[tokio::test]
async fn an_index_gives_a_prompt_its_context() {
    let memory = store().await;
    set(&memory, "trip", r#"{"city": "Lisbon"}"#, "{}").await;
    set(&memory, "pet", r#"{"animal": "cat"}"#, "{}").await;
    let index = MemoryIndex::new(memory, scope()).unwrap();
    let agent = AgentBuilder::new(model().await).dynamic_context(1, index).build();
    let sent = agent.prompt("Which city, Lisbon or another?").await.unwrap();
    assert!(
        sent.output().contains(r#""city": "Lisbon""#) && !sent.output().contains("cat"),
        "{}",
        sent.output()
    );
}

#[tokio::test]
async fn an_index_is_a_tool_too() {
    let memory = store().await;
    set(&memory, "trip", r#""Lisbon in May""#, "{}").await;
    let index = MemoryIndex::new(memory, scope()).unwrap();
    let asked = serde_json::from_value(json!({"query": "lisbon", "samples": 3})).unwrap();
    let found = Tool::call(&index, &mut ToolContext::new(), asked).await.unwrap();
    assert_eq!((found[0].id.as_str(), &found[0].document), ("trip", &Value::from("Lisbon in May")));
}
