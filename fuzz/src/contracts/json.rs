//! `Json` compared with serde_json, in every way of reading it.

use std::collections::BTreeMap;

use memory_core::json::{Json, JsonError, JsonKind, MAX_DEPTH, semantic_eq};
use serde_json::Value;

use crate::generate::{self, Choices};
use crate::oracle;
use crate::support::{one_in, quickly, repeated, text};

/// Tries one text.
pub fn run(data: &[u8]) {
    if let Some(mut choices) = Choices::of(data) {
        let text = generate::json(&mut choices);
        assert!(oracle::is_json(&text), "the generator wrote {text}");
        return one(&text);
    }
    let Some(text) = text(data) else {
        drop(serde_json::from_slice::<Json>(data));
        return;
    };
    one(text);
    if one_in(512, data) {
        large(text);
    }
}

fn one(text: &str) {
    let json = Json::parse(text);
    let acceptable =
        oracle::is_json(text) && oracle::depth(text) <= MAX_DEPTH && !oracle::has_lone_surrogate(text);
    assert_eq!(json.is_ok(), acceptable, "{json:?}");
    match json {
        Ok(json) => accepted(text, &json),
        Err(error) => refused(text, &error),
    }
}

fn refused(text: &str, error: &JsonError) {
    let (JsonError::Syntax { position, .. }
    | JsonError::UnexpectedEnd { position }
    | JsonError::TooDeep { position, .. }
    | JsonError::LoneSurrogate { position }
    | JsonError::ControlCharacter { position }) = error
    else {
        panic!("parsing answered {error:?}");
    };
    assert!(*position <= text.len(), "{error:?}");
    assert!(serde_json::from_str::<Json>(text).is_err());
}

fn accepted(text: &str, json: &Json) {
    let kept = text.trim_matches([' ', '\t', '\n', '\r']);
    assert_eq!(json.as_str(), kept);
    assert_eq!(serde_json::to_string(json).expect("writes"), kept);
    assert_eq!(serde_json::from_str::<Json>(text).expect("reads"), *json);
    tree(json);
    canonical(json);
    search_text(json);
    if json.kind() == JsonKind::Number {
        // `-0` is the integer 0 here and a float to serde_json.
        let exact = serde_json::from_str::<i64>(kept).ok().or((kept == "-0").then_some(0));
        assert_eq!(json.as_i64_exact(), exact);
    } else {
        assert_eq!(json.as_i64_exact(), None);
    }
}

fn tree(json: &Json) {
    let tree = json.to_value();
    let kind = match json.kind() {
        JsonKind::Null => Value::is_null,
        JsonKind::Bool => Value::is_boolean,
        JsonKind::Number => Value::is_number,
        JsonKind::String => Value::is_string,
        JsonKind::Array => Value::is_array,
        JsonKind::Object => Value::is_object,
    };
    assert!(tree.as_ref().is_ok_and(kind) || tree.is_err());
    // serde_json gives objects with its private names another meaning, and stops at 127 levels.
    let marked = tree.as_ref().is_ok_and(|tree| tree.to_string().contains("$serde_json::private"));
    if marked || oracle::depth(json.as_str()) >= MAX_DEPTH {
        return;
    }
    match (tree, serde_json::from_str::<Value>(json.as_str())) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        (Err(_), Err(_)) => {}
        // We may refuse a number that no `f64` holds; serde_json may refuse a private name.
        (ours, theirs) => {
            assert!(json.as_str().contains("private"), "{ours:?}, but serde_json: {theirs:?}");
        }
    }
}

fn canonical(json: &Json) {
    let bytes = json.canonical_bytes();
    assert!(bytes.len() <= 3 * json.len_bytes(), "{} bytes of {}", bytes.len(), json.len_bytes());
    let again = Json::parse(String::from_utf8(bytes.clone()).expect("UTF-8")).expect("canonical JSON");
    assert_eq!(again.canonical_bytes(), bytes);
    assert_eq!(again.canonical_hash(), json.canonical_hash());
    assert!(semantic_eq(json, &again) && semantic_eq(&again, json));
    assert_eq!(again.kind(), json.kind());
    match json.kind() {
        JsonKind::Number => {
            let number = |json: &Json| json.as_str().parse::<f64>().expect("a number");
            assert_eq!(number(json), number(&again));
        }
        JsonKind::String => {
            let content = |json: &Json| json.deserialize::<String>().expect("a string");
            assert_eq!(content(json), content(&again));
        }
        JsonKind::Array => {
            let one_by_one = oracle::elements(json.as_str()).into_iter().map(spelled);
            assert!(one_by_one.eq(oracle::elements(again.as_str()).into_iter().map(str::to_owned)));
        }
        JsonKind::Object => {
            let last: BTreeMap<String, &str> = oracle::members(json.as_str()).into_iter().collect();
            let kept = oracle::members(again.as_str());
            assert_eq!(kept.len(), last.len());
            for (name, text) in kept {
                assert_eq!(text, spelled(last[&name]), "{name:?}");
            }
        }
        JsonKind::Null | JsonKind::Bool => assert_eq!(json, &again),
    }
}

/// The canonical spelling of a value by itself.
fn spelled(text: &str) -> String {
    let json = Json::parse(text).expect("a part of a value");
    String::from_utf8(json.canonical_bytes()).expect("UTF-8")
}

fn search_text(json: &Json) {
    let whole = json.search_text(usize::MAX);
    assert!(whole.len() <= json.len_bytes(), "{whole:?}");
    assert!(!whole.contains('\0'));
    for limit in [0, 1, 2, 3, 7, whole.len() / 2, whole.len().saturating_sub(1), whole.len()] {
        let cut = json.search_text(limit);
        assert!(cut.len() <= limit && whole.starts_with(&cut), "{limit}: {cut:?} of {whole:?}");
    }
    assert_eq!(json.search_text(whole.len()), whole);
}

/// The same with large input: nested, as elements, as members with one name and with many.
fn large(text: &str) {
    let members: Vec<String> = (0..2_000).map(|n| format!("\"{}\":{text}", n * 7 % 2_000)).collect();
    let shapes = [
        repeated(text, ""),
        format!("[{}]", repeated(text, ",")),
        format!("{{{}}}", repeated(&format!("\"k\":{text}"), ",")),
        format!("{{{}}}", if text.len() < 256 { members.join(",") } else { String::new() }),
    ];
    for shape in shapes {
        quickly("reading", || {
            if let Ok(json) = Json::parse(shape) {
                json.canonical_hash();
                json.search_text(1 << 20);
                drop(json.to_value());
            }
        });
    }
}
