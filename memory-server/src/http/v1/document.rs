//! `docs/openapi.json`: the description of the API, generated from the Rust types. This test fails when it is not current;
//! with `MEMORY_WRITE_OPENAPI=1` it writes the file.

use memory::StateOp;
use memory_core::{Capabilities, Failure, Op};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::http::caller::needs;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");

#[test]
fn the_description_of_the_api_is_current() {
    let mut text = serde_json::to_string_pretty(&document()).unwrap();
    text.push('\n');
    if std::env::var_os("MEMORY_WRITE_OPENAPI").is_some() {
        std::fs::write(PATH, &text).unwrap();
    }
    let stored = std::fs::read_to_string(PATH).unwrap();
    assert!(
        stored == text,
        "docs/openapi.json is not what the types say; write it anew: MEMORY_WRITE_OPENAPI=1 cargo test -p memory-server --lib document"
    );
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let failure = generator.subschema_for::<Failure>();
    let capabilities = generator.subschema_for::<Capabilities>();
    let mut paths = Map::new();
    paths.insert(
        "/v1/capabilities".to_owned(),
        json!({"get": {
            "operationId": "capabilities",
            "summary": "What is served",
            "responses": answers("What is served, and by whom", &json!({
                "type": "object",
                "properties": {"provider": {"type": "string"}, "capabilities": capabilities},
                "required": ["provider", "capabilities"],
            })),
        }}),
    );
    for op in Op::ALL.iter().copied().filter(|op| *op != Op::ReadSnapshot) {
        paths.insert(format!("/v1/ops/{op}"), json!({"post": operation(op, &mut generator)}));
    }
    for op in StateOp::ALL.iter().copied() {
        paths.insert(
            format!("/v1/tenants/{{tenant}}/agents/{{agent}}/{}", op.as_str()),
            json!({"parameters": [in_path("tenant"), in_path("agent")], "post": on_state(op, &mut generator)}),
        );
    }
    paths.insert("/v1/batch".to_owned(), json!({"post": batch()}));
    paths.insert("/v1/tenants/{tenant}/{kind}/{id}/entries/{key}".to_owned(), entry(&mut generator));
    let mut schemas = generator.take_definitions(true);
    schemas["Message"]["properties"]["content"] = contents();
    schemas.insert(
        "Refusal".to_owned(),
        json!({"type": "object", "properties": {"error": failure}, "required": ["error"]}),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Memory for AI agents",
            "version": "1",
            "description": "Every operation of the three facets, as JSON over HTTP. docs/http-api.md explains it.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"refused": {
                "description": "Refused; `code` says why",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
            }},
            "schemas": schemas,
        },
    })
}

fn answers(description: &str, schema: &Value) -> Value {
    json!({
        "200": {"description": description, "content": {"application/json": {"schema": schema}}},
        "default": {"$ref": "#/components/responses/refused"},
    })
}

fn operation(op: Op, generator: &mut SchemaGenerator) -> Value {
    let (arguments, reply) = op.schemas(generator);
    // Options, queries and what may be null can be left out.
    let may_be_left_out = |name: &str, schema: &Value| {
        name == "options"
            || (name == "query" && !matches!(op, Op::Search | Op::Recall))
            || schema.pointer("/anyOf/1/type") == Some(&json!("null"))
            || schema.pointer("/type/1") == Some(&json!("null"))
    };
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema) in arguments {
        let schema = schema.to_value();
        if !may_be_left_out(name, &schema) {
            required.push(json!(name));
        }
        properties.insert(name.to_owned(), schema);
    }
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false
    });
    let (sent, sent_as) = if matches!(op, Op::ImportScope | Op::Restore) {
        ("A line of arguments, lines of items, and a last line", "application/x-ndjson")
    } else {
        ("The arguments", "application/json")
    };
    let mut operation = json!({
        "operationId": op.as_str(),
        "summary": format!("`{}::{op}`", op.facet()),
        "tags": [op.facet()],
        "requestBody": {"required": true, "description": sent, "content": {sent_as: {"schema": schema}}},
        "responses": match reply {
            Some(reply) => answers("The result", &reply.to_value()),
            None => json!({
                "200": {"description": "Lines of items, and a last line", "content": {"application/x-ndjson": {}}},
                "default": {"$ref": "#/components/responses/refused"},
            }),
        },
    });
    if !op.is_read() && !matches!(op, Op::ImportScope | Op::Restore) {
        operation["parameters"] = json!([idempotency_key()]);
    }
    operation
}

/// What `Message::content` is read from; to a model, the tool says that it is a string.
fn contents() -> Value {
    let block =
        json!({"type": "object", "properties": {"type": {"type": "string"}, "text": {"type": "string"}}});
    json!({
        "description": "What was said; of a list of blocks, the texts count.",
        "anyOf": [
            {"type": "string"},
            {"type": "null"},
            {"type": "array", "items": {"anyOf": [block, {"type": "string"}]}},
        ],
    })
}

/// An id, which is no empty text.
fn named() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn in_path(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": named()})
}

fn on_state(op: StateOp, generator: &mut SchemaGenerator) -> Value {
    let schema = op.fields_schema(generator).to_value();
    let mut operation = json!({
        "operationId": op.as_str(),
        "summary": op.summary(),
        "tags": ["Agents"],
        "requestBody": {"required": true, "description": "The fields", "content": {"application/json": {"schema": schema}}},
        "responses": answers("As the Memory tool answers: docs/tool.md", &json!({"type": "object"})),
    });
    if !needs(op.like()).is_some_and(Op::is_read) {
        operation["parameters"] = json!([idempotency_key()]);
    }
    operation
}

fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "Sent again with the same body: the first reply, and nothing is done again",
        "schema": {"type": "string", "minLength": 1, "maxLength": 256},
    })
}

fn batch() -> Value {
    let call = json!({
        "type": "object",
        "properties": {"op": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["op", "arguments"],
        "additionalProperties": false,
    });
    json!({
        "operationId": "batch",
        "summary": "At most 100 operations, one after another, each answered by itself",
        "parameters": [idempotency_key()],
        "requestBody": {"required": true, "content": {"application/json": {
            "schema": {"type": "array", "maxItems": 100, "items": call},
        }}},
        "responses": answers("`{\"reply\": …}` or `{\"error\": …}` for each", &json!({"type": "array", "items": {"type": "object"}})),
    })
}

fn entry(generator: &mut SchemaGenerator) -> Value {
    let path =
        |name: &str, schema: Value| json!({"name": name, "in": "path", "required": true, "schema": schema});
    let header = |name: &str, description: &str| json!({"name": name, "in": "header", "required": false, "description": description, "schema": {"type": "string"}});
    let matching = [
        header("If-Match", "Only if the entry has this version, in quotes"),
        header("If-None-Match", "`*`: only if there is no entry"),
        idempotency_key(),
    ];
    let reply = |op: Op, generator: &mut SchemaGenerator| {
        op.schemas(generator).1.map(schemars::Schema::to_value).unwrap_or_default()
    };
    let mut found = answers("The entry", &generator.subschema_for::<memory_core::Entry>().to_value());
    found["304"] = json!({"description": "`If-None-Match` names its version"});
    let mut stored = answers("What was stored", &reply(Op::Set, generator));
    stored["201"] = stored["200"].clone();
    let delete = reply(Op::Delete, generator);
    json!({
        "parameters": [
            path("tenant", named()),
            path("kind", json!({"type": "string", "enum": ["agent", "user", "run"]})),
            path("id", named()),
            path("key", named()),
        ],
        "get": {
            "operationId": "get_entry", "summary": "One entry; its version is the `ETag`",
            "parameters": [
                header("If-Match", "Only if the entry has this version, in quotes"),
                header("If-None-Match", "Only if the entry has none of these versions, in quotes"),
            ],
            "responses": found,
        },
        "put": {
            "operationId": "put_entry", "summary": "Store a value; the body is the value", "parameters": matching,
            "requestBody": {"required": true, "content": {"application/json": {"schema": true}}},
            "responses": stored,
        },
        "delete": {
            "operationId": "delete_entry", "summary": "Delete an entry", "parameters": matching,
            "responses": answers("Whether there was one", &delete),
        },
    })
}
