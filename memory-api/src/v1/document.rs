//! `docs/openapi.json`: the description of the API, generated from the Rust types. This test fails if it is out of
//! date; with `MEMORY_WRITE_OPENAPI=1` it writes the file.

use memory::StateOp;
use memory_core::layer::{
    MAX_CAPTION_BYTES, MAX_MESSAGE_ID_BYTES, MAX_MESSAGES, MAX_SPEAKER_BYTES, MAX_SUPERSEDED,
};
use memory_core::limits::{
    MAX_BULK_ITEMS, MAX_GET_MANY, MAX_ID_BYTES, MAX_KEY_BYTES, MAX_METADATA_MEMBERS, MAX_METADATA_NAME_BYTES,
    MAX_PAGE, MAX_QUERY_BYTES, MAX_SOURCE_BYTES, MAX_TEXT_BYTES, MAX_TTL_MILLIS,
};
use memory_core::reduce::MAX_LIST_LIMIT;
use memory_core::sql::{MAX_ARGUMENTS, MAX_STATEMENT_BYTES};
use memory_core::{Capabilities, Failure, Op};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde::Serialize as _;
use serde_json::{Map, Value, json};

use super::replies;
use crate::caller::needs;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");

#[test]
fn the_description_of_the_api_is_current() {
    let text = laid_out(&document());
    if std::env::var_os("MEMORY_WRITE_OPENAPI").is_some() {
        std::fs::write(PATH, &text).unwrap();
    }
    let stored = std::fs::read_to_string(PATH).unwrap();
    assert!(
        stored == text,
        "docs/openapi.json is not what the types say; write it anew: MEMORY_WRITE_OPENAPI=1 cargo test -p memory-api document"
    );
}

/// Indented by one space: servers carry the file, and two spaces would be a fifth of it.
fn laid_out(document: &Value) -> String {
    let mut text = Vec::new();
    let layout = serde_json::ser::PrettyFormatter::with_indent(b" ");
    document.serialize(&mut serde_json::Serializer::with_formatter(&mut text, layout)).unwrap();
    text.push(b'\n');
    String::from_utf8(text).unwrap()
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
    limit(&mut schemas);
    schemas.values_mut().for_each(enumerated);
    schemas.insert(
        "Refusal".to_owned(),
        json!({"type": "object", "properties": {"error": failure}, "required": ["error"]}),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Memory for AI agents",
            "version": "1",
            "description": "Every operation of the three facets, as JSON over HTTP. docs/http-api.md explains it. The server counts a `maxLength` in bytes of UTF-8.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"refused": {
                "description": "Refused; `code` says why",
                "headers": {"Retry-After": {
                    "description": "Seconds after which to try again, where that is known",
                    "schema": {"type": "integer"},
                }},
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
            }},
            "schemas": schemas,
        },
    })
}

/// Limits that the server enforces. They are here rather than on the types, because the tool's schema is made from some
/// of these, and every model pays for its size.
fn limit(schemas: &mut Map<String, Value>) {
    let page = json!({"minimum": 1, "maximum": MAX_PAGE});
    let from_one = json!({"minimum": 1});
    let (share, weight) = (json!({"minimum": 0, "maximum": 1}), json!({"minimum": 0, "maximum": 100}));
    let text = |bytes: usize| json!({"maxLength": bytes});
    let id = json!({"maxLength": MAX_MESSAGE_ID_BYTES, "pattern": r"\S"});
    let asked = json!({"maxLength": MAX_QUERY_BYTES, "pattern": r"\S"});
    let limits = [
        ("AddOptions/properties/confirms", json!({"maxItems": MAX_SUPERSEDED})),
        ("AddOptions/properties/supersedes", json!({"maxItems": MAX_SUPERSEDED})),
        ("Dedup/properties/threshold", share.clone()),
        ("Expect/oneOf/3/properties/sha256", json!({"pattern": "^[0-9a-fA-F]{64}$"})),
        ("FactsQuery/properties/limit", page.clone()),
        ("Fusion/oneOf/0/properties/weighted/properties/vector", share.clone()),
        ("Fusion/oneOf/1/properties/reciprocal_rank/properties/k", json!({"minimum": 1, "maximum": 1_000})),
        ("Forget/oneOf/0/properties/ids", json!({"minItems": 1, "maxItems": MAX_PAGE})),
        ("ListQuery/properties/limit", page.clone()),
        ("ListQuery/properties/prefix", text(MAX_KEY_BYTES)),
        ("Message/properties/answers", id.clone()),
        ("Message/properties/caption", text(MAX_CAPTION_BYTES)),
        ("Message/properties/id", id.clone()),
        ("Message/properties/name", json!({"maxLength": MAX_SPEAKER_BYTES, "pattern": r"\S"})),
        ("Message/properties/session", id),
        (
            "Metadata",
            json!({
                "maxProperties": MAX_METADATA_MEMBERS,
                "propertyNames": {"minLength": 1, "maxLength": MAX_METADATA_NAME_BYTES},
            }),
        ),
        ("RankOptions/properties/frequency", weight.clone()),
        ("RankOptions/properties/half_life_seconds", json!({"minimum": 0.001, "maximum": 3_153_600_000_u64})),
        ("RankOptions/properties/recency", weight.clone()),
        ("RankOptions/properties/similarity", weight.clone()),
        ("RankOptions/properties/source", weight),
        ("RankOptions/properties/source_weights", json!({"maxProperties": 1_000})),
        (
            "RankOptions/properties/source_weights/additionalProperties",
            json!({"minimum": -100, "maximum": 100}),
        ),
        ("RecallQuery/properties/text", asked.clone()),
        ("RecallQuery/properties/threshold", share.clone()),
        (
            "RecallQuery/properties/top_k",
            json!({"minimum": 1, "description": "Most facts: 1 to `Capabilities::max_top_k`. Default 10."}),
        ),
        (
            "Reducer/oneOf/2/properties/bounded_list/properties/limit",
            json!({"minimum": 1, "maximum": MAX_LIST_LIMIT}),
        ),
        ("ReembedOptions/properties/except", text(MAX_KEY_BYTES)),
        ("ReembedOptions/properties/limit", json!({"minimum": 1, "maximum": 10_000})),
        ("ScopeUsesQuery/properties/limit", page.clone()),
        ("ScopesQuery/properties/limit", page.clone()),
        ("SearchQuery/properties/prefix", text(MAX_KEY_BYTES)),
        ("SearchQuery/properties/text", asked),
        ("SearchQuery/properties/threshold", share),
        ("SearchQuery/properties/top_k", from_one.clone()),
        ("SetOptions/properties/text", text(MAX_TEXT_BYTES)),
        ("Source", json!({"minLength": 1, "maxLength": MAX_SOURCE_BYTES})),
        ("SqlScopesQuery/properties/limit", page),
        ("StatementOptions/properties/max_bytes", from_one.clone()),
        ("StatementOptions/properties/max_rows", from_one),
        ("Ttl/oneOf/2/properties/after_ms", json!({"minimum": 1, "maximum": MAX_TTL_MILLIS})),
    ];
    for (at, limit) in limits {
        let (name, within) = at.split_at(at.find('/').unwrap_or(at.len()));
        let found = schemas.get_mut(name).and_then(|schema| schema.pointer_mut(within));
        let found = found.and_then(Value::as_object_mut).unwrap_or_else(|| panic!("there is no {at}"));
        found.extend(limit.as_object().unwrap().clone());
    }
}

/// Writes a choice of described texts as an `enum`: generators of clients take several `const`s for types of their own,
/// and accept only the first.
fn enumerated(schema: &mut Value) {
    let Some(choices) = schema["oneOf"].as_array() else { return };
    let texts: Option<Vec<&str>> = choices.iter().map(|choice| choice["const"].as_str()).collect();
    let Some(texts) = texts else { return };
    let mut described = schema["description"].as_str().unwrap_or_default().to_owned();
    for (choice, text) in choices.iter().zip(&texts) {
        let of_it = choice["description"].as_str().unwrap_or_default().replace('\n', " ");
        described += &format!("\n- `{text}`: {of_it}");
    }
    *schema = json!({"type": "string", "description": described.trim_start(), "enum": texts});
}

fn answers(description: &str, schema: &Value) -> Value {
    json!({
        "200": {"description": description, "content": {"application/json": {"schema": schema}}},
        "default": {"$ref": "#/components/responses/refused"},
    })
}

fn operation(op: Op, generator: &mut SchemaGenerator) -> Value {
    let (arguments, reply) = op.schemas(generator);
    // Options, queries and nullable arguments may be omitted.
    let may_be_left_out = |name: &str, schema: &Value| {
        name == "options"
            || (name == "query" && !matches!(op, Op::Search | Op::Recall))
            || schema.pointer("/anyOf/1/type") == Some(&json!("null"))
            || schema.pointer("/type/1") == Some(&json!("null"))
    };
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema) in arguments {
        let mut schema = schema.to_value();
        if let Some(limit) = limit_of(name).as_object() {
            schema.as_object_mut().unwrap().extend(limit.clone());
        }
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

/// The limits of an argument with this name, whatever the operation; `null` for those of its type only.
fn limit_of(argument: &str) -> Value {
    match argument {
        "limit" => json!({"minimum": 1, "maximum": MAX_PAGE}),
        "keys" => json!({"maxItems": MAX_GET_MANY}),
        "items" => json!({"maxItems": MAX_BULK_ITEMS}),
        "messages" => json!({"minItems": 1, "maxItems": MAX_MESSAGES}),
        "tombstones" => json!({"maxItems": MAX_PAGE}),
        "sql" => json!({"maxLength": MAX_STATEMENT_BYTES, "pattern": r"\S"}),
        "args" => json!({"maxItems": MAX_ARGUMENTS}),
        _ => Value::Null,
    }
}

/// What `Message::content` accepts; models are told that it is a string.
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

/// A name, which must not be empty.
fn named(most: usize) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": most})
}

fn in_path(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": named(MAX_ID_BYTES)})
}

fn on_state(op: StateOp, generator: &mut SchemaGenerator) -> Value {
    let schema = op.fields_schema(generator).to_value();
    let mut operation = json!({
        "operationId": op.as_str(),
        "summary": op.summary(),
        "tags": ["Agents"],
        "requestBody": {"required": true, "description": "The fields", "content": {"application/json": {"schema": schema}}},
        "responses": answers("As the Memory tool answers: docs/tool.md", &replies::of(op)),
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
        "responses": answers("For each what it answers, or why it is refused", &json!({"type": "array", "items": {"oneOf": [
            {"type": "object", "properties": {"reply": {}}, "required": ["reply"], "additionalProperties": false},
            {"$ref": "#/components/schemas/Refusal"},
        ]}})),
    })
}

fn entry(generator: &mut SchemaGenerator) -> Value {
    let header = |name: &str, description: &str| json!({"name": name, "in": "header", "required": false, "description": description, "schema": {"type": "string"}});
    let matching = [
        header("If-Match", "Only if the entry has this version, in quotes"),
        header("If-None-Match", "`*`: only if there is no entry"),
        idempotency_key(),
    ];
    let reply = |op: Op, generator: &mut SchemaGenerator| {
        op.schemas(generator).1.map(schemars::Schema::to_value).unwrap_or_default()
    };
    let tagged = |mut answers: Value| {
        for status in ["200", "201"] {
            if let Some(answer) = answers.get_mut(status).and_then(Value::as_object_mut) {
                let tag = json!({"description": "The version in quotes", "schema": {"type": "string"}});
                answer.insert("headers".to_owned(), json!({"ETag": tag}));
            }
        }
        answers
    };
    let mut found = answers("The entry", &generator.subschema_for::<memory_core::Entry>().to_value());
    found["304"] = json!({"description": "`If-None-Match` names its version"});
    let mut stored = answers("What was stored", &reply(Op::Set, generator));
    stored["201"] = stored["200"].clone();
    let delete = reply(Op::Delete, generator);
    json!({
        "parameters": [
            in_path("tenant"),
            json!({"name": "kind", "in": "path", "required": true, "schema": {"type": "string", "enum": ["agent", "user", "run"]}}),
            in_path("id"),
            json!({"name": "key", "in": "path", "required": true, "schema": named(MAX_KEY_BYTES)}),
        ],
        "get": {
            "operationId": "get_entry", "summary": "One entry; its version is the `ETag`",
            "parameters": [
                header("If-Match", "Only if the entry has this version, in quotes"),
                header("If-None-Match", "Only if the entry has none of these versions, in quotes"),
            ],
            "responses": tagged(found),
        },
        "put": {
            "operationId": "put_entry", "summary": "Store a value; the body is the value", "parameters": matching,
            "requestBody": {"required": true, "content": {"application/json": {"schema": {}}}},
            "responses": tagged(stored),
        },
        "delete": {
            "operationId": "delete_entry", "summary": "Delete an entry", "parameters": matching,
            "responses": answers("Whether there was one", &delete),
        },
    })
}
