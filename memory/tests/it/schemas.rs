//! The tools in the forms of the providers, checked against the rules that each of them documents.

use std::sync::Arc;

use memory::files::{FILES_TOOL_NAME, files_description, files_schema};
use memory::schemas::{SchemaForm, tool_in_form};
use memory::tool::{TOOL_NAME, op_schema};
use memory::{FilesTool, GraphAccess, MemoryTool, Policy, RunContext, ScopeKind, SharedAccess, ToolOp};
use serde_json::{Map, Value, json};

/// A tool that may do everything this build can.
async fn tool() -> MemoryTool {
    let memory = memory::open("sqlite::memory:").await.unwrap();
    let run = RunContext::new("acme".parse().unwrap(), "ann".parse().unwrap(), "run".parse().unwrap());
    let policy = Policy::default()
        .with_memory_scopes(ScopeKind::ALL)
        .with_sql_scopes(ScopeKind::ALL)
        .with_shared_state(SharedAccess::Forget)
        .with_graph(GraphAccess::Supersede);
    MemoryTool::new(memory, policy, run.with_user("ada".parse().unwrap())).unwrap()
}

/// Both tools in a form.
async fn in_form(form: SchemaForm) -> [Value; 2] {
    let tool = tool().await;
    [
        tool_in_form(form, TOOL_NAME, &tool.description(), &tool.detailed_schema()),
        tool_in_form(form, FILES_TOOL_NAME, files_description(), &files_schema()),
    ]
}

fn names_of(node: &Value) -> Vec<&String> {
    node["properties"].as_object().unwrap().keys().collect()
}

/// Structured outputs and strict functions of OpenAI: supported types and keywords, every field required, nothing else allowed,
/// at most ten levels and 5,000 properties, no `anyOf` at the root.
fn check_strict(node: &Value, depth: usize, properties: &mut usize) {
    let object = node.as_object().unwrap_or_else(|| panic!("no schema: {node}"));
    assert!(depth <= 10, "{depth} levels");
    for keyword in object.keys() {
        let known = [
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "anyOf",
            "description",
        ];
        assert!(known.contains(&keyword.as_str()), "`{keyword}` in {node}");
    }
    if let Some(kinds) = object.get("anyOf") {
        assert!(depth > 0 && object.get("type").is_none(), "{node}");
        kinds.as_array().unwrap().iter().for_each(|kind| check_strict(kind, depth, properties));
        return;
    }
    match object["type"].as_str().unwrap() {
        "string" | "integer" | "number" | "boolean" | "null" => {}
        "array" => check_strict(&node["items"], depth + 1, properties),
        "object" => {
            assert_eq!(node["additionalProperties"], false, "{node}");
            let mut required: Vec<&str> =
                node["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            required.sort_unstable();
            let mut names = names_of(node);
            names.sort_unstable();
            assert_eq!(names, required);
            *properties += names.len();
            for field in node["properties"].as_object().unwrap().values() {
                check_strict(field, depth + 1, properties);
            }
        }
        other => panic!("type {other}"),
    }
}

/// The `Schema` of Gemini's API: a subset of OpenAPI 3.0. Objects and arrays declare their contents, and enums are
/// strings.
fn check_openapi(node: &Value) {
    let object = node.as_object().unwrap_or_else(|| panic!("no schema: {node}"));
    for keyword in object.keys() {
        let known =
            ["type", "properties", "required", "items", "enum", "anyOf", "description", "nullable", "format"];
        assert!(known.contains(&keyword.as_str()), "`{keyword}` in {node}");
    }
    if let Some(words) = object.get("enum") {
        assert!(
            object["type"] == "string" && words.as_array().unwrap().iter().all(Value::is_string),
            "{node}"
        );
    }
    if let Some(kinds) = object.get("anyOf") {
        return kinds.as_array().unwrap().iter().for_each(check_openapi);
    }
    match object["type"].as_str().unwrap() {
        "string" | "integer" | "number" | "boolean" => {}
        "array" => check_openapi(&node["items"]),
        "object" => {
            let names = names_of(node);
            assert!(!names.is_empty(), "{node}");
            for name in node.get("required").and_then(Value::as_array).into_iter().flatten() {
                assert!(names.iter().any(|known| name == known.as_str()), "{name} is required and unknown");
            }
            node["properties"].as_object().unwrap().values().for_each(check_openapi);
        }
        other => panic!("type {other}"),
    }
}

/// What every provider requires of a function's name: letters, digits, `_` and `-`, at most 64.
fn check_name(tool: &Value) {
    let name = tool["name"].as_str().unwrap();
    assert!(
        name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)),
        "{name}"
    );
    assert!(!tool["description"].as_str().unwrap().is_empty());
}

/// OpenAI refuses a longer description of a function.
fn check_description(tool: &Value) {
    assert!(tool["description"].as_str().unwrap().chars().count() <= 1_024);
}

#[tokio::test]
async fn openai_takes_both_tools_in_strict_mode() {
    for tool in in_form(SchemaForm::Openai).await {
        check_name(&tool);
        check_description(&tool);
        assert_eq!((&tool["type"], &tool["strict"]), (&json!("function"), &json!(true)));
        let mut properties = 0;
        check_strict(&tool["parameters"], 0, &mut properties);
        assert!(properties > 9 && properties <= 5_000 && tool.to_string().len() < 120_000, "{properties}");
        assert_eq!(tool["parameters"]["type"], "object");
    }
}

#[tokio::test]
async fn chat_completions_have_the_same_function_in_a_member() {
    for (mut flat, chat) in
        in_form(SchemaForm::Openai).await.into_iter().zip(in_form(SchemaForm::OpenaiChat).await)
    {
        flat.as_object_mut().unwrap().remove("type");
        assert_eq!(chat, json!({"type": "function", "function": flat}));
    }
}

#[tokio::test]
async fn what_is_too_long_for_a_description_stands_at_the_field_that_chooses() {
    let tool = tool().await;
    let [whole, _] = in_form(SchemaForm::Gemini).await;
    let [memory, _] = in_form(SchemaForm::Openai).await;
    let at_op = memory["parameters"]["properties"]["op"]["description"].as_str().unwrap();
    assert_eq!(whole["description"], format!("{}\n{at_op}", memory["description"].as_str().unwrap()));
    let short = tool_in_form(SchemaForm::Openai, TOOL_NAME, "First.\nSecond.", &tool.detailed_schema());
    assert_eq!(short["description"], "First.\nSecond.");
}

#[tokio::test]
async fn gemini_takes_both_tools() {
    for tool in in_form(SchemaForm::Gemini).await {
        check_name(&tool);
        check_openapi(&tool["parameters"]);
    }
}

#[tokio::test]
async fn anthropic_and_mcp_get_the_schema_that_clients_of_mcp_get() {
    let shown = tool().await.schema();
    for (form, field) in [(SchemaForm::Anthropic, "input_schema"), (SchemaForm::Mcp, "inputSchema")] {
        let [memory, files] = in_form(form).await;
        check_name(&memory);
        assert_eq!(memory[field], shown);
        assert_eq!((&files[field], &files["name"]), (&files_schema(), &json!("memory_files")));
        for keyword in ["oneOf", "anyOf", "allOf"] {
            assert!(memory[field].get(keyword).is_none() && files[field].get(keyword).is_none());
        }
    }
}

#[tokio::test]
async fn anthropic_takes_in_strict_mode_what_it_can_say_whole() {
    let [memory, files] = in_form(SchemaForm::AnthropicStrict).await;
    assert_eq!(
        memory,
        in_form(SchemaForm::Anthropic).await[0],
        "more than 24 fields are optional, and some are free objects"
    );
    assert_eq!(files["strict"], true);
    let schema = &files["input_schema"];
    assert_eq!(
        (&schema["additionalProperties"], names_of(schema)),
        (&json!(false), names_of(&files_schema()))
    );
    for word in schema.as_object().unwrap().keys() {
        assert!(
            ["type", "properties", "required", "additionalProperties"].contains(&word.as_str()),
            "{word}"
        );
    }
    for field in schema["properties"].as_object().unwrap().values() {
        for word in field.as_object().unwrap().keys() {
            assert!(["type", "description", "enum", "items"].contains(&word.as_str()), "{field}");
        }
    }

    // None of these may be in a strict tool; the last is one optional field too many.
    let of = |fields: Value| json!({"type": "object", "properties": fields, "required": []});
    let optional = |count: usize| {
        of((0..count).map(|at| (at.to_string(), json!({"type": "string"}))).collect::<Map<_, _>>().into())
    };
    for (schema, is_strict) in [
        (optional(24), true),
        (of(json!({"free": {"type": "object"}})), false),
        (of(json!({"any": {"description": "Any JSON."}})), false),
        (of(json!({"list": {"type": "array", "items": {"type": "object"}}})), false),
        (optional(25), false),
    ] {
        let tool = tool_in_form(SchemaForm::AnthropicStrict, "t", "d", &schema);
        assert_eq!(tool["strict"] == true, is_strict, "{tool}");
    }
}

#[tokio::test]
async fn what_a_form_leaves_out_is_what_it_cannot_say() {
    let whole: Vec<String> = names_of(&tool().await.schema()).into_iter().cloned().collect();
    for form in [SchemaForm::Openai, SchemaForm::Gemini] {
        let [memory, files] = in_form(form).await;
        let kept = names_of(&memory["parameters"]);
        let missing: Vec<&str> =
            whole.iter().filter(|name| !kept.contains(name)).map(String::as_str).collect();
        let expected = ["filter", "merge", "metadata"];
        let known: Vec<&str> =
            expected.into_iter().filter(|name| whole.iter().any(|field| field == name)).collect();
        assert_eq!(missing, known, "{form:?}");
        assert_eq!(names_of(&files["parameters"]), names_of(&files_schema()));
    }
}

/// A value that the schema allows: the first choice, or the simplest.
fn sample(node: &Value) -> Value {
    if let Some(words) = node["enum"].as_array() {
        return words[0].clone();
    }
    if let Some(kinds) = node["anyOf"].as_array() {
        return sample(&kinds[0]);
    }
    match node["type"].as_str().unwrap() {
        "string" => json!("x"),
        "boolean" => json!(true),
        "array" => json!([sample(&node["items"])]),
        "object" => node["properties"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, field)| (name.clone(), if is_nullable(field) { Value::Null } else { sample(field) }))
            .collect::<Map<_, _>>()
            .into(),
        _ => json!(1),
    }
}

fn is_nullable(node: &Value) -> bool {
    node["anyOf"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["type"] == "null"))
}

#[tokio::test]
async fn a_call_in_strict_mode_sends_null_for_what_it_leaves_out() {
    let [form, files_form] = in_form(SchemaForm::Openai).await;
    let tool = Arc::new(tool().await);
    let fields = form["parameters"]["properties"].as_object().unwrap();
    for op in tool.ops() {
        let required = op_schema(op)["required"].as_array().unwrap().clone();
        let mut call: Map<String, Value> = fields
            .iter()
            .map(|(name, field)| {
                let value = if required.iter().any(|own| own == name) { sample(field) } else { Value::Null };
                (name.clone(), value)
            })
            .collect();
        call.insert("op".to_owned(), json!(op.as_str()));
        match op {
            ToolOp::Update => drop(call.insert("append".to_owned(), json!("x"))),
            ToolOp::Forget => drop(call.insert("all".to_owned(), json!(true))),
            _ => {}
        }
        let answer = tool.call(&Value::Object(call).to_string()).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        for word in ["field", "null", "expected", "missing"] {
            assert!(!message.contains(word), "{}: {message}", op.as_str());
        }
    }
    let mut call = sample(&files_form["parameters"]);
    (call["command"], call["path"]) = (json!("view"), json!("/memories"));
    let answer = FilesTool::new(tool).call(&call.to_string()).await;
    assert!(!answer.is_error, "{}", answer.text);
}

#[tokio::test]
async fn null_in_an_object_of_the_tool_s_own_stands_for_one_that_is_left_out() {
    let tool = tool().await;
    for (fields, taken) in [
        (
            json!({"dedup": {"policy": null, "threshold": null}, "rank": {"recency": null, "similarity": 1}}),
            true,
        ),
        (json!({"dedup": {}, "rank": null}), true),
        (json!({"dedup": {"polcy": null, "policy": "no such"}}), false),
        (json!({"dedup": 5}), false),
    ] {
        let mut call = json!({"op": "search", "query": "x"});
        call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let answer: Value = serde_json::from_str(&tool.call(&call.to_string()).await).unwrap();
        assert_eq!(answer["hits"].is_array(), taken, "{call}: {answer}");
    }
    // A `null` in a caller's own value is kept.
    let value = r#"{"policy":null,"n":1.50}"#;
    tool.call(&format!(r#"{{"op":"set","key":"k","value":{value}}}"#)).await;
    assert!(tool.call(r#"{"op":"get","key":"k"}"#).await.contains(value));
}

#[tokio::test]
async fn a_form_speaks_of_no_field_that_it_leaves_out() {
    fn texts(node: &Value, out: &mut Vec<String>) {
        match node {
            Value::Object(members) => members.iter().for_each(|(name, member)| match member {
                Value::String(text) if name == "description" => out.push(text.clone()),
                member => texts(member, out),
            }),
            Value::Array(elements) => elements.iter().for_each(|element| texts(element, out)),
            _ => {}
        }
    }
    for form in [SchemaForm::Openai, SchemaForm::Gemini] {
        let [memory, _] = in_form(form).await;
        let mut all = Vec::new();
        texts(&memory, &mut all);
        assert!(all.iter().any(|text| text.contains("- update(key, append?")), "{all:?}");
        for text in all {
            for name in ["metadata", "filter", "`merge`", "merge?", "source_weights", "fusion"] {
                assert!(!text.contains(name), "{form:?} has no {name}: {text}");
            }
        }
    }
}
