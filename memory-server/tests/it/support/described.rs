//! Whether a reply is as the description of the API says: of JSON Schema what the description uses of it for replies.

use serde_json::Value;

/// The description.
fn document() -> Value {
    serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap()
}

/// Fails if the reply of a `POST` to this path of the description is another than it describes.
pub(crate) fn check(path: &str, reply: &Value) {
    let document = document();
    let answer = &document["paths"][path]["post"]["responses"]["200"];
    let schema = &answer["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{path} is not described");
    if let Err(why) = fits(&document, schema, reply) {
        panic!("{path} answers otherwise than docs/openapi.json says, {why}: {reply}");
    }
}

fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(at) = schema["$ref"].as_str() {
        return fits(document, document.pointer(at.trim_start_matches('#')).unwrap(), value);
    }
    for one_of in ["anyOf", "oneOf"] {
        if let Some(schemas) = schema[one_of].as_array() {
            let whys: Vec<_> =
                schemas.iter().filter_map(|schema| fits(document, schema, value).err()).collect();
            return if whys.len() < schemas.len() { Ok(()) } else { Err(whys.join(" or ")) };
        }
    }
    let is = |kind: &Value| match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("null") => value.is_null(),
        _ => true,
    };
    let kind = &schema["type"];
    if !kind.as_array().map_or_else(|| is(kind), |kinds| kinds.iter().any(is)) {
        return Err(format!("{value} is no {kind}"));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Err(format!("{value} is none of {}", schema["enum"]));
    }
    let required = schema["required"].as_array().into_iter().flatten();
    if let Some(name) = required.filter_map(Value::as_str).find(|name| value.get(name).is_none()) {
        return Err(format!("`{name}` is missing"));
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(schema) => fits(document, schema, member).map_err(|why| format!("at `{name}` {why}"))?,
            None if schema["additionalProperties"] == false => return Err(format!("`{name}` is unknown")),
            None => {}
        }
    }
    let items = &schema["items"];
    value.as_array().into_iter().flatten().try_for_each(|item| fits(document, items, item))
}
