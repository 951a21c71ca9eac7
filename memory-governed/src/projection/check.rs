//! What a write must look like, whatever it refers to.

use serde_json::{Map, Value};

use super::columns::{Kind, TASK_STATUS, columns};
use crate::bucket::Bucket;
use crate::request::WriteRequest;

/// Most bytes of a member.
const MAX_MEMBER: usize = 8 << 10;
/// Most bytes of a payload.
const MAX_PAYLOAD: usize = 32 << 10;
/// Most aliases of a request, and most bytes of one.
const MAX_ALIASES: (usize, usize) = (8, 200);
/// Most bytes of an id.
pub(super) const MAX_SLUG: usize = 64;

/// Whether a text may be an id: `[a-z][a-z0-9_-]{0,63}`.
pub(crate) fn is_slug(text: &str) -> bool {
    text.len() <= MAX_SLUG
        && text.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
}

/// Checks what a request says by itself. The error is why it is rejected.
pub(crate) fn check(request: &WriteRequest) -> Result<(), String> {
    let WriteRequest { bucket, operation, .. } = request;
    if !bucket.operations().contains(operation) {
        return Err(format!("{bucket} has no operation {operation}"));
    }
    match &request.target_id {
        Some(id) if !is_slug(id) => return Err("the target is no id: [a-z][a-z0-9_-]{0,63}".to_owned()),
        None if *bucket == Bucket::TaskState => return Err("a task's state names its task".to_owned()),
        _ => {}
    }
    let (most, longest) = MAX_ALIASES;
    if request.candidate_aliases.len() > most
        || request.candidate_aliases.iter().any(|alias| alias.len() > longest)
    {
        return Err(format!("more than {most} aliases, or one longer than {longest} bytes"));
    }
    if operation.is_lifecycle() {
        return if request.payload.is_empty() {
            Ok(())
        } else {
            Err(format!("{operation} takes no payload"))
        };
    }
    payload(*bucket, &request.payload)
}

fn payload(bucket: Bucket, payload: &Map<String, Value>) -> Result<(), String> {
    let mut bytes = 0;
    for (name, value) in payload {
        let Some(column) = columns(bucket).iter().find(|column| column.name == name) else {
            return Err(format!("{bucket} has no member of that name"));
        };
        let size = match (column.kind, value) {
            (_, Value::Null) if !column.required => 0,
            (Kind::Text, Value::String(text)) if !text.trim().is_empty() && !text.contains('\0') => {
                text.len()
            }
            (Kind::Status, Value::String(text)) if TASK_STATUS.contains(&text.as_str()) => text.len(),
            (Kind::Real, Value::Number(number)) if number.as_f64().is_some_and(f64::is_finite) => 8,
            (Kind::Json, Value::Object(_) | Value::Array(_) | Value::String(_)) => {
                let text = value.to_string();
                if text.contains("\\u0000") {
                    return Err(format!("{name} of {bucket} has a NUL character"));
                }
                text.len()
            }
            _ => return Err(format!("{name} of {bucket} has the wrong type, or is empty")),
        };
        if size > MAX_MEMBER && column.kind != Kind::Json {
            return Err(format!("{name} of {bucket} is longer than {MAX_MEMBER} bytes"));
        }
        bytes += size;
    }
    if bytes > MAX_PAYLOAD {
        return Err(format!("the payload is longer than {MAX_PAYLOAD} bytes"));
    }
    Ok(())
}
