//! The schema that models and MCP clients see.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory::tool::{op_schema, tool_schema};
use memory::{MemoryTool, Policy, ScopeKind, ToolOp, tool_description};
use memory_conformance::TestClock;
use serde_json::Value;

use super::{providers, refused, run, tools};

fn names(schema: &Value) -> BTreeSet<String> {
    schema["properties"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_tool_s_properties_are_the_union_of_the_operations_fields() {
    let union: BTreeSet<String> = ToolOp::ALL.iter().flat_map(|op| names(&op_schema(*op))).collect();
    assert_eq!(names(&tool_schema()), union);
    for op in ToolOp::ALL {
        let schema = op_schema(*op);
        assert_eq!(schema["additionalProperties"], false, "{op:?}");
        assert_eq!(schema["properties"]["op"]["const"], op.as_str());
    }
}

#[test]
fn a_field_means_the_same_in_every_operation_that_has_it() {
    for (name, shown) in tool_schema()["properties"].as_object().unwrap() {
        for op in ToolOp::ALL {
            let schema = op_schema(*op);
            if let Some(field) = schema["properties"].get(name).filter(|_| name != "op") {
                assert_eq!(field["description"], shown["description"], "{name} of {op:?}");
            }
        }
    }
}

#[test]
fn the_schema_is_flat_and_small() {
    let schema = tool_schema();
    assert_eq!(schema["type"], "object");
    let text = schema.to_string();
    for word in ["oneOf", "anyOf", "allOf", "$ref", "$defs", "null", "format"] {
        assert!(!text.contains(&format!("\"{word}\"")), "{word}: {text}");
    }
    for (name, field) in schema["properties"].as_object().unwrap() {
        let any_value = ["value", "append", "push"].contains(&name.as_str());
        assert_eq!(field["type"].is_string(), !any_value, "{name}: {field}");
    }
    assert_eq!(text.len(), SCHEMA_BYTES, "the size is stated here so that growth is a decision");
    assert!(tool_description().len() <= 2_700, "{}", tool_description().len());
}

/// Bytes of `tool_schema()` with all operations: about 1,700 tokens for a model.
const SCHEMA_BYTES: usize = 6_754;

#[tokio::test]
async fn the_parser_accepts_exactly_the_fields_of_the_schema() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        let all = names(&tool_schema());
        for op in ToolOp::ALL {
            let own = names(&op_schema(*op));
            for field in all.iter().filter(|field| *field != "op") {
                // The call is always refused, but for an unknown field only if the operation does not have it.
                let input = format!(r#"{{"op":"{}","{field}":{{"no":"such"}}}}"#, op.as_str());
                let (_, message, _) = refused(&tool, &input).await;
                assert_eq!(
                    !message.contains("unknown field `") || message.contains("unknown field `no`"),
                    own.contains(field),
                    "{input}: {message}"
                );
            }
        }
    }
}

#[tokio::test]
async fn forbidden_operations_are_not_shown_to_the_model() {
    for memory in providers(&Arc::new(TestClock::new())).await {
        let policy = Policy::default().with_memory_scopes([ScopeKind::Agent, ScopeKind::User]);
        let tool = MemoryTool::new(memory, policy, run(None)).unwrap();
        let schema = tool.schema();
        assert_eq!(schema["properties"]["scope"]["enum"], serde_json::json!(["agent"]));
        assert!(names(&schema).contains("key") && !names(&schema).contains("sql"));
        assert!(!tool.description().contains("sql_") && tool.description().contains("- search(query"));
        assert!(!schema["properties"]["op"]["enum"].as_array().unwrap().contains(&"event".into()));
    }
}
