use super::{doc, json};
use crate::json::{Json, JsonError, JsonKind, MAX_DEPTH};
use proptest::prelude::*;

fn refused(text: &str) -> JsonError {
    Json::parse(text).unwrap_err()
}

#[test]
fn what_you_set_is_what_you_get_as_text() {
    for text in [
        "null",
        "9007199254740993",
        "-170141183460469231731687303715884105729000",
        "1.0",
        "1e400",
        "1E+05",
        "-0",
        "-0.0e-0",
        r#"{"z":1,"a":2,"z":3}"#,
        "{ \"a\" :\t[ 1 ,2 ]\r\n}",
        r#""\u0041\/\u0000\ud83d\ude00""#,
        r#"{"$serde_json::private::RawValue":"[1]"}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
        "\"\u{7f}\u{2028}\u{feff}\"",
    ] {
        assert_eq!(json(text).as_str(), text);
        assert_eq!(json(text).to_string(), text);
        assert_eq!(json(text).len_bytes(), text.len());
    }
}

#[test]
fn outer_white_space_is_trimmed_and_inner_kept() {
    assert_eq!(json(" \t\r\n [ 1 ] \n").as_str(), "[ 1 ]");
}

#[test]
fn white_space_is_only_what_the_rfc_says() {
    for text in ["\u{feff}1", "\u{a0}1", "1\u{c}", "1\u{b}", "\0", "1\0"] {
        assert!(matches!(refused(text), JsonError::Syntax { .. }), "{text:?}");
    }
}

#[test]
fn a_syntax_error_names_the_byte_and_what_was_expected() {
    for (text, at, what) in [
        ("  x", 2, "a value"),
        ("[1,]", 3, "a value"),
        ("[1 2]", 3, "',' or ']'"),
        ("[1}", 2, "',' or ']'"),
        (r#"{"a":1]"#, 6, "',' or '}'"),
        (r#"{"a" 1}"#, 5, "':'"),
        (r#"{"a":1,}"#, 7, "a member name in quotes"),
        ("{a:1}", 1, "a member name in quotes or '}'"),
        ("01", 1, "no digit after a leading zero"),
        ("+1", 0, "a value"),
        ("-x", 1, "a digit"),
        ("1.x", 2, "a digit"),
        ("1e+x", 3, "a digit"),
        (".5", 0, "a value"),
        ("truE", 3, "true, false or null"),
        ("NaN", 0, "a value"),
        ("1 2", 2, "nothing after the value"),
        (r#""\x""#, 2, "an escape: one of \" \\ / b f n r t u"),
        (r#""\u00g0""#, 5, "four hexadecimal digits"),
        (r#""\u+123""#, 3, "four hexadecimal digits"),
        ("'a'", 0, "a value"),
        ("/**/1", 0, "a value"),
        ("\"猫\"x", 5, "nothing after the value"),
    ] {
        match refused(text) {
            JsonError::Syntax { position, expected } => {
                assert_eq!((position, expected), (at, what), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_text_that_stops_early_says_so() {
    for text in [
        "",
        "  ",
        "[",
        "[1",
        "[1,",
        "{",
        r#"{"a"#,
        r#"{"a""#,
        r#"{"a":"#,
        "-",
        "1.",
        "1e",
        "tru",
        "\"",
        "\"\\",
        "\"\\u12",
        "\"\\ud83d",
        "\"\\ud83d\\",
        "\"\\ud83d\\u",
        "\"\\ud83d\\ude0",
    ] {
        match refused(text) {
            JsonError::UnexpectedEnd { position } => assert_eq!(position, text.len(), "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_lone_surrogate_escape_is_refused_everywhere() {
    for (text, at) in [
        (r#""\ud800""#, 1),
        (r#""ab\udfff""#, 3),
        (r#""\ud800\ud800""#, 1),
        (r#""\ud800\u0041""#, 1),
        (r#""\ud800x""#, 1),
        (r#""\ud800\n""#, 1),
        (r#"{"\udc00":1}"#, 2),
    ] {
        match refused(text) {
            JsonError::LoneSurrogate { position } => assert_eq!(position, at, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    assert_eq!(json(r#""\uD83D\uDE00""#).deserialize::<String>().unwrap(), "😀");
}

#[test]
fn a_raw_control_character_in_a_string_is_refused_but_its_escape_is_not() {
    for control in '\0'..' ' {
        let error = refused(&format!("[\"a{control}\"]"));
        assert!(matches!(error, JsonError::ControlCharacter { position: 3 }), "{error:?}");
        json(&format!("\"\\u{:04x}\"", u32::from(control)));
    }
}

#[test]
fn depth_is_limited_by_name() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(json(&nested(MAX_DEPTH)).len_bytes(), 256);
    let error = refused(&nested(MAX_DEPTH + 1));
    assert!(matches!(error, JsonError::TooDeep { position: 128, limit: 128 }));
    assert_eq!(error.to_string(), "JSON is nested deeper than 128 levels (at byte 128)");
    let objects = |depth: usize| r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth);
    json(&objects(MAX_DEPTH));
    assert!(matches!(refused(&objects(MAX_DEPTH + 1)), JsonError::TooDeep { .. }));
    // The depths of siblings do not add up.
    json(&format!("[{}]", vec![nested(127); 3].join(",")));
}

#[test]
fn brackets_must_match_at_every_level() {
    let mixed = |levels: usize| {
        let open: String = (0..levels).map(|level| if level % 3 == 0 { r#"{"k":"# } else { "[" }).collect();
        let close: String = (0..levels).rev().map(|level| if level % 3 == 0 { "}" } else { "]" }).collect();
        (open, close)
    };
    let (open, close) = mixed(MAX_DEPTH);
    json(&format!("{open}0{close}"));
    for level in 0..close.len() {
        let mut wrong = close.clone();
        let other = if &close[level..=level] == "}" { "]" } else { "}" };
        wrong.replace_range(level..=level, other);
        assert!(matches!(refused(&format!("{open}0{wrong}")), JsonError::Syntax { .. }));
    }
}

#[test]
fn kind_is_read_off_the_value() {
    for (text, kind, name) in [
        ("null", JsonKind::Null, "null"),
        ("true", JsonKind::Bool, "boolean"),
        ("false", JsonKind::Bool, "boolean"),
        ("-1", JsonKind::Number, "number"),
        ("0", JsonKind::Number, "number"),
        (" \"\"", JsonKind::String, "string"),
        (" []", JsonKind::Array, "array"),
        ("{}", JsonKind::Object, "object"),
    ] {
        assert_eq!((json(text).kind(), kind.to_string().as_str()), (kind, name));
    }
}

#[test]
fn an_exact_integer_is_one_spelled_as_digits_and_in_range() {
    for (text, value) in [
        ("0", Some(0)),
        ("-0", Some(0)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("1.0", None),
        ("1e3", None),
        ("\"1\"", None),
        ("[1]", None),
        ("null", None),
    ] {
        assert_eq!(json(text).as_i64_exact(), value, "{text}");
    }
}

#[test]
fn constructors_write_what_they_are_given() {
    assert_eq!(Json::null().as_str(), "null");
    assert_eq!(Json::from(true).as_str(), "true");
    assert_eq!(Json::from(false).as_str(), "false");
    assert_eq!(Json::from(i64::MIN).as_str(), "-9223372036854775808");
    assert_eq!(Json::string("a\"\\\n\0猫").as_str(), r#""a\"\\\n\u0000猫""#);
    assert_eq!(Json::from_serialize(&vec![Some(1), None]).unwrap().as_str(), "[1,null]");
    assert_eq!("[1]".parse::<Json>().unwrap().as_str(), "[1]");
}

#[test]
fn equality_and_hash_are_those_of_the_text() {
    assert_eq!(json("[1]"), json(" [1] "));
    assert_ne!(json("1"), json("1.0"));
    assert_ne!(json("[1]"), json("[ 1]"));
    let set: std::collections::HashSet<Json> = [json("1"), json("1"), json("1.0")].into();
    assert_eq!(set.len(), 2);
}

#[test]
fn debug_shows_the_beginning_of_a_long_text() {
    assert_eq!(format!("{:?}", json("[1]")), "Json([1])");
    let long = Json::string(&"猫".repeat(100));
    assert_eq!(format!("{long:?}"), format!("Json(\"{}… 302 bytes)", "猫".repeat(63)));
}

/// Texts near the edge of the grammar: documents with a few characters changed.
fn damaged() -> impl Strategy<Value = String> {
    let alphabet: Vec<char> = "{}[]:,\"\\/-+.eE0189truefalsn duDd8cC\n\0猫".chars().collect();
    let edit = (any::<prop::sample::Index>(), prop::sample::select(alphabet), 0..3_u8);
    (doc(), prop::collection::vec(edit, 0..4)).prop_map(|(doc, edits)| {
        let mut characters: Vec<char> = doc.text().chars().collect();
        for (index, character, kind) in edits {
            let at = index.index(characters.len() + 1);
            match kind {
                0 => characters.insert(at, character),
                _ if at == characters.len() => {}
                1 => characters[at] = character,
                _ => drop(characters.remove(at)),
            }
        }
        characters.into_iter().collect()
    })
}

fn agrees_with_serde_json(text: &str) -> Result<(), TestCaseError> {
    let ours = Json::parse(text);
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => prop_assert!(ours.is_ok(), "{text:?}: {ours:?}"),
        // A `Value` cannot hold every number that the grammar allows.
        Err(error) if error.to_string().contains("number out of range") => {}
        Err(error) => prop_assert!(ours.is_err(), "{text:?}: serde_json says {error}"),
    }
    if let Ok(ours) = ours {
        prop_assert_eq!(ours.as_str(), text.trim_matches([' ', '\t', '\n', '\r']));
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_document_is_accepted_and_kept(doc in doc()) {
        let text = doc.text();
        let value = json(&text);
        prop_assert_eq!(value.as_str(), text);
    }

    #[test]
    fn accepts_exactly_what_serde_json_accepts(text in damaged()) {
        agrees_with_serde_json(&text)?;
    }

    #[test]
    fn accepts_exactly_what_serde_json_accepts_of_json_like_noise(
        text in r#"[\[\]{}:,"0-9eE.+\-tfn \\ua-f]{0,12}"#
    ) {
        agrees_with_serde_json(&text)?;
    }

    #[test]
    fn accepts_exactly_the_numbers_serde_json_accepts(text in r"-?[01]{0,3}\.?[01]{0,2}[eE]?[+-]?[01]{0,2}") {
        agrees_with_serde_json(&text)?;
    }

    #[test]
    fn accepts_exactly_the_strings_serde_json_accepts(text in r#""([a"]|\\[bfnrtux"/\\]|\\u[dD][89a-fA-F0][0-9a-f]{2}){0,4}""#) {
        agrees_with_serde_json(&text)?;
    }
}
