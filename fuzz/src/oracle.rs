//! A simple JSON reader to compare with.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Whether the text is valid JSON, whatever its depth and its escapes.
#[must_use]
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The maximal depth of a valid text.
#[must_use]
pub fn depth(text: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    let (mut inside_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => inside_string = !inside_string,
            b'[' | b'{' if !inside_string => {
                open += 1;
                deepest = deepest.max(open);
            }
            b']' | b'}' if !inside_string => open -= 1,
            _ => {}
        }
    }
    deepest
}

/// Whether a valid text has an unpaired surrogate escape.
#[must_use]
pub fn has_lone_surrogate(text: &str) -> bool {
    let mut expects_low = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (width, unit) = if first == '\\' {
            match rest.get(2..6).filter(|_| rest[1..].starts_with('u')) {
                Some(hex) => (6, u16::from_str_radix(hex, 16).ok()),
                None => (2, None),
            }
        } else {
            (first.len_utf8(), None)
        };
        let is_low = unit.is_some_and(|unit| (0xDC00..0xE000).contains(&unit));
        if expects_low != is_low {
            return true;
        }
        expects_low = unit.is_some_and(|unit| (0xD800..0xDC00).contains(&unit));
        rest = &rest[width..];
    }
    expects_low
}

/// The members of an object in order, including duplicates: decoded name and the value's text.
///
/// # Panics
/// If the text is not a JSON object.
#[must_use]
pub fn members(object: &str) -> Vec<(String, &str)> {
    struct Members<'a>(Vec<(String, &'a str)>);

    impl<'de> Deserialize<'de> for Members<'de> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Collect;
            impl<'de> Visitor<'de> for Collect {
                type Value = Members<'de>;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    let mut all = Vec::new();
                    while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                        all.push((name, value.get()));
                    }
                    Ok(Members(all))
                }
            }
            deserializer.deserialize_map(Collect)
        }
    }

    serde_json::from_str::<Members<'_>>(object).expect("an object").0
}

/// The texts of an array's elements.
///
/// # Panics
/// If the text is not a JSON array.
#[must_use]
pub fn elements(array: &str) -> Vec<&str> {
    serde_json::from_str::<Vec<&RawValue>>(array).expect("an array").into_iter().map(RawValue::get).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogates_are_paired_or_lone() {
        for paired in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\n\u0041""#, "[]"] {
            assert!(!has_lone_surrogate(paired), "{paired}");
        }
        for lone in [r#""\ud800""#, r#""\ude00""#, r#""\ud800x""#, r#""\ud800\ud800\udc00""#, r#""\ud800\n""#]
        {
            assert!(has_lone_surrogate(lone), "{lone}");
        }
    }

    #[test]
    fn brackets_in_strings_open_nothing() {
        assert_eq!(depth(r#"{"[[":["]","\"["]}"#), 2);
        assert_eq!(depth("1"), 0);
    }
}
