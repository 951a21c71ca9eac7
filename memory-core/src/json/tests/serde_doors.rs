//! What survives serde's various ways of reading and writing.

use super::{doc, json};
use crate::json::{Json, JsonError};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    key: String,
    value: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extra: Option<Json>,
    list: Vec<Json>,
}

const EXACT: &str = r#"{ "z":9007199254740993.0, "a":1e400,"z":-0 }"#;

#[test]
fn text_survives_inside_structs() {
    let text = format!(r#"{{"key":"k","value":{EXACT},"extra":[ 1 ],"list":[1.0,{EXACT}]}}"#);
    for entry in [
        serde_json::from_str::<Entry>(&text).unwrap(),
        serde_json::from_slice::<Entry>(text.as_bytes()).unwrap(),
        serde_json::from_reader::<_, Entry>(text.as_bytes()).unwrap(),
    ] {
        assert_eq!(entry.value.as_str(), EXACT);
        assert_eq!(entry.extra.as_ref().map(Json::as_str), Some("[ 1 ]"));
        assert_eq!(entry.list, [json("1.0"), json(EXACT)]);
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
    }
}

#[test]
fn null_in_an_option_is_none() {
    let text = r#"{"key":"k","value":null,"extra":null,"list":[]}"#;
    let entry: Entry = serde_json::from_str(text).unwrap();
    assert_eq!((entry.value, entry.extra), (Json::null(), None));
}

#[test]
fn what_parse_refuses_is_refused_inside_structs_too() {
    for (value, message) in [(r#""\ud800""#, "lone surrogate"), (&"[".repeat(129), "")] {
        let close = "]".repeat(value.matches('[').count());
        let text = format!(r#"{{"key":"k","value":{value}{close},"list":[]}}"#);
        let error = serde_json::from_str::<Entry>(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_value_tree_can_be_read_as_json() {
    let tree = serde_json::json!({"key": "k", "value": {"n": 9_007_199_254_740_993_i64, "f": 1.5}, "list": [null, "x"]});
    let entry: Entry = serde_json::from_value(tree).unwrap();
    assert!(crate::json::semantic_eq(&entry.value, &json(r#"{"n":9007199254740993,"f":1.5}"#)));
    assert_eq!(entry.list, [Json::null(), json(r#""x""#)]);
}

#[test]
fn flatten_and_tagged_enums_fail_instead_of_losing_text() {
    #[derive(Debug, Deserialize)]
    struct Flat {
        #[serde(flatten)]
        _rest: BTreeMap<String, Json>,
    }
    #[derive(Debug, Deserialize)]
    #[serde(tag = "op")]
    enum Tagged {
        #[serde(rename = "set")]
        Set { _value: Json },
    }
    serde_json::from_str::<Flat>(r#"{"a":1.0}"#).unwrap_err();
    serde_json::from_str::<Tagged>(r#"{"op":"set","_value":1.0}"#).unwrap_err();
}

#[test]
fn a_tree_is_the_value_with_the_last_duplicate() {
    let tree = json(r#"{"a":[1,-2,2.5,"\u0041"],"b":{},"b":[null,true,false,{}]}"#).to_value().unwrap();
    assert_eq!(tree, serde_json::json!({"a": [1, -2, 2.5, "A"], "b": [null, true, false, {}]}));
    assert_eq!(json("7").to_value().unwrap(), serde_json::json!(7));
    assert_eq!(json("18446744073709551615").to_value().unwrap(), serde_json::json!(u64::MAX));
}

#[test]
fn marker_names_of_serde_json_are_ordinary_names() {
    for marker in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
        let tree = json(&format!(r#"{{"{marker}":"[1]"}}"#)).to_value().unwrap();
        assert_eq!(tree.get(marker), Some(&Value::from("[1]")));
    }
}

#[test]
fn a_number_that_a_tree_cannot_hold_is_an_error_not_infinity() {
    match json("[1e400]").to_value() {
        Err(JsonError::Deserialize(_)) => {}
        // With arbitrary_precision, which spells the exponent differently.
        Ok(tree) => assert_eq!(tree.to_string(), "[1e+400]"),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_shape_that_does_not_fit_keeps_its_cause() {
    let error = json("[1]").deserialize::<String>().unwrap_err();
    assert!(matches!(error, JsonError::Deserialize(_)));
    assert!(std::error::Error::source(&error).is_some());
    let error = Json::from_serialize(&BTreeMap::from([(vec![1], 1)])).unwrap_err();
    assert!(matches!(error, JsonError::Serialize(_)));
}

proptest! {
    #[test]
    fn every_text_survives_a_round_trip(doc in doc()) {
        let value = json(&doc.text());
        let written = serde_json::to_string(&[&value]).unwrap();
        prop_assert_eq!(&written, &format!("[{value}]"));
        prop_assert_eq!(serde_json::from_str::<Vec<Json>>(&written).unwrap(), vec![value]);
    }

    #[test]
    fn a_tree_equals_the_one_serde_json_reads(doc in doc()) {
        let value = json(&doc.text());
        prop_assert_eq!(value.to_value().unwrap(), serde_json::from_str::<Value>(value.as_str()).unwrap());
    }
}
