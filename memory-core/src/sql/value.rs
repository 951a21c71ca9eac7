//! Values in statements, and their JSON form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::json::Json;

/// A value of a statement's argument or result, without loss.
///
/// JSON: `null`, booleans, strings, integers and finite reals as themselves; `{"$blob": "base64"}`;
/// `{"$int": "9007199254740993"}` (accepted; for clients without 64-bit integers);
/// `{"$real": "NaN" | "Infinity" | "-Infinity"}`; `{"$numeric": "1.10"}`; `{"$json": …}` to pass a
/// JSON value as such; `{"$embed": "text"}` (arguments only) to pass that text's embedding; an array
/// (arguments only, on PostgreSQL) of these, or of arrays.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "serde_json::Value"))]
#[non_exhaustive]
pub enum SqlValue {
    /// SQL NULL.
    Null,
    /// A boolean (0 or 1 on SQLite).
    Bool(bool),
    /// An integer, exact.
    Int(i64),
    /// A real; NaN and infinities are tagged in JSON.
    Real(f64),
    /// An exact decimal, as its text.
    Numeric(String),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// A JSON value.
    Json(Json),
    /// Only as an argument: replaced by the embedding of this text inside the process.
    Embed(String),
    /// Only as an argument, on PostgreSQL: an array of any values but `Embed`, or of arrays of equal length.
    Array(Vec<Self>),
}

/// Most levels of an array argument; PostgreSQL's own limit.
const MAX_ARRAY_LEVELS: usize = 6;

/// The error for an array argument on an engine without arrays (ARG-8).
#[must_use]
pub fn no_arrays() -> Error {
    Error::invalid("SQLite has no arrays; pass {\"$json\": […]} and read it with json_each")
}

impl Serialize for SqlValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn tagged<S: Serializer>(
            serializer: S,
            tag: &str,
            value: &impl Serialize,
        ) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(tag, value)?;
            map.end()
        }
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Real(value) if value.is_finite() => serializer.serialize_f64(*value),
            Self::Real(value) if value.is_nan() => tagged(serializer, "$real", &"NaN"),
            Self::Real(value) if *value > 0.0 => tagged(serializer, "$real", &"Infinity"),
            Self::Real(_) => tagged(serializer, "$real", &"-Infinity"),
            Self::Numeric(text) => tagged(serializer, "$numeric", text),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Blob(bytes) => tagged(serializer, "$blob", &STANDARD.encode(bytes)),
            Self::Json(json) => tagged(serializer, "$json", json),
            Self::Embed(text) => tagged(serializer, "$embed", text),
            Self::Array(elements) => elements.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SqlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <Json as Deserialize>::deserialize(deserializer)?;
        Self::from_json(&json).map_err(D::Error::custom)
    }
}

impl SqlValue {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// `invalid_argument` for an untagged object, an unknown tag, an integer beyond 64 bits, a real outside the range
    /// of a double, or an array of more than 6 levels.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::within_levels(json, MAX_ARRAY_LEVELS)
    }

    fn within_levels(json: &Json, levels: usize) -> Result<Self> {
        use crate::json::JsonKind;
        let text = json.as_str();
        match json.kind() {
            JsonKind::Null => Ok(Self::Null),
            JsonKind::Bool => Ok(Self::Bool(text == "true")),
            JsonKind::String => parse(text).map(Self::Text),
            JsonKind::Number => {
                if let Some(int) = json.as_i64_exact() {
                    Ok(Self::Int(int))
                } else if !text.contains(['.', 'e', 'E']) {
                    Err(Error::invalid(
                        "an integer argument does not fit 64 bits; pass {\"$numeric\": \"…\"}",
                    ))
                } else {
                    match text.parse::<f64>() {
                        Ok(real) if real.is_finite() => Ok(Self::Real(real)),
                        _ => Err(Error::invalid("a number argument is beyond the range of a double")),
                    }
                }
            }
            JsonKind::Array => {
                let levels = levels.checked_sub(1).ok_or_else(too_many_levels)?;
                let elements: Vec<Json> = parse(text)?;
                elements
                    .iter()
                    .map(|element| Self::within_levels(element, levels))
                    .collect::<Result<_>>()
                    .map(Self::Array)
            }
            JsonKind::Object => Self::from_tagged(text),
        }
    }

    fn from_tagged(text: &str) -> Result<Self> {
        let members: std::collections::BTreeMap<String, Json> = parse(text)?;
        let mut members = members.into_iter();
        let (Some((tag, value)), None) = (members.next(), members.next()) else {
            return Err(Error::invalid("an object argument must be passed as {\"$json\": {…}}"));
        };
        match tag.as_str() {
            "$json" => Ok(Self::Json(value)),
            "$embed" => parse(value.as_str()).map(Self::Embed),
            "$numeric" => {
                let text: String = parse(value.as_str())?;
                let plain = !text.is_empty()
                    && text.len() <= 1_000
                    && text
                        .bytes()
                        .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
                if plain || text == "NaN" {
                    Ok(Self::Numeric(text))
                } else {
                    Err(Error::invalid("$numeric must be the text of a decimal number"))
                }
            }
            "$int" => parse::<String>(value.as_str())?
                .parse()
                .map(Self::Int)
                .map_err(|_| Error::invalid("$int must be the text of a 64-bit integer")),
            "$real" => match parse::<String>(value.as_str())?.as_str() {
                "NaN" => Ok(Self::Real(f64::NAN)),
                "Infinity" => Ok(Self::Real(f64::INFINITY)),
                "-Infinity" => Ok(Self::Real(f64::NEG_INFINITY)),
                _ => Err(Error::invalid("$real must be NaN, Infinity or -Infinity")),
            },
            "$blob" => STANDARD
                .decode(parse::<String>(value.as_str())?)
                .map(Self::Blob)
                .map_err(|_| Error::invalid("$blob must be standard base64 with padding")),
            _ => Err(Error::invalid(
                "an argument's tag must be $blob, $int, $real, $numeric, $json or $embed; pass an object as {\"$json\": {…}}",
            )),
        }
    }
}

/// Checks that an array argument is rectangular (ARG-9).
///
/// # Errors
/// `invalid_argument`.
pub(crate) fn check_array(elements: &[SqlValue]) -> Result<()> {
    lengths(elements, MAX_ARRAY_LEVELS).map(drop)
}

/// The lengths of an array at each level.
fn lengths(elements: &[SqlValue], levels: usize) -> Result<Vec<usize>> {
    let levels = levels.checked_sub(1).ok_or_else(too_many_levels)?;
    let mut inner: Option<Vec<usize>> = None;
    for element in elements {
        let found = match element {
            SqlValue::Array(nested) if nested.is_empty() => {
                return Err(Error::invalid(
                    "an array argument contains an empty array; only the whole array may be empty",
                ));
            }
            SqlValue::Array(nested) => lengths(nested, levels)?,
            SqlValue::Embed(_) => {
                return Err(Error::invalid(
                    "an array argument contains $embed; pass it as an argument of its own",
                ));
            }
            _ => Vec::new(),
        };
        if *inner.get_or_insert_with(|| found.clone()) != found {
            return Err(Error::invalid(
                "the arrays within an array argument differ in length or depth; make them equal, or pass {\"$json\": […]}",
            ));
        }
    }
    let mut all = vec![elements.len()];
    all.extend(inner.unwrap_or_default());
    Ok(all)
}

fn too_many_levels() -> Error {
    Error::invalid(format!(
        "an array argument has more than {MAX_ARRAY_LEVELS} levels; pass {{\"$json\": […]}}"
    ))
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Error::invalid("a tagged argument has the wrong JSON type").with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_json_both_ways() {
        for (text, value) in [
            ("null", SqlValue::Null),
            ("true", SqlValue::Bool(true)),
            ("9007199254740993", SqlValue::Int(9_007_199_254_740_993)),
            ("-9223372036854775808", SqlValue::Int(i64::MIN)),
            ("1.5", SqlValue::Real(1.5)),
            (r#""a\"b""#, SqlValue::Text("a\"b".into())),
            (r#"{"$blob":"AP8="}"#, SqlValue::Blob(vec![0, 255])),
            (r#"{"$real":"-Infinity"}"#, SqlValue::Real(f64::NEG_INFINITY)),
            (r#"{"$numeric":"1.10"}"#, SqlValue::Numeric("1.10".into())),
            (r#"{"$json":{"a":1e400}}"#, SqlValue::Json(Json::parse(r#"{"a":1e400}"#).unwrap())),
            (r#"{"$embed":"hi"}"#, SqlValue::Embed("hi".into())),
            ("[]", SqlValue::Array(vec![])),
            (
                r#"[1,null,{"$blob":""}]"#,
                SqlValue::Array(vec![SqlValue::Int(1), SqlValue::Null, SqlValue::Blob(vec![])]),
            ),
        ] {
            assert_eq!(serde_json::from_str::<SqlValue>(text).unwrap(), value, "{text}");
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }
        assert_eq!(serde_json::from_str::<SqlValue>(r#"{"$int":"7"}"#).unwrap(), SqlValue::Int(7));
    }

    #[test]
    fn values_that_cannot_be_bound_without_loss_are_refused() {
        for bad in [
            "[[[[[[[1]]]]]]]",
            "[{}]",
            "{}",
            r#"{"a":1}"#,
            r#"{"$blob":"!"}"#,
            "9223372036854775808",
            "1e400",
            r#"{"$int":1}"#,
        ] {
            assert!(serde_json::from_str::<SqlValue>(bad).is_err(), "{bad}");
        }
    }
}
