//! Scalars, and flat maps of them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::{Json, JsonKind};
use crate::limits::{MAX_METADATA_MEMBERS, MAX_METADATA_NAME_BYTES, MAX_METADATA_STRING_BYTES};

/// A metadata value: a boolean, an integer, a finite number or a string.
///
/// Numbers compare exactly, whichever of the two forms they have: `2^53 + 1` is greater than `2^53`.
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

/// Parses through [`Json`], so that numbers are exact whatever features of serde_json are enabled.
impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error as _;
        let json = <Json as Deserialize>::deserialize(deserializer)?;
        match json.kind() {
            JsonKind::Bool => Ok(Self::Bool(json.as_str() == "true")),
            JsonKind::String => json.deserialize().map(Self::Text).map_err(D::Error::custom),
            JsonKind::Number => match (json.as_i64_exact(), json.as_str().parse::<f64>()) {
                (Some(int), _) => Ok(Self::Int(int)),
                (None, Ok(float)) if float.is_finite() => Ok(float.into()),
                _ => Err(D::Error::custom("the number is beyond the range of a double; store it as text")),
            },
            JsonKind::Null => Err(D::Error::custom("null is no metadata value; leave the member out")),
            JsonKind::Array | JsonKind::Object => {
                Err(D::Error::custom("metadata is flat: a boolean, a number or a string"))
            }
        }
    }
}

/// Compares exactly, without rounding the integer to a float.
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

/// Negative zero becomes zero, because not every store has both.
impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Self::Float(value + 0.0)
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

/// A flat map of scalars for filters.
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

    /// The members as the text of a JSON object; `None` if there are none. `float` and `text` write values of those
    /// types. A float must have a point or an exponent, by which [`Metadata::from_json_text`] tells it from an integer.
    #[must_use]
    pub fn to_json_text(
        &self,
        float: impl Fn(f64) -> String,
        text: impl Fn(&str) -> Cow<'_, str>,
    ) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(self.size_bytes() + 8 * self.len());
        for (name, value) in &self.0 {
            out.push(if out.is_empty() { '{' } else { ',' });
            out.push_str(Json::string(name).as_str());
            out.push(':');
            match value {
                Scalar::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
                Scalar::Int(value) => out.push_str(&value.to_string()),
                Scalar::Float(value) => out.push_str(&float(*value)),
                Scalar::Text(value) => out.push_str(Json::string(&text(value)).as_str()),
            }
        }
        out.push('}');
        Some(out)
    }

    /// Reads what [`Metadata::to_json_text`] wrote; `text` reverses the writer's `text`. `None` for anything else.
    /// Floats are exact, while `serde_json`'s own may be off by the last bit.
    #[must_use]
    pub fn from_json_text(json: &str, text: impl Fn(String) -> String) -> Option<Self> {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
        let read = |(name, raw): (String, &RawValue)| {
            let raw = raw.get();
            let value = match raw.as_bytes().first() {
                Some(b'"') => Scalar::Text(text(serde_json::from_str(raw).ok()?)),
                Some(b't') => Scalar::Bool(true),
                Some(b'f') => Scalar::Bool(false),
                _ => match raw.parse::<i64>() {
                    Ok(number) => Scalar::Int(number),
                    Err(_) => Scalar::Float(raw.parse().ok()?),
                },
            };
            Some((name, value))
        };
        members.into_iter().map(read).collect()
    }

    /// What the members contribute to [`Entry::size_bytes`](crate::Entry::size_bytes).
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
        let zero: Scalar = serde_json::from_str("-0.0").unwrap();
        assert_eq!(serde_json::to_string(&[zero, Scalar::from(-0.0)]).unwrap(), "[0.0,0.0]");
    }

    #[test]
    fn metadata_survives_as_text_to_the_bit() {
        let metadata = Metadata::new()
            .with("quote\"\\\u{7}", "naïve \u{1F600} \"")
            .with("int", i64::MIN)
            .with("big", 9_007_199_254_740_993_i64)
            .with("one", 1.0)
            .with("tiny", 5e-324)
            .with("huge", f64::MAX)
            .with("third", 1.0 / 3.0)
            .with("zero", -0.0)
            .with("yes", true)
            .with("no", false);
        let text = metadata.to_json_text(|float| format!("{float:?}"), |text| Cow::Borrowed(text)).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let back = Metadata::from_json_text(&text, |text| text).unwrap();
        // Compared as text, since scalars compare by value: 1 equals 1.0.
        assert_eq!(format!("{back:?}"), format!("{metadata:?}"));
        assert_eq!(Metadata::new().to_json_text(|_| String::new(), |text| Cow::Borrowed(text)), None);
        for bad in ["", "[]", r#"{"a":null}"#, r#"{"a":[1]}"#, r#"{"a":1"#] {
            assert_eq!(Metadata::from_json_text(bad, |text| text), None, "{bad}");
        }
    }

    #[test]
    fn metadata_refuses_values_that_it_cannot_preserve() {
        for bad in ["null", "[1]", r#"{"a":1}"#, "1e400"] {
            assert!(serde_json::from_str::<Metadata>(&format!(r#"{{"m":{bad}}}"#)).is_err(), "{bad}");
        }
        let huge: Metadata = serde_json::from_str(r#"{"m":18446744073709551616}"#).unwrap();
        assert!(huge.check().is_err());
    }
}
