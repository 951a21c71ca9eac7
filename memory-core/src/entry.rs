//! What is stored: entries, their metadata, lifetimes and preconditions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::json::{Json, JsonKind};
use crate::limits::{
    MAX_METADATA_MEMBERS, MAX_METADATA_NAME_BYTES, MAX_METADATA_STRING_BYTES, MAX_SOURCE_BYTES,
    MAX_TTL_MILLIS,
};
use crate::scope::Key;
use crate::time::Timestamp;

/// A metadata value: a boolean, an integer, a finite number or a string.
///
/// Numbers compare as numbers, exactly: `2^53 + 1` is greater than `2^53` also across the two
/// number forms.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A finite number that is not such an integer.
    Float(f64),
    /// Text.
    Text(String),
}

impl Scalar {
    /// Orders two scalars of the same type (numbers are one type); `None` across types.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Int(a), Self::Float(b)) => compare_int_float(*a, *b),
            (Self::Float(a), Self::Int(b)) => compare_int_float(*b, *a).map(Ordering::reverse),
            (Self::Text(a), Self::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            _ => None,
        }
    }

    pub(crate) fn check(&self, what: &str) -> Result<()> {
        match self {
            Self::Float(number) if !number.is_finite() => {
                Err(Error::invalid(format!("{what} is not a finite number")))
            }
            // 2^63 and beyond: the JSON number was an integer that does not fit 64 bits.
            Self::Float(number) if number.abs() >= 9_223_372_036_854_775_808.0 && number.fract() == 0.0 => {
                Err(Error::invalid(format!("{what} does not fit a 64-bit integer; store it as text")))
            }
            Self::Text(text) if text.len() > MAX_METADATA_STRING_BYTES => {
                Err(Error::too_large("metadata string", text.len(), MAX_METADATA_STRING_BYTES, "bytes"))
            }
            _ => Ok(()),
        }
    }
}

/// Reads through [`Json`], so that numbers arrive whole whichever of serde_json's features are on.
impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error as _;
        let json = <Json as Deserialize>::deserialize(deserializer)?;
        match json.kind() {
            JsonKind::Bool => Ok(Self::Bool(json.as_str() == "true")),
            JsonKind::String => json.deserialize().map(Self::Text).map_err(D::Error::custom),
            JsonKind::Number => match (json.as_i64_exact(), json.as_str().parse::<f64>()) {
                (Some(int), _) => Ok(Self::Int(int)),
                (None, Ok(float)) if float.is_finite() => Ok(Self::Float(float)),
                _ => Err(D::Error::custom("the number is beyond the range of a double; store it as text")),
            },
            JsonKind::Null => Err(D::Error::custom("null is no metadata value; leave the member out")),
            JsonKind::Array | JsonKind::Object => {
                Err(D::Error::custom("metadata is flat: a boolean, a number or a string"))
            }
        }
    }
}

/// Exact comparison without rounding the integer to a float.
#[allow(clippy::cast_possible_truncation, reason = "the float is checked to lie within i64 first")]
fn compare_int_float(int: i64, float: f64) -> Option<Ordering> {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() {
        return None;
    }
    if float >= TWO_63 {
        return Some(Ordering::Less);
    }
    if float < -TWO_63 {
        return Some(Ordering::Greater);
    }
    let floor = float.floor();
    match int.cmp(&(floor as i64)) {
        Ordering::Equal if float > floor => Some(Ordering::Less),
        ordering => Some(ordering),
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Equal)
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Scalar {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Scalar {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// A flat map of scalars that filters can ask about.
///
/// At most 64 members; names of 1 to 128 bytes without control characters; strings of at most
/// 4,096 bytes; no nulls (leave the member out), no nesting. Members come back in byte order of
/// their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Metadata(BTreeMap<String, Scalar>);

impl Metadata {
    /// Empty metadata.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Adds or replaces a member.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Scalar>) {
        self.0.insert(name.into(), value.into());
    }

    /// The member of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Scalar> {
        self.0.get(name)
    }

    /// Members in byte order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Scalar)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks the limits of the type.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large`, naming the member.
    pub fn check(&self) -> Result<()> {
        if self.0.len() > MAX_METADATA_MEMBERS {
            return Err(Error::too_large("metadata", self.0.len(), MAX_METADATA_MEMBERS, "members"));
        }
        for (name, value) in &self.0 {
            check_metadata_name(name)?;
            value.check("a metadata number")?;
        }
        Ok(())
    }

    /// What the members add to [`Entry::size_bytes`].
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(name, value)| {
                name.len()
                    + match value {
                        Scalar::Text(text) => text.len(),
                        Scalar::Bool(_) => 1,
                        Scalar::Int(_) | Scalar::Float(_) => 8,
                    }
            })
            .sum()
    }
}

impl FromIterator<(String, Scalar)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (String, Scalar)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

pub(crate) fn check_metadata_name(name: &str) -> Result<()> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Error::invalid("a metadata name is empty or has control characters"));
    }
    if name.len() > MAX_METADATA_NAME_BYTES {
        return Err(Error::too_large("metadata name", name.len(), MAX_METADATA_NAME_BYTES, "bytes"));
    }
    Ok(())
}

/// A short label of where an entry came from (`chat`, `tool:web`, `import:locomo`).
///
/// 1 to 128 bytes, no control characters, no leading or trailing white space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Source(Box<str>);

impl Source {
    /// Validates `label`.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` where it breaks the rules of the type.
    pub fn new(label: impl Into<String>) -> Result<Self> {
        let label = label.into();
        if label.is_empty() || label.trim() != label || label.chars().any(char::is_control) {
            return Err(Error::invalid(
                "a source label is empty, has control characters, or has white space at an end",
            ));
        }
        if label.len() > MAX_SOURCE_BYTES {
            return Err(Error::too_large("source label", label.len(), MAX_SOURCE_BYTES, "bytes"));
        }
        Ok(Self(label.into_boxed_str()))
    }

    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Source {
    type Error = Error;
    fn try_from(label: String) -> Result<Self> {
        Self::new(label)
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.0.into_string()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One stored value with everything known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// The name within the scope.
    pub key: Key,
    /// The value, as JSON text, exactly as it was set.
    pub value: Json,
    /// Scalars that filters can ask about.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The text that search indexes, where the writer gave one; else search derives it from the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Grows with every write of the key and is never reused for it, across delete and expiry.
    /// At least 1. The order of versions of different keys means nothing.
    pub version: u64,
    /// When the key came into being (again, after delete or expiry).
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// The millisecond from which it is invisible; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How often `get` and search hits returned it. A statistic: batched, and lost for the last
    /// moments before a crash.
    #[serde(default)]
    pub access_count: u64,
}

impl Entry {
    /// An entry with no metadata, source, text, expiry or accesses.
    #[must_use]
    pub fn new(key: Key, value: Json, version: u64, now: Timestamp) -> Self {
        Self {
            key,
            value,
            metadata: Metadata::new(),
            source: None,
            text: None,
            version,
            created_at: now,
            updated_at: now,
            expires_at: None,
            access_count: 0,
        }
    }

    /// Whether the entry is invisible at `now`: `expires_at <= now`.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// What the entry counts against a quota, in bytes: [`size_bytes`] of its parts.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        size_bytes(&self.key, &self.value, &self.metadata, self.source.as_ref(), self.text.as_deref())
    }

    /// The text that full-text search indexes: the explicit text, else [`Json::search_text`].
    #[must_use]
    pub fn search_text(&self) -> std::borrow::Cow<'_, str> {
        match &self.text {
            Some(text) => text.as_str().into(),
            None => self.value.search_text(crate::limits::MAX_TEXT_BYTES).into(),
        }
    }
}

/// What an entry counts against a quota: the bytes of key, value text, metadata (names, strings,
/// 8 per number, 1 per boolean), source and explicit text. Index and engine overhead is not counted.
#[must_use]
pub fn size_bytes(
    key: &Key,
    value: &Json,
    metadata: &Metadata,
    source: Option<&Source>,
    text: Option<&str>,
) -> u64 {
    let bytes = key.as_str().len()
        + value.as_str().len()
        + metadata.size_bytes()
        + source.map_or(0, |source| source.as_str().len())
        + text.map_or(0, str::len);
    bytes as u64
}

/// SHA-256 of a value's JSON text, for [`Expect::Sha256`].
#[must_use]
pub fn value_sha256(value: &Json) -> [u8; 32] {
    Sha256::digest(value.as_str().as_bytes()).into()
}

/// How long a write makes an entry live. JSON: `"keep"`, `"never"`, `{"after_ms": 60000}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ttl {
    /// The stored expiry stays; a new entry never expires.
    #[default]
    Keep,
    /// The entry never expires.
    Never,
    /// The entry is invisible this long after the write, in whole milliseconds: 1 ms to 100 years.
    #[serde(rename = "after_ms", with = "duration_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    After(Duration),
}

mod duration_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

impl Ttl {
    /// Checks the range of [`Ttl::After`].
    ///
    /// # Errors
    /// `invalid_argument` below 1 ms or above 100 years.
    pub fn check(self) -> Result<()> {
        match self {
            Self::After(duration) if duration.as_millis() == 0 => Err(Error::invalid(
                "the TTL is below 1 ms; use `never` to clear an expiry or delete the entry to end it now",
            )),
            Self::After(duration) if duration.as_millis() > u128::from(MAX_TTL_MILLIS) => {
                Err(Error::invalid("the TTL is over 100 years; use `never` for an entry that stays"))
            }
            _ => Ok(()),
        }
    }

    /// The expiry that a write at `now` stores, given the live entry's expiry (`None`: no live
    /// entry, or one that never expires).
    ///
    /// # Errors
    /// `invalid_argument` out of range or past the end of time.
    pub fn expiry(self, now: Timestamp, stored: Option<Timestamp>) -> Result<Option<Timestamp>> {
        self.check()?;
        match self {
            Self::Keep => Ok(stored),
            Self::Never => Ok(None),
            Self::After(duration) => now
                .checked_add(duration)
                .map(Some)
                .ok_or_else(|| Error::invalid("the TTL reaches past the year 9999; use `never`")),
        }
    }
}

/// A precondition of a write. JSON: `"any"`, `"absent"`, `{"version": 7}`, `{"sha256": "…64 hex…"}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Whatever is stored.
    #[default]
    Any,
    /// No live entry.
    Absent,
    /// A live entry of exactly this version.
    Version(u64),
    /// A live entry whose value text has this SHA-256.
    #[serde(with = "hex_32")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    Sha256([u8; 32]),
}

mod hex_32 {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::scope::hex(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text
            .chars()
            .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<Vec<u8>>>()
            .filter(|digits| digits.len() == 64)
            .ok_or_else(|| serde::de::Error::custom("a SHA-256 is 64 hexadecimal digits"))?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |value, digit| value << 4 | digit);
        }
        Ok(bytes)
    }
}

impl Expect {
    /// Whether the precondition holds for the live entry (`None`: no live entry).
    #[must_use]
    pub fn holds(&self, live: Option<(u64, &Json)>) -> bool {
        match (self, live) {
            (Self::Any, _) | (Self::Absent, None) => true,
            (Self::Version(expected), Some((version, _))) => *expected == version,
            (Self::Sha256(expected), Some((_, value))) => *expected == value_sha256(value),
            (Self::Absent, Some(_)) | (Self::Version(_) | Self::Sha256(_), None) => false,
        }
    }
}

/// How much one scope may hold. A write that would grow the scope past it is refused; a write
/// that shrinks or deletes is always allowed. Expired entries do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// Most live entries; `None`: unlimited.
    pub max_entries: Option<u64>,
    /// Most bytes, as [`Entry::size_bytes`] counts; `None`: unlimited.
    pub max_bytes: Option<u64>,
}

impl Quota {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.max_entries.is_none() && self.max_bytes.is_none()
    }

    /// Decides a write that takes the scope from `before` to `after`, each (entries, bytes) live.
    ///
    /// # Errors
    /// `quota_exceeded` with `details.resource`, `limit`, `used` and `requested` where the write
    /// grows a resource past its limit.
    pub fn check(&self, before: (u64, u64), after: (u64, u64)) -> Result<()> {
        for (resource, limit, used, requested) in
            [("entries", self.max_entries, before.0, after.0), ("bytes", self.max_bytes, before.1, after.1)]
        {
            if let Some(limit) = limit
                && requested > used
                && requested > limit
            {
                return Err(Error::new(
                    crate::error::ErrorKind::QuotaExceeded,
                    format!(
                        "the write would take the scope to {requested} {resource}; its quota is {limit}; \
                         delete or shorten entries first (both always work)"
                    ),
                )
                .with_detail("resource", resource)
                .with_detail("limit", limit)
                .with_detail("used", used)
                .with_detail("requested", requested));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_floats_compare_exactly() {
        let big = Scalar::Int(9_007_199_254_740_993);
        assert_eq!(big.compare(&Scalar::Float(9_007_199_254_740_992.0)), Some(Ordering::Greater));
        assert_eq!(Scalar::Int(3).compare(&Scalar::Float(3.5)), Some(Ordering::Less));
        assert_eq!(Scalar::Int(-3).compare(&Scalar::Float(-3.5)), Some(Ordering::Greater));
        assert_eq!(Scalar::Int(3), Scalar::Float(3.0));
        assert_eq!(Scalar::Int(i64::MAX).compare(&Scalar::Float(9.3e18)), Some(Ordering::Less));
        assert_eq!(Scalar::from("1").compare(&Scalar::Int(1)), None);
    }

    #[test]
    fn metadata_refuses_what_it_could_not_give_back() {
        for bad in ["null", "[1]", r#"{"a":1}"#, "1e400"] {
            assert!(serde_json::from_str::<Metadata>(&format!(r#"{{"m":{bad}}}"#)).is_err(), "{bad}");
        }
        let huge: Metadata = serde_json::from_str(r#"{"m":18446744073709551616}"#).unwrap();
        assert!(huge.check().is_err());
    }

    #[test]
    fn ttl_and_expect_have_plain_json_forms() {
        for (text, ttl) in [
            (r#""keep""#, Ttl::Keep),
            (r#""never""#, Ttl::Never),
            (r#"{"after_ms":1500}"#, Ttl::After(Duration::from_millis(1_500))),
        ] {
            assert_eq!(serde_json::from_str::<Ttl>(text).unwrap(), ttl);
            assert_eq!(serde_json::to_string(&ttl).unwrap(), text);
        }
        let expect = Expect::Sha256(value_sha256(&Json::null()));
        let text = serde_json::to_string(&expect).unwrap();
        assert_eq!(serde_json::from_str::<Expect>(&text).unwrap(), expect);
    }

    #[test]
    fn ttl_refuses_both_ends() {
        assert!(Ttl::After(Duration::from_micros(999)).check().is_err());
        assert!(Ttl::After(Duration::MAX).check().is_err());
        assert!(Ttl::After(Duration::from_millis(1)).check().is_ok());
        assert!(Ttl::After(Duration::from_millis(2)).expiry(Timestamp::MAX, None).is_err());
    }

    #[test]
    fn a_quota_refuses_growth_only() {
        let quota = Quota { max_entries: Some(2), max_bytes: Some(100) };
        assert!(quota.check((2, 90), (3, 90)).is_err());
        assert!(quota.check((2, 90), (2, 101)).is_err());
        assert!(quota.check((5, 500), (5, 400)).is_ok());
        assert!(quota.check((2, 90), (2, 100)).is_ok());
    }
}
