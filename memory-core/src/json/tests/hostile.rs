use super::{doc, json, on_a_small_stack};
use crate::json::{Json, JsonError, MAX_DEPTH, semantic_eq};
use proptest::prelude::*;

/// Runs every function that reads a text.
fn exercise(value: &Json) {
    let _ = (value.kind(), value.as_i64_exact(), value.to_value(), format!("{value:?}"));
    assert!(value.search_text(100).len() <= 100);
    let canonical = String::from_utf8(value.canonical_bytes()).unwrap();
    assert!(semantic_eq(value, &json(&canonical)));
}

#[test]
fn a_text_100_000_levels_deep_is_refused_without_recursion() {
    on_a_small_stack(|| {
        for unit in ["[", r#"{"a":"#, r#"[{"a":"#, "[[],"] {
            for text in [unit.repeat(100_000), unit.repeat(100_000) + &"]".repeat(100_000)] {
                assert!(matches!(Json::parse(text), Err(JsonError::TooDeep { .. })));
            }
        }
        let deep_in_a_struct = format!("[{}{}]", "[".repeat(100_000), "]".repeat(100_000));
        let error = serde_json::from_str::<Vec<Json>>(&deep_in_a_struct).unwrap_err();
        assert!(error.to_string().contains("deeper than 128 levels"), "{error}");
    });
}

#[test]
fn the_deepest_text_allowed_is_fully_served() {
    on_a_small_stack(|| {
        for (open, close) in [("[", "]"), (r#"{"b":0,"a":"#, "}")] {
            let value = json(&(open.repeat(MAX_DEPTH) + "1" + &close.repeat(MAX_DEPTH)));
            assert!(value.to_value().is_ok());
            exercise(&value);
        }
    });
}

#[test]
fn megabytes_are_read_in_linear_time() {
    let (size, many) = (10 << 20, 1 << 20);
    for text in [
        format!("\"{}\"", "x".repeat(size)),
        format!("\"{}\"", r"\u0041".repeat(many / 6)),
        format!("-1{}.{}e{}", "0".repeat(many / 3), "7".repeat(many / 3), "9".repeat(many / 3)),
        format!("[{}0]", "1,".repeat(many / 2)),
        format!("{{{}\"\":0}}", "\"k\":1,".repeat(many / 6)),
        " ".repeat(size) + "0",
    ] {
        let value = Json::parse(text).unwrap();
        assert!(value.search_text(1_000).len() <= 1_000);
        assert!(semantic_eq(&value, &value.clone()));
        assert!(value.canonical_bytes().len() <= value.len_bytes());
    }
    assert!(Json::parse("[".repeat(size)).is_err());
    assert!(Json::parse("\"".to_owned() + &"\\".repeat(size)).is_err());
}

#[test]
fn a_text_truncated_at_any_byte_is_refused() {
    let text = r#"{"a":[1.5e+3,-0,true,false,null,"\u00e9\ud83d\ude00é猫"],"\\\"":{ "b" : {} , "c":[ ] }}"#;
    json(text);
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        assert!(
            matches!(Json::parse(&text[..end]), Err(JsonError::UnexpectedEnd { position }) if position == end)
        );
    }
    for start in (1..text.len()).filter(|start| text.is_char_boundary(*start)) {
        assert!(Json::parse(&text[start..]).is_err());
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = Json::parse(String::from_utf8_lossy(&bytes)) {
            exercise(&value);
        }
    }

    #[test]
    fn every_document_can_be_read_in_every_way(doc in doc()) {
        exercise(&json(&doc.text()));
    }
}
