use super::{doc, json, on_a_small_stack};
use crate::json::{MAX_DEPTH, semantic_eq};
use proptest::prelude::*;

#[track_caller]
fn same(a: &str, b: &str) {
    assert!(semantic_eq(&json(a), &json(b)), "{a} should equal {b}");
    assert_eq!(json(a).canonical_hash(), json(b).canonical_hash());
}

#[track_caller]
fn different(a: &str, b: &str) {
    assert!(!semantic_eq(&json(a), &json(b)), "{a} should differ from {b}");
    assert_ne!(json(a).canonical_hash(), json(b).canonical_hash());
}

fn canonical(text: &str) -> String {
    String::from_utf8(json(text).canonical_bytes()).unwrap()
}

#[test]
fn numbers_are_equal_by_exact_decimal_value() {
    for spelling in ["1", "1.0", "1e0", "10e-1", "0.1e1", "0.001E+3", "1.000", "1e-0", "1e00000"] {
        same("1", spelling);
    }
    for zero in ["0", "-0", "0.0", "-0.00e5", "0e999999999999999999999999999999999999999999"] {
        same("0", zero);
    }
    same("1e400", "10e399");
    same("-12.50", "-125e-1");
    different("9007199254740993", "9007199254740992");
    different("0.1", "0.1000000000000000055511151231257827");
    different("1", "-1");
    different("1", "10");
    different("1e400", "1e401");
    different("1e-400", "0");
}

#[test]
fn exponents_of_any_size_are_compared_not_computed() {
    same("1e999999999999", "10e999999999998");
    different("1e999999999999", "1e999999999998");
    same("1e-999999999999", "0.1e-999999999998");
    let nines = "9".repeat(40);
    let power = format!("1{}", "0".repeat(40));
    same(&format!("1e{power}"), &format!("10e{nines}"));
    same(&format!("0.1e{power}"), &format!("1e{nines}"));
    same(&format!("1e-{power}"), &format!("0.1e-{nines}"));
    same(&format!("10e-{power}"), &format!("1e-{nines}"));
    same(&format!("1e000{power}"), &format!("1e+{power}"));
    different(&format!("1e{power}"), &format!("1e-{power}"));
    different(&format!("1e{power}"), &format!("1e{nines}"));
    // Around the width where digit strings replace integers.
    for digits in 34..40 {
        let (nines, power) = ("9".repeat(digits), format!("1{}", "0".repeat(digits)));
        same(&format!("1e{power}"), &format!("10e{nines}"));
        same(&format!("1e-{power}"), &format!("0.1e-{nines}"));
        same(&format!("1{}e-{power}", "0".repeat(200)), &format!("1{}e-{nines}", "0".repeat(199)));
    }
}

#[test]
fn strings_are_equal_by_decoded_content_without_normalisation() {
    same(r#""a""#, r#""\u0061""#);
    same(r#""/\b\f\n\r\t""#, r#""\/\u0008\u000c\u000A\u000D\u0009""#);
    same(r#""😀""#, r#""\ud83d\uDE00""#);
    same("\"\u{7f}\u{2028}\"", r#""\u007f\u2028""#);
    different(r#""\u0000""#, r#""""#);
    different(r#""\\u0061""#, r#""a""#);
    different("\"é\"", "\"e\u{301}\"");
}

#[test]
fn objects_are_equal_in_any_order_and_the_last_duplicate_counts() {
    same(r#"{"a":1,"b":2}"#, r#"{ "b":2.0, "a":1 }"#);
    same(r#"{"a":1,"a":2}"#, r#"{"a":2}"#);
    same(r#"{"b":0,"a":1,"\u0061":2}"#, r#"{"a":2,"b":0}"#);
    different(r#"{"a":1,"a":2}"#, r#"{"a":1}"#);
    different(r#"{"a":1}"#, r#"{"a":1,"b":null}"#);
    different(r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#);
}

#[test]
fn arrays_are_equal_in_order() {
    same("[1,[ ],{}]", "[1.0,[],{ }]");
    different("[1,2]", "[2,1]");
    different("[[1],2]", "[[1,2]]");
    different("[]", "[[]]");
    different("[1]", "[1,1]");
}

#[test]
fn kinds_never_mix() {
    let texts = ["null", "true", "false", "0", "1", r#""""#, r#""null""#, r#""1""#, "[]", "{}"];
    for (i, a) in texts.iter().enumerate() {
        for b in &texts[i + 1..] {
            different(a, b);
        }
    }
}

#[test]
fn the_canonical_spelling_is_json_and_documented() {
    assert_eq!(
        canonical(r#" { "b" : [ 1200 , 0.50, -0.0 ] , "a" : "\u0041\/\n\"\\" } "#),
        r#"{"a":"A/\u000a\"\\","b":[12e2,5e-1,0]}"#
    );
    assert_eq!(
        canonical(r#"{"z":{"y":1,"x":2},"z":{"d":[{"q":1,"p":2}],"c":3}}"#),
        r#"{"z":{"c":3,"d":[{"p":2,"q":1}]}}"#
    );
}

#[test]
fn sorting_at_every_level_of_the_deepest_object_is_right() {
    on_a_small_stack(|| {
        let one = r#"{"b":1,"a":"#.repeat(MAX_DEPTH) + "0" + &"}".repeat(MAX_DEPTH);
        let other = r#"{"a":"#.repeat(MAX_DEPTH) + "0" + &r#","b":1}"#.repeat(MAX_DEPTH);
        same(&one, &other);
        different(&one, &other.replacen(r#""b":1"#, r#""b":2"#, 1));
    });
}

proptest! {
    #[test]
    fn agrees_with_the_obvious_definition(a in doc(), b in doc()) {
        let expected = a.means_the_same_as(&b);
        let (a, b) = (json(&a.text()), json(&b.text()));
        prop_assert_eq!(semantic_eq(&a, &b), expected);
        prop_assert_eq!(semantic_eq(&b, &a), expected);
        prop_assert_eq!(a.canonical_hash() == b.canonical_hash(), expected);
    }

    #[test]
    fn does_not_depend_on_how_a_value_is_written(a in doc(), style: u8) {
        let b = a.restyled(style);
        prop_assert!(a.means_the_same_as(&b), "the generator is wrong");
        let (a, b) = (json(&a.text()), json(&b.text()));
        prop_assert!(semantic_eq(&a, &b), "{a} / {b}");
        prop_assert_eq!(a.canonical_hash(), b.canonical_hash());
    }

    #[test]
    fn the_canonical_spelling_is_its_own(a in doc()) {
        let once = canonical(&a.text());
        prop_assert_eq!(canonical(&once), once);
    }
}
