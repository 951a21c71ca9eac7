//! Converts validated text to `serde_json::Value`.

use super::scan::{Scanner, Token};
use super::string::decode;
use super::{Json, JsonError};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Number, Value};

/// Reads a tree as [`Json::to_value`] does, for `#[serde(deserialize_with)]`. Deserializing a `Value` directly would
/// misread an object that starts with one of serde_json's private marker names.
///
/// # Errors
/// Those of the deserializer, and of a text that is not a [`Json`].
pub fn tree<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    <Json as Deserialize>::deserialize(deserializer)?.to_value().map_err(de::Error::custom)
}

enum Frame {
    Array(Vec<Value>),
    Object { members: Map<String, Value>, key: String },
}

/// Built from our own tokens: serde_json's parser stops at 127 levels and misreads an object that starts with one of
/// its private marker names.
pub(super) fn to_value(json: &Json) -> Result<Value, JsonError> {
    let text = json.as_str();
    let mut frames: Vec<Frame> = Vec::new();
    for event in Scanner::new(text) {
        let event = event?;
        let raw = text.get(event.start..event.end).unwrap_or_default();
        let value = match event.token {
            Token::ObjectStart => {
                frames.push(Frame::Object { members: Map::new(), key: String::new() });
                continue;
            }
            Token::ArrayStart => {
                frames.push(Frame::Array(Vec::new()));
                continue;
            }
            Token::Key => {
                if let Some(Frame::Object { key, .. }) = frames.last_mut() {
                    *key = decode(raw).into_owned();
                }
                continue;
            }
            Token::ObjectEnd | Token::ArrayEnd => match frames.pop() {
                Some(Frame::Array(elements)) => Value::Array(elements),
                Some(Frame::Object { members, .. }) => Value::Object(members),
                None => Value::Null,
            },
            Token::String => Value::String(decode(raw).into_owned()),
            Token::Number => {
                Value::Number(serde_json::from_str::<Number>(raw).map_err(JsonError::Deserialize)?)
            }
            Token::True => Value::Bool(true),
            Token::False => Value::Bool(false),
            Token::Null => Value::Null,
        };
        match frames.last_mut() {
            Some(Frame::Array(elements)) => elements.push(value),
            Some(Frame::Object { members, key }) => {
                members.insert(std::mem::take(key), value);
            }
            None => return Ok(value),
        }
    }
    Err(JsonError::UnexpectedEnd { position: text.len() })
}
