//! JSON values stored as their original text.
//!
//! A [`Json`] is validated once and never rewritten, so integers beyond 2^53, member order, number spelling and
//! duplicate names survive storage. Comparing, indexing and reducing work on the text; nothing here uses floating
//! point, recurses, or depends on serde_json's `preserve_order` or `arbitrary_precision`.

mod by_name;
mod canonical;
mod error;
pub(crate) mod scan;
mod search_text;
pub(crate) mod string;
mod value;

#[cfg(test)]
pub(crate) mod tests;

pub use by_name::{ByName, from_str};
pub use canonical::semantic_eq;
pub(crate) use canonical::write as write_canonical;
pub use error::JsonError;
pub use value::tree;

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// How many arrays and objects may be open at once: `[]` has depth 1, a number depth 0.
pub const MAX_DEPTH: usize = 128;

/// An immutable JSON text, valid by RFC 8259; cloning shares it.
///
/// Equality and hashing use the text: `1` is not `1.0`. See [`semantic_eq`] for equal meaning.
///
/// ```
/// use memory_core::json::{Json, semantic_eq};
///
/// let value = Json::parse(r#" {"id": 9007199254740993, "price": 1.50} "#)?;
/// assert_eq!(value.as_str(), r#"{"id": 9007199254740993, "price": 1.50}"#);
/// assert!(semantic_eq(&value, &Json::parse(r#"{"price":1.5,"id":9007199254740993}"#)?));
/// # Ok::<(), memory_core::json::JsonError>(())
/// ```
///
/// # Serde
/// The text passes unchanged through serde_json's text transports (`from_str`, `from_slice`, `from_reader`,
/// `to_string`, …), also inside structs, and can be read from a [`serde_json::Value`]. It must not sit under
/// `#[serde(flatten)]`, nor inside an untagged or internally tagged enum: serde buffers those, and the text would be lost;
/// deserialising there fails. An `Option<Json>` reads `null` as `None`. Writing *into* a `Value` with
/// [`serde_json::to_value`] is subject to what a `Value` can hold; prefer [`Json::to_value`].
#[derive(Clone)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "serde_json::Value"))]
pub struct Json {
    text: Arc<str>,
}

/// The six kinds of JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number of any size and precision.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl JsonKind {
    /// The kind's name in JSON's terms: `null`, `boolean`, `number`, `string`, `array` or `object`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

impl fmt::Display for JsonKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Json {
    /// Validates a text and stores it without outer white space.
    ///
    /// # Behavior
    /// - Accepts exactly the grammar of RFC 8259, in one pass whose cost is proportional to the text.
    /// - Refuses nesting beyond [`MAX_DEPTH`] and surrogate escapes without a partner, which the RFC leaves open.
    /// - Sets no limit on size; see [`len_bytes`](Self::len_bytes).
    pub fn parse(text: impl Into<String>) -> Result<Self, JsonError> {
        let text: String = text.into();
        text.parse()
    }

    /// The value `null`.
    pub fn null() -> Self {
        Self { text: "null".into() }
    }

    /// A JSON string with this content.
    pub fn string(content: &str) -> Self {
        Self::infallible(content)
    }

    /// Writes a Rust value as JSON. Non-finite floats become `null`, as in serde_json.
    ///
    /// # Errors
    /// [`JsonError::Serialize`] if `value` has no JSON form; [`JsonError::TooDeep`] beyond [`MAX_DEPTH`].
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        Self::parse(serde_json::to_string(value).map_err(JsonError::Serialize)?)
    }

    /// For types whose `Serialize` cannot fail and yields a scalar.
    fn infallible<T: Serialize + ?Sized>(scalar: &T) -> Self {
        match serde_json::to_string(scalar) {
            Ok(text) => Self { text: text.into() },
            Err(_) => unreachable!("strings and integers always have a JSON form"),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Length of the text in bytes.
    pub fn len_bytes(&self) -> usize {
        self.as_str().len()
    }

    /// The kind of value, from its first byte.
    pub fn kind(&self) -> JsonKind {
        kind_of(self.as_str())
    }

    /// The integer, if it is spelled as `-?digits` and fits; `None` for `1.0`, `1e3`, 2^63 and everything else.
    pub fn as_i64_exact(&self) -> Option<i64> {
        if self.kind() == JsonKind::Number { self.as_str().parse().ok() } else { None }
    }

    /// The value as a tree. If a name repeats, the last member counts.
    ///
    /// # Errors
    /// [`JsonError::Deserialize`] for a number beyond `f64` (`1e400`), unless serde_json's `arbitrary_precision` is on.
    pub fn to_value(&self) -> Result<serde_json::Value, JsonError> {
        value::to_value(self)
    }

    /// Reads the value as a Rust type. For a tree prefer [`to_value`](Self::to_value): serde_json misreads an object
    /// whose first name is one of its private markers.
    ///
    /// # Errors
    /// [`JsonError::Deserialize`] if it has another shape, or if `T` nests deeper than serde_json's limit of 127
    /// levels.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(self.as_str()).map_err(JsonError::Deserialize)
    }

    /// The text that full-text search indexes when the caller gives none, at most `max_bytes` long.
    ///
    /// # Behavior
    /// - A string value is its decoded content.
    /// - Of anything else: the names of members and the string and number leaves, in document order, joined by a space;
    ///   booleans, `null` and empty strings are left out. Numbers keep their spelling.
    /// - The limit cuts between characters, and before a number that does not fit whole.
    /// - A NUL (`\u0000`) is written as a space, since text columns refuse it.
    pub fn search_text(&self, max_bytes: usize) -> String {
        let mut out = String::new();
        self.write_search_text(&mut out, max_bytes);
        out
    }

    /// Appends [`search_text`](Self::search_text) to `out`; `max_bytes` limits what is appended.
    pub fn write_search_text(&self, out: &mut String, max_bytes: usize) {
        search_text::write(self, out, max_bytes);
    }
}

/// The kind of a valid text without leading white space.
pub(crate) fn kind_of(text: &str) -> JsonKind {
    match text.as_bytes().first() {
        Some(b'{') => JsonKind::Object,
        Some(b'[') => JsonKind::Array,
        Some(b'"') => JsonKind::String,
        Some(b't' | b'f') => JsonKind::Bool,
        Some(b'-' | b'0'..=b'9') => JsonKind::Number,
        _ => JsonKind::Null,
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self { text: if value { "true" } else { "false" }.into() }
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::infallible(&value)
    }
}

/// As [`Json::parse`], with one copy of the text.
impl FromStr for Json {
    type Err = JsonError;

    fn from_str(text: &str) -> Result<Self, JsonError> {
        scan::Scanner::new(text).try_for_each(|event| event.map(drop))?;
        Ok(Self { text: text.trim_matches([' ', '\t', '\n', '\r']).into() })
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text) || self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl Hash for Json {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// The whole text.
impl fmt::Display for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The text, cut after 64 characters, and its length.
impl fmt::Debug for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.as_str();
        match text.char_indices().nth(64).and_then(|(at, _)| text.get(..at)) {
            Some(head) => write!(formatter, "Json({head}… {} bytes)", text.len()),
            None => write!(formatter, "Json({text})"),
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.text).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde_json accepts a raw value without checking depth or surrogates.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        raw.get().parse().map_err(D::Error::custom)
    }
}

/// Reads a number exactly: serde_json's own reading may be off by the last bit.
pub(crate) fn exact_f64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let json = <Json as Deserialize>::deserialize(deserializer)?;
    match json.kind() {
        JsonKind::Number => json.as_str().parse().map_err(D::Error::custom),
        kind => Err(D::Error::custom(format!("a number is expected, not {}", kind.name()))),
    }
}

/// As [`exact_f64`]; `null` is `None`.
pub(crate) fn exact_f64_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    struct Exact(#[serde(deserialize_with = "exact_f64")] f64);
    Ok(Option::<Exact>::deserialize(deserializer)?.map(|Exact(number)| number))
}
