//! JSON Schema of the tool, generated from the operations' own types.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use memory_core::ScopeKind;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::ops::ToolOp;
use crate::schemas::flat;

/// The schema of one operation: `op` and its fields, some of them required, and nothing else. Types that occur in
/// several places are under `$defs`.
#[must_use]
pub fn op_schema(op: ToolOp) -> Value {
    generate(op, false)
}

fn generate(op: ToolOp, inline: bool) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = inline;
    });
    let mut generator = settings.into_generator();
    let mut schema = op.fields_schema(&mut generator).to_value();
    simplify(&mut schema);
    let definitions: Map<String, Value> = generator
        .take_definitions(true)
        .into_iter()
        .map(|(name, mut definition)| {
            simplify(&mut definition);
            (name, definition)
        })
        .collect();
    if let Some(object) = schema.as_object_mut() {
        let members = object.entry("properties").or_insert_with(|| json!({}));
        if let Some(members) = members.as_object_mut() {
            members.insert("op".to_owned(), json!({"const": op.as_str(), "description": op.summary()}));
        }
        let required = object.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.insert(0, json!("op"));
        }
        if !definitions.is_empty() {
            object.insert("$defs".to_owned(), Value::Object(definitions));
        }
    }
    schema
}

/// The input schema of the whole tool: one flat object that any client accepts, without `oneOf`, references or type
/// unions. [`tool_description`](super::tool_description) says which fields belong to which operation, and [`op_schema`]
/// says it exactly.
#[must_use]
pub fn tool_schema() -> Value {
    flat(&detailed_schema(ToolOp::ALL, &ScopeKind::ALL, |_, _| true))
}

/// The input for some operations, fields and kinds of scope, with the complete schema of each field.
pub(super) fn detailed_schema(
    ops: &[ToolOp],
    kinds: &[ScopeKind],
    takes: impl Fn(ToolOp, &str) -> bool,
) -> Value {
    let mut properties = Map::new();
    let names: Vec<&str> = ops.iter().map(|op| op.as_str()).collect();
    properties.insert("op".to_owned(), json!({"type": "string", "enum": names}));
    for op in ops {
        for (name, field) in members(&generate(*op, true)) {
            if name != "op" && takes(*op, &name) && !properties.contains_key(&name) {
                properties.insert(name, field);
            }
        }
    }
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    if let Some(scope) = properties.get_mut("scope").and_then(Value::as_object_mut) {
        scope.retain(|keyword, _| keyword == "description");
        scope.extend([("type".to_owned(), json!("string")), ("enum".to_owned(), json!(kinds))]);
    }
    if let Some(scopes) = properties.get_mut("scopes").and_then(Value::as_object_mut) {
        scopes.insert("items".to_owned(), json!({"type": "string", "enum": kinds}));
    }
    json!({"type": "object", "properties": properties, "required": ["op"], "additionalProperties": false})
}

/// The schema of a type that is one object.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = T::json_schema(&mut settings.into_generator()).to_value();
    simplify(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.remove("description");
    }
    schema
}

/// Names of an operation's fields without `op`: the required ones, then the others.
pub(super) fn fields(op: ToolOp) -> &'static [String] {
    names(op).0.as_slice()
}

/// How many fields are required; they come first in [`fields`].
pub(super) fn required(op: ToolOp) -> usize {
    names(op).1
}

fn names(op: ToolOp) -> &'static (Vec<String>, usize) {
    static NAMES: OnceLock<BTreeMap<ToolOp, (Vec<String>, usize)>> = OnceLock::new();
    static NONE: (Vec<String>, usize) = (Vec::new(), 0);
    let all = NAMES.get_or_init(|| ToolOp::ALL.iter().map(|op| (*op, read_names(*op))).collect());
    all.get(&op).unwrap_or(&NONE)
}

fn read_names(op: ToolOp) -> (Vec<String>, usize) {
    let schema = op_schema(op);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut names: Vec<String> =
        required.filter_map(Value::as_str).filter(|name| *name != "op").map(str::to_owned).collect();
    let count = names.len();
    for (name, _) in members(&schema) {
        if name != "op" && !names.contains(&name) {
            names.push(name);
        }
    }
    (names, count)
}

fn members(schema: &Value) -> Vec<(String, Value)> {
    let members = schema.get("properties").and_then(Value::as_object);
    members.into_iter().flatten().map(|(name, field)| (name.clone(), field.clone())).collect()
}

/// Removes what is useless to a caller: Rust's number formats, titles, defaults, and `null` as an alternative (an
/// absent field means the same).
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // Field names are not keywords.
            if let Some(Value::Object(fields)) = object.get_mut("properties") {
                fields.values_mut().for_each(simplify);
            }
            for keyword in ["format", "title", "default", "$schema"] {
                object.remove(keyword);
            }
            if let Some(Value::Array(kinds)) = object.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [only] = kinds.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(words)) = object.get_mut("enum") {
                words.retain(|word| !word.is_null());
            }
            if let Some(Value::Array(variants)) = object.get_mut("anyOf") {
                variants.retain(|variant| variant.get("type") != Some(&json!("null")));
                if let [Value::Object(only)] = variants.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    for (keyword, value) in only {
                        object.entry(keyword).or_insert(value);
                    }
                }
            }
            for (keyword, value) in object.iter_mut() {
                if !matches!(keyword.as_str(), "properties" | "enum" | "const") {
                    simplify(value);
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(simplify),
        _ => {}
    }
}
