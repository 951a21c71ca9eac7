//! Tests `docs/tool.md`: makes every call in it, in order, and compares every answer.

use std::path::Path;
use std::sync::Arc;

use memory::tool::{op_schema, tool_schema};
use memory::{ErrorKind, GraphAccess, MemoryTool, Policy, Quota, ScopeKind, SharedAccess, ToolOp};
use memory_conformance::TestClock;
use serde_json::Value;

use super::facets::tool_over;
use super::{providers, run};

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tool.md")).unwrap()
}

/// A call (`> …`) and its answer (`< …`) in a block marked `memory`, with its line number.
struct Example {
    line: usize,
    /// The block's mark after `memory`: `layer` or `sql` for those facets.
    about: String,
    input: String,
    answer: String,
}

fn examples(page: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut asked: Option<(usize, String)> = None;
    let mut block: Option<&str> = None;
    for (index, text) in page.lines().enumerate() {
        let line = index + 1;
        if let Some(mark) = text.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(mark) };
        } else if let Some(mark) = block.filter(|mark| mark.starts_with("memory")) {
            if let Some(input) = text.strip_prefix("> ") {
                assert!(asked.is_none(), "line {line}: the call before has no answer");
                asked = Some((line, input.to_owned()));
            } else {
                let answer =
                    text.strip_prefix("< ").unwrap_or_else(|| panic!("line {line}: neither > nor <"));
                let (line, input) = asked.take().expect("an answer without a call");
                let about = mark.trim_start_matches("memory").trim().to_owned();
                found.push(Example { line, about, input, answer: answer.to_owned() });
            }
        }
    }
    assert!(asked.is_none(), "a call without an answer");
    found
}

/// Whether `text` matches `pattern`, in which `…` matches anything.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|head| text.strip_prefix(head)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

async fn compare(tool: &MemoryTool, examples: impl Iterator<Item = &Example>) {
    for Example { line, input, answer: expected, .. } in examples {
        let answer = tool.call(input).await;
        assert!(
            fits(expected, &answer),
            "docs/tool.md, line {line}, on {}:\n> {input}\n< {expected}\nbut it answered\n< {answer}",
            tool.memory().name()
        );
    }
}

#[tokio::test]
async fn every_example_of_the_page_answers_as_it_says() {
    let page = page();
    let examples = examples(&page);
    for op in ToolOp::ALL {
        let call = format!(r#"{{"op":"{}""#, op.as_str());
        assert!(examples.iter().any(|example| example.input.starts_with(&call)), "no example of {op:?}");
    }
    assert!(
        examples
            .iter()
            .all(|example| ["", "layer", "sql", "governed", "graph"].contains(&example.about.as_str()))
    );
    let about = |what: &'static str| examples.iter().filter(move |example| example.about == what);
    let policy = Policy::default()
        .with_memory_scopes([ScopeKind::Agent, ScopeKind::Run])
        .with_quota(Quota { max_entries: Some(1_000), max_bytes: Some(1_000_000) });
    for memory in providers(&Arc::new(TestClock::new())).await {
        if memory.sql().is_some() {
            let policy = policy.clone().with_sql_scopes([ScopeKind::Agent]);
            compare(&MemoryTool::new(memory.clone(), policy, run(None)).unwrap(), about("sql")).await;
            if cfg!(feature = "governed") {
                let policy = Policy::default().with_shared_state(SharedAccess::Forget);
                compare(&MemoryTool::new(memory.clone(), policy, run(None)).unwrap(), about("governed"))
                    .await;
            }
            if cfg!(feature = "hierarchical") {
                let policy = Policy::default().with_graph(GraphAccess::Add);
                compare(&MemoryTool::new(memory.clone(), policy, run(None)).unwrap(), about("graph")).await;
            }
        }
        let tool = MemoryTool::new(memory, policy.clone(), run(None)).unwrap();
        compare(&tool, about("")).await;
    }
    compare(&tool_over(&Arc::default()), about("layer")).await;
}

#[test]
fn successful_calls_match_the_schema() {
    let whole = tool_schema();
    for Example { line, input, answer, .. } in examples(&page()) {
        if answer.starts_with(r#"{"error""#) {
            continue;
        }
        let call: serde_json::Map<String, Value> = serde_json::from_str(&input).unwrap();
        let op = ToolOp::ALL.iter().find(|op| call["op"] == op.as_str()).unwrap();
        for required in op_schema(*op)["required"].as_array().unwrap() {
            assert!(call.contains_key(required.as_str().unwrap()), "line {line}: no {required}");
        }
        for (name, value) in &call {
            let kind = match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(number) if number.is_f64() => "number",
                Value::Number(_) => "integer",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            let field = &whole["properties"][name];
            let wanted = &field["type"];
            let fits = wanted.is_null() || wanted == kind || (wanted == "number" && kind == "integer");
            assert!(fits, "line {line}: {name} is {kind}, not {wanted}");
            assert!(
                field.get("enum").is_none_or(|words| words.as_array().unwrap().contains(value)),
                "line {line}"
            );
        }
    }
}

#[test]
fn the_page_names_every_operation_field_and_code() {
    let page = page();
    for op in ToolOp::ALL {
        assert!(page.contains(&format!("`{}`", op.as_str())), "{op:?}");
        for field in op_schema(*op)["properties"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{field}`")), "{field}");
        }
    }
    for kind in ErrorKind::ALL {
        assert!(page.contains(&format!("`{}`", kind.code())), "{kind}");
    }
}

#[test]
fn a_pattern_fits_what_it_leaves_open() {
    assert!(fits("a…c", "abc") && fits("abc", "abc") && fits("a…b…", "aXbY") && fits("…", ""));
    assert!(!fits("a…c", "abd") && !fits("ab", "abc") && !fits("a…b…c", "acb"));
}
