//! Tools in the form that each model provider expects. All forms are derived from the schema for MCP clients, so
//! nothing has to be kept in step.

use serde_json::{Map, Value, json};

/// Who takes the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaForm {
    /// The Messages API of Anthropic: `input_schema`.
    Anthropic,
    /// The same, with strict mode for tools whose fields all allow it.
    AnthropicStrict,
    /// Functions of OpenAI's Responses API in strict mode: every field is required, and `null` stands for an omitted
    /// one.
    Openai,
    /// The same for the Chat Completions API, which wraps the function in a member of its own.
    OpenaiChat,
    /// Function declarations of Gemini: a subset of OpenAPI 3.0.
    Gemini,
    /// `tools/list` of MCP: `inputSchema`.
    Mcp,
}

/// A tool in the form of a provider.
///
/// `schema` is an object with the complete schema of each field, as
/// [`MemoryTool::detailed_schema`](crate::MemoryTool::detailed_schema) and [`files_schema`](crate::files::files_schema)
/// return it. Strict mode and Gemini have no objects with free names: fields of such a type (`metadata`, `filter`,
/// `merge`) are left out, and any JSON becomes a string, a number or a boolean.
#[must_use]
pub fn tool_in_form(form: SchemaForm, name: &str, description: &str, schema: &Value) -> Value {
    match form {
        SchemaForm::Anthropic => {
            json!({"name": name, "description": description, "input_schema": flat(schema)})
        }
        SchemaForm::AnthropicStrict => {
            let mut tool = tool_in_form(SchemaForm::Anthropic, name, description, schema);
            if let (Some(strict), Some(tool)) = (closed(flat(schema)), tool.as_object_mut()) {
                tool.insert("input_schema".to_owned(), strict);
                tool.insert("strict".to_owned(), json!(true));
            }
            tool
        }
        SchemaForm::Mcp => json!({"name": name, "description": description, "inputSchema": flat(schema)}),
        SchemaForm::Openai => {
            let mut function = strict_function(name, description, schema);
            if let Some(function) = function.as_object_mut() {
                function.insert("type".to_owned(), json!("function"));
            }
            function
        }
        SchemaForm::OpenaiChat => {
            json!({"type": "function", "function": strict_function(name, description, schema)})
        }
        SchemaForm::Gemini => json!({
            "name": name,
            "description": Dialect::OpenApi.about(description, schema),
            "parameters": narrowed(schema, Dialect::OpenApi),
        }),
    }
}

/// A function in strict mode. OpenAI refuses a description of more than 1,024 characters, but has no such limit for
/// fields. So everything after the first line of a longer one moves to the first required field, which chooses the
/// operation.
fn strict_function(name: &str, description: &str, schema: &Value) -> Value {
    const MAX_CHARS: usize = 1_024;
    let mut parameters = narrowed(schema, Dialect::Strict);
    let mut description = Dialect::Strict.about(description, schema);
    let chooses = schema.get("required").and_then(|names| names.get(0)).and_then(Value::as_str);
    if description.chars().count() > MAX_CHARS
        && let Some((head, rest)) = description.split_once('\n')
        && let Some(field) =
            chooses.and_then(|name| parameters.get_mut("properties")?.get_mut(name)?.as_object_mut())
    {
        field.insert("description".to_owned(), json!(rest));
        description = head.to_owned();
    }
    json!({"name": name, "description": description, "strict": true, "parameters": parameters})
}

/// A dialect without free objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Strict,
    OpenApi,
}

fn narrowed(schema: &Value, dialect: Dialect) -> Value {
    dialect.node(schema).unwrap_or_else(|| dialect.object(Map::new(), &[]))
}

impl Dialect {
    /// The node in this dialect; `None` if the dialect cannot express it.
    fn node(self, node: &Value) -> Option<Value> {
        let mut out = self.bare(node)?;
        if let (Some(out), Some(about)) = (out.as_object_mut(), node.get("description")) {
            let about = about.as_str().map_or_else(|| about.clone(), |text| self.about(text, node).into());
            out.insert("description".to_owned(), about);
        }
        Some(out)
    }

    /// A text about an object without the names of fields that this dialect cannot express: in lists of fields, where
    /// optional ones have a `?`, and in backticks.
    fn about(self, text: &str, node: &Value) -> String {
        let fields = node.get("properties").and_then(Value::as_object).into_iter().flatten();
        let missing = fields.filter(|(_, field)| self.node(field).is_none());
        missing.fold(text.to_owned(), |text, (name, _)| {
            let lines = text.split('\n').map(|line| match line.split_once("): ") {
                // An operation: its fields, then what it does.
                Some((fields, rest)) => {
                    let fields =
                        fields.replace(&format!(", {name}?"), "").replace(&format!("({name}?, "), "(");
                    format!("{fields}): {}", rest.replace(&format!("`{name}`, "), ""))
                }
                None => line.replace(&format!(", {name}"), ""),
            });
            lines.collect::<Vec<_>>().join("\n")
        })
    }

    fn bare(self, node: &Value) -> Option<Value> {
        if let Some(words) = choices(node) {
            return Some(json!({"type": "string", "enum": words}));
        }
        let kind = node.get("type");
        match kind.and_then(Value::as_str) {
            Some(kind @ ("string" | "integer" | "number" | "boolean")) => Some(json!({"type": kind})),
            Some("array") => {
                let items = self.node(node.get("items")?)?;
                Some(json!({"type": "array", "items": items}))
            }
            Some("object") => {
                let fields =
                    node.get("properties").and_then(Value::as_object).filter(|fields| !fields.is_empty())?;
                let required: Vec<&str> = node
                    .get("required")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                let mut kept = Map::new();
                for (name, field) in fields {
                    match self.node(field) {
                        Some(field) => drop(kept.insert(name.clone(), field)),
                        None if required.contains(&name.as_str()) => return None,
                        None => {}
                    }
                }
                (!kept.is_empty()).then(|| self.object(kept, &required))
            }
            // Anything at all.
            None if kind.is_none()
                && ["$ref", "anyOf", "oneOf", "allOf"].iter().all(|word| node.get(word).is_none()) =>
            {
                Some(json!({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}))
            }
            _ => None,
        }
    }

    fn object(self, fields: Map<String, Value>, required: &[&str]) -> Value {
        match self {
            Self::OpenApi => {
                let mut object = json!({"type": "object", "properties": fields});
                if let Some(object) = object.as_object_mut().filter(|_| !required.is_empty()) {
                    object.insert("required".to_owned(), json!(required));
                }
                object
            }
            Self::Strict => {
                let names: Vec<String> = fields.keys().cloned().collect();
                let fields: Map<String, Value> = fields
                    .into_iter()
                    .map(|(name, field)| match required.contains(&name.as_str()) {
                        true => (name, field),
                        false => (name, or_null(field)),
                    })
                    .collect();
                json!({"type": "object", "properties": fields, "required": names, "additionalProperties": false})
            }
        }
    }
}

/// The same, or `null`.
fn or_null(mut field: Value) -> Value {
    let Some(object) = field.as_object_mut() else { return field };
    let about = object.remove("description");
    let nothing = json!({"type": "null"});
    let mut either = match object.remove("anyOf") {
        Some(Value::Array(mut kinds)) => {
            kinds.push(nothing);
            json!({ "anyOf": kinds })
        }
        _ => json!({"anyOf": [object, nothing]}),
    };
    if let (Some(either), Some(about)) = (either.as_object_mut(), about) {
        either.insert("description".to_owned(), about);
    }
    either
}

/// The same schema with one level of each field, which any client accepts: no `oneOf`, references or type unions.
pub(crate) fn flat(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        fields.values_mut().for_each(|field| *field = flat_field(field));
    }
    schema
}

/// A flat schema for Anthropic's strict mode, which takes at most 24 optional fields per request, no objects with free
/// names, and nothing without a type. `None` if it has such fields.
fn closed(mut schema: Value) -> Option<Value> {
    const MAX_OPTIONAL: usize = 24;
    let is_plain = |field: &Value| {
        let kind = field.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| ["string", "integer", "number", "boolean"].contains(&kind))
    };
    let fields = schema.get("properties")?.as_object()?;
    let takes = |field: &Value| is_plain(field) || field.get("items").is_some_and(is_plain);
    let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
    if !fields.values().all(takes) || fields.len().saturating_sub(required) > MAX_OPTIONAL {
        return None;
    }
    schema.as_object_mut()?.insert("additionalProperties".to_owned(), json!(false));
    Some(schema)
}

/// One level of a field: type, choices, element type and description.
fn flat_field(field: &Value) -> Value {
    let mut out = Map::new();
    let kind = field.get("type").cloned();
    // Here everything but a plain type is an object: the recursive filter, the choice of fusions.
    let kind = match (&kind, field.get("$ref").or_else(|| field.get("oneOf")).or_else(|| field.get("anyOf")))
    {
        (None, Some(_)) if choices(field).is_some() => Some(json!("string")),
        (None, Some(_)) => Some(json!("object")),
        _ => kind,
    };
    if kind.as_ref() == Some(&json!("array")) {
        let items = field.get("items").and_then(|items| items.get("type"));
        out.insert("items".to_owned(), items.map_or_else(|| json!({}), |kind| json!({"type": kind})));
    }
    if let Some(kind) = kind {
        out.insert("type".to_owned(), kind);
    }
    if let Some(choices) = choices(field) {
        out.insert("enum".to_owned(), choices);
    }
    if let Some(description) = field.get("description") {
        out.insert("description".to_owned(), description.clone());
    }
    Value::Object(out)
}

/// The values of an enum, given as `enum` or as constants with a description each.
fn choices(field: &Value) -> Option<Value> {
    if let Some(words) = field.get("enum") {
        return Some(words.clone());
    }
    let variants = field.get("oneOf")?.as_array()?;
    variants
        .iter()
        .map(|variant| variant.get("const").filter(|word| word.is_string()).cloned())
        .collect::<Option<Vec<Value>>>()
        .map(Value::Array)
}
