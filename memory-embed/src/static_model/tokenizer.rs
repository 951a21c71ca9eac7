//! What `tokenizer.json` must be before it is built.

use std::fmt;

use memory_core::{Error, Result};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Deepest nesting. Real files need 8; the parser of tokenizers tries every kind of step at each level of
/// nested steps, so its time grows exponentially with depth.
const MAX_DEPTH: usize = 16;

/// Checks the text of a tokenizer; answers how many numbers its tokens use: the greatest, and one.
///
/// # Errors
/// `invalid_argument`, saying what is wrong with `tokenizer.json`.
pub(super) fn check(file: &[u8]) -> Result<usize> {
    if depth(file) > MAX_DEPTH {
        return Err(wrong(format!("it nests deeper than {MAX_DEPTH}")));
    }
    let shape: Shape = serde_json::from_slice(file).map_err(|error| {
        wrong(format!("line {}, column {}: it is not a tokenizer", error.line(), error.column()))
    })?;
    let ids = shape.added_tokens.iter().map(|token| token.id).chain(shape.model.vocab.greatest);
    let greatest = ids.max().ok_or_else(|| wrong("it has no tokens"))?;
    usize::try_from(greatest)
        .ok()
        .and_then(|greatest| greatest.checked_add(1))
        .ok_or_else(|| wrong("a token's number is out of range"))
}

/// Deepest nesting of brackets outside strings; cheap, and right for any text that is JSON.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[derive(Deserialize)]
struct Shape {
    #[serde(default)]
    added_tokens: Vec<Added>,
    model: Model,
}

#[derive(Deserialize)]
struct Added {
    id: u64,
}

#[derive(Deserialize)]
struct Model {
    vocab: Vocabulary,
}

/// `{"token": id, …}`, or `[["token", score], …]` where the place is the id.
struct Vocabulary {
    greatest: Option<u64>,
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ids;
        impl<'de> Visitor<'de> for Ids {
            type Value = Option<u64>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut greatest = None;
                while let Some((_, id)) = map.next_entry::<IgnoredAny, u64>()? {
                    greatest = greatest.max(Some(id));
                }
                Ok(greatest)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut count = 0_u64;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(count.checked_sub(1))
            }
        }
        deserializer.deserialize_any(Ids).map(|greatest| Self { greatest })
    }
}

fn wrong(what: impl fmt::Display) -> Error {
    Error::invalid(format!("tokenizer.json cannot be used: {what}; get the model's files anew"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_one_over_the_greatest_number_of_any_token() {
        let map = br#"{"added_tokens": [{"id": 4, "content": "["}], "model": {"vocab": {"a": 0, "b": 2}, "x": [[]]}}"#;
        assert_eq!(check(map).unwrap(), 5);
        let list = br#"{"model": {"type": "Unigram", "vocab": [["a", -1.5], ["b", -2.0]]}}"#;
        assert_eq!(check(list).unwrap(), 2);
    }

    #[test]
    fn a_text_that_is_no_tokenizer_is_refused_by_place() {
        for bad in
            ["", "[]", "{}", r#"{"model": {}}"#, r#"{"model": {"vocab": {"a": -1}}}"#, "{\"model\": \u{0}"]
        {
            let error = check(bad.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("tokenizer.json"), "{bad}: {error}");
        }
        assert!(check(br#"{"model": {"vocab": {}}}"#).unwrap_err().to_string().contains("no tokens"));
    }

    #[test]
    fn nesting_is_bounded_and_brackets_in_strings_do_not_nest() {
        let nested = |levels: usize| {
            let steps =
                format!("{}{}", r#"{"type":"Sequence","normalizers":["#.repeat(levels), "]}".repeat(levels));
            format!(r#"{{"normalizer": {steps}, "model": {{"vocab": {{"[[[[[[[[[[[[[[[[[[\"": 0}}}}}}"#)
        };
        assert_eq!(check(nested(7).as_bytes()).unwrap(), 1);
        assert!(check(nested(8).as_bytes()).unwrap_err().to_string().contains("deeper than 16"));
        assert!(check(nested(1_000_000).as_bytes()).is_err());
    }
}
