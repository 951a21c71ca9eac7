//! The members of an object, as written.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Well above the number of fields of any operation.
const MAX_FIELDS: usize = 64;
/// Longer names and messages are cut to this much of each end.
const MAX_SHOWN_BYTES: usize = 200;

/// The members of one object in order, each name once, with unparsed values.
pub(in crate::tool) struct Fields<'a>(pub(in crate::tool) Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                use serde::de::Error as _;
                let mut fields: Vec<(String, &'de RawValue)> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format!("the field `{}` is given twice", cut(&name))));
                    }
                    if fields.len() == MAX_FIELDS {
                        return Err(A::Error::custom(format!("more than {MAX_FIELDS} fields")));
                    }
                    fields.push((name, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The beginning and end of an outside text, at most 400 bytes. The end usually says what was expected.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= 2 * MAX_SHOWN_BYTES {
        return text.to_owned();
    }
    // A character has at most four bytes, so one of four neighbouring positions is a boundary.
    let head = (0..4).find_map(|back| text.get(..MAX_SHOWN_BYTES - back)).unwrap_or_default();
    let tail = (0..4).find_map(|on| text.get(text.len() - MAX_SHOWN_BYTES + on..)).unwrap_or_default();
    format!("{head}…{tail}")
}
