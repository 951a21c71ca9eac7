//! Values of the SQL facet: the JSON round trip keeps the value.

use std::collections::BTreeMap;

use memory_core::json::{Json, JsonKind};
use memory_core::sql::SqlValue;

use crate::generate::Choices;

/// Tries one value, given as JSON or generated from the bytes.
pub fn run(data: &[u8]) {
    if Choices::of(data).is_some() {
        return made_of(&data[1..]);
    }
    let Ok(json) = serde_json::from_slice::<Json>(data) else {
        assert!(serde_json::from_slice::<SqlValue>(data).is_err());
        return;
    };
    let value = SqlValue::from_json(&json);
    match serde_json::from_slice::<SqlValue>(data) {
        Ok(same) => assert!(equal(&same, value.as_ref().expect("both or neither"))),
        Err(_) => assert!(value.is_err()),
    }
    integer(&json, value.as_ref().ok());
    match value {
        Ok(value) => {
            round_trip(&value);
            faithful(&json, &value);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// `{"$int": "…"}` takes exactly the texts of 64-bit integers.
fn integer(json: &Json, value: Option<&SqlValue>) {
    let Ok(tagged) = json.deserialize::<BTreeMap<String, String>>() else { return };
    if let (1, Some(text)) = (tagged.len(), tagged.get("$int")) {
        assert_eq!(value, text.parse().ok().map(SqlValue::Int).as_ref());
    }
}

fn faithful(json: &Json, value: &SqlValue) {
    let text = json.as_str();
    match value {
        SqlValue::Null => assert_eq!(text, "null"),
        SqlValue::Bool(value) => assert_eq!(text, value.to_string()),
        SqlValue::Int(value) if json.kind() == JsonKind::Number => {
            assert!(text == value.to_string() || text == "-0");
        }
        SqlValue::Real(value) if json.kind() == JsonKind::Number => {
            assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(value.to_bits()));
        }
        SqlValue::Text(value) => {
            assert_eq!(serde_json::from_str::<String>(text).ok().as_ref(), Some(value));
        }
        // The inner value, byte for byte.
        SqlValue::Json(value) => assert!(text.contains(value.as_str())),
        SqlValue::Array(values) => {
            let elements: Vec<Json> = serde_json::from_str(text).expect("it was read");
            assert_eq!(elements.len(), values.len());
            elements.iter().zip(values).for_each(|(json, value)| faithful(json, value));
        }
        _ => assert_eq!(json.kind(), JsonKind::Object),
    }
}

fn made_of(bytes: &[u8]) {
    let mut eight = [0; 8];
    for (to, from) in eight.iter_mut().zip(bytes) {
        *to = *from;
    }
    let number = i64::from_le_bytes(eight);
    round_trip(&SqlValue::Int(number));
    round_trip(&SqlValue::Real(f64::from_bits(u64::from_le_bytes(eight))));
    round_trip(&SqlValue::Numeric(format!("{number}.{}", bytes.len())));
    round_trip(&SqlValue::Blob(bytes.to_vec()));
    let text = String::from_utf8_lossy(bytes).into_owned();
    round_trip(&SqlValue::Text(text.clone()));
    round_trip(&SqlValue::Array(vec![SqlValue::Text(text.clone()), SqlValue::Int(number), SqlValue::Null]));
    round_trip(&SqlValue::Embed(text));
}

fn round_trip(value: &SqlValue) {
    let text = serde_json::to_string(value).expect("writes");
    let again: SqlValue = serde_json::from_str(&text).expect("reads what it wrote");
    assert!(equal(&again, value), "{value:?} became {again:?} by {text}");
}

/// Equality that knows NaN and tells `-0.0` from `0.0`.
fn equal(a: &SqlValue, b: &SqlValue) -> bool {
    match (a, b) {
        (SqlValue::Real(a), SqlValue::Real(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        (SqlValue::Array(a), SqlValue::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        _ => a == b,
    }
}
