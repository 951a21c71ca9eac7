//! What each reducer does, as tests.

use super::{MAX_LIST_LIMIT, Operand, ReduceError, Reduced, Reducer, reduce};
use crate::json::tests::{Doc, array_doc, doc, json, object_doc, on_a_small_stack};
use crate::json::{Json, JsonKind, MAX_DEPTH, semantic_eq};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

fn merge(current: &str, patch: &str) -> String {
    let reduced = reduce(Some(&json(current)), &Reducer::Merge(json(patch))).unwrap();
    assert_eq!(reduced.changed, reduced.value.as_str() != current);
    assert_eq!((reduced.appended, reduced.dropped), (None, 0));
    reduced.value.to_string()
}

fn append(current: &str, item: &str) -> Reduced {
    reduce(Some(&json(current)), &Reducer::AppendDedupe(json(item))).unwrap()
}

fn push(current: &str, item: &str, limit: usize) -> Reduced {
    reduce(Some(&json(current)), &Reducer::BoundedList { item: json(item), limit }).unwrap()
}

// ---- merge

#[test]
fn merge_keeps_the_text_of_untouched_members() {
    assert_eq!(
        merge(r#"{ "big": 9007199254740993, "a" : 1.0 ,"z":[ 1e400 ] }"#, r#"{"a":2}"#),
        r#"{ "big": 9007199254740993, "a" : 2 ,"z":[ 1e400 ] }"#
    );
}

#[test]
fn merge_replaces_in_place_and_appends_new_members_in_the_patch_order() {
    assert_eq!(
        merge(r#"{"b":1,"a":2}"#, r#"{"z":9,"a":{"k":0},"y":8}"#),
        r#"{"b":1,"a":{"k":0},"z":9,"y":8}"#
    );
    assert_eq!(merge("{ }", r#"{ "b" : 1.0 , "a":2 }"#), r#"{"b":1.0,"a":2 }"#);
    assert_eq!(merge("{\n  \"a\": 1\n}", r#"{"b":2}"#), "{\n  \"a\": 1,\"b\":2\n}");
}

#[test]
fn merge_descends_into_objects_at_every_depth() {
    assert_eq!(
        merge(r#"{"a":{"b":{"c":1, "d":2},"e":3},"f":4}"#, r#"{"a":{"b":{"d":5,"x":6},"y":7}}"#),
        r#"{"a":{"b":{"c":1, "d":5,"x":6},"e":3,"y":7},"f":4}"#
    );
}

#[test]
fn merge_replaces_when_either_side_is_no_object() {
    assert_eq!(merge(r#"{"a":{"b":1}}"#, r#"{"a":[1]}"#), r#"{"a":[1]}"#);
    assert_eq!(merge(r#"{"a":[{"b":1}]}"#, r#"{"a":{"c":1}}"#), r#"{"a":{"c":1}}"#);
    assert_eq!(merge(r#"{"a":[{"b":1}]}"#, r#"{"a":[{"c":1}]}"#), r#"{"a":[{"c":1}]}"#);
}

#[test]
fn merge_stores_null_and_deletes_nothing() {
    assert_eq!(
        merge(r#"{"a":1,"b":2}"#, r#"{"a":null,"c":null,"d":{"e":null}}"#),
        r#"{"a":null,"b":2,"c":null,"d":{"e":null}}"#
    );
}

#[test]
fn merge_matches_names_by_content() {
    assert_eq!(merge(r#"{"\u0061":1}"#, r#"{"a":2}"#), r#"{"\u0061":2}"#);
    assert_eq!(merge(r#"{"a":1}"#, r#"{"\u0061":2}"#), r#"{"a":2}"#);
}

#[test]
fn merge_into_duplicates_counts_the_last_and_removes_the_earlier() {
    assert_eq!(merge(r#"{"a":1, "b":0, "a":2, "c":3}"#, r#"{"a":9}"#), r#"{"b":0, "a":9, "c":3}"#);
    assert_eq!(
        merge(r#"{"a":{"x":1},"a":{"y":2},"a":{"z":3}}"#, r#"{"a":{"q":4}}"#),
        r#"{"a":{"z":3,"q":4}}"#
    );
    assert_eq!(merge(r#"{"a":2,"a":1}"#, r#"{"a":1}"#), r#"{"a":1}"#);
    // Untouched duplicates stay as they are.
    assert_eq!(merge(r#"{"a":1,"a":2,"b":0}"#, r#"{"b":1}"#), r#"{"a":1,"a":2,"b":1}"#);
}

#[test]
fn merge_of_a_patch_with_duplicates_counts_the_last() {
    assert_eq!(merge(r#"{"k":{}}"#, r#"{"k":{"a":1},"n":1,"k":{"b":2},"n":2}"#), r#"{"k":{"b":2},"n":2}"#);
}

#[test]
fn merge_into_nothing_is_the_patch_as_written() {
    let patch = json(r#"{ "a":1, "a":2 }"#);
    let reduced = reduce(None, &Reducer::Merge(patch.clone())).unwrap();
    assert_eq!(reduced, Reduced { value: patch, changed: true, appended: None, dropped: 0 });
}

#[test]
fn a_merge_that_changes_no_text_reports_it() {
    for patch in ["{}", r#"{"a":1}"#, r#"{"o":{"b":[2]}}"#, r#"{"o":{}}"#] {
        assert_eq!(merge(r#"{"a":1 ,"o":{"b":[2]}}"#, patch), r#"{"a":1 ,"o":{"b":[2]}}"#);
    }
    // Another spelling is another text: the result has what was set last.
    assert_eq!(merge(r#"{"a":1}"#, r#"{"a":1.0}"#), r#"{"a":1.0}"#);
}

#[test]
fn merge_needs_objects_on_both_sides() {
    for other in ["null", "[]", "1", "\"{}\"", "true"] {
        let error = reduce(Some(&json(other)), &Reducer::Merge(json("{}"))).unwrap_err();
        let ReduceError::WrongType { operand: Operand::Current, expected: JsonKind::Object, found } = error
        else {
            panic!("{error:?}")
        };
        assert_eq!(found, json(other).kind());
        for current in [None, Some(&json("{}"))] {
            let error = reduce(current, &Reducer::Merge(json(other))).unwrap_err();
            assert!(matches!(error, ReduceError::WrongType { operand: Operand::Patch, .. }));
        }
    }
    let error = reduce(Some(&json("[]")), &Reducer::Merge(json("{}"))).unwrap_err();
    let stored =
        "the stored value is of type array, but it must be an object; store one first, or use another key";
    assert_eq!(error.to_string(), stored);
    let error = reduce(None, &Reducer::Merge(json("1"))).unwrap_err();
    let patch =
        r#"the value to merge is of type number, but it must be an object; give one, such as {"a":1}"#;
    assert_eq!(error.to_string(), patch);
}

#[test]
fn merge_works_at_the_depth_limit_without_deep_recursion() {
    on_a_small_stack(|| {
        let nested = |key: &str, inner: &str| {
            let levels = MAX_DEPTH - 1;
            format!("{}{{{inner}}}{}", format!(r#"{{"{key}":"#).repeat(levels), "}".repeat(levels))
        };
        assert_eq!(merge(&nested("k", r#""a":1"#), &nested("k", r#""b":2"#)), nested("k", r#""a":1,"b":2"#));
    });
}

// ---- append, deduplicated

#[test]
fn append_adds_what_is_new_and_keeps_the_rest_as_text() {
    let reduced = append("[ 1.0, {\"b\":1 } ]", r#"{ "a":1 }"#);
    assert_eq!(reduced.value.as_str(), r#"[ 1.0, {"b":1 },{ "a":1 } ]"#);
    assert_eq!((reduced.changed, reduced.appended, reduced.dropped), (true, Some(true), 0));
    assert_eq!(append("[]", "1").value.as_str(), "[1]");
    assert_eq!(append("[ ]", "1").value.as_str(), "[1 ]");
}

#[test]
fn append_of_an_equal_element_changes_nothing() {
    for (current, item) in [
        ("[0, 1.0]", "1"),
        (r#"[{"a":1,"b":[2]}]"#, r#"{ "b":[2e0],"\u0061":1}"#),
        (r#"["\u0061",2]"#, r#""a""#),
        ("[null]", "null"),
        ("[[1]]", "[1]"),
        ("[1e400]", "10e399"),
    ] {
        let reduced = append(current, item);
        assert_eq!(reduced.value.as_str(), current);
        assert_eq!((reduced.changed, reduced.appended, reduced.dropped), (false, Some(false), 0));
    }
}

#[test]
fn append_compares_elements_not_their_parts() {
    assert_eq!(append("[[1],{\"a\":1}]", "1").value.as_str(), "[[1],{\"a\":1},1]");
    assert_eq!(append("[[1]]", "[[1]]").appended, Some(true));
    assert_eq!(append("[9007199254740993]", "9007199254740992").appended, Some(true));
}

#[test]
fn append_keeps_duplicates_that_were_there_before() {
    assert_eq!(append("[1,1]", "2").value.as_str(), "[1,1,2]");
}

#[test]
fn a_list_reducer_starts_from_the_empty_list() {
    for reducer in [Reducer::AppendDedupe(json("{ }")), Reducer::BoundedList { item: json("{ }"), limit: 1 }]
    {
        let reduced = reduce(None, &reducer).unwrap();
        let expected = Reduced { value: json("[{ }]"), changed: true, appended: Some(true), dropped: 0 };
        assert_eq!(reduced, expected);
    }
}

#[test]
fn a_list_reducer_needs_an_array() {
    for current in ["null", "{}", "1", "\"[]\""] {
        for reducer in [Reducer::AppendDedupe(json("1")), Reducer::BoundedList { item: json("1"), limit: 1 }]
        {
            let error = reduce(Some(&json(current)), &reducer).unwrap_err();
            let expected = JsonKind::Array;
            assert!(
                matches!(error, ReduceError::WrongType { operand: Operand::Current, expected: e, .. } if e == expected)
            );
        }
    }
}

#[test]
fn a_list_reducer_refuses_to_nest_beyond_the_limit() {
    let deepest = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
    for current in [None, Some(&json("[]"))] {
        for reducer in
            [Reducer::AppendDedupe(json(&deepest)), Reducer::BoundedList { item: json(&deepest), limit: 5 }]
        {
            assert!(matches!(reduce(current, &reducer), Err(ReduceError::TooDeep { limit: MAX_DEPTH })));
        }
    }
    assert_eq!(append("[]", &deepest[1..255]).appended, Some(true));
}

// ---- bounded list

#[test]
fn a_bounded_list_drops_from_the_head() {
    let reduced = push("[ 1 , 2.0 ,3 ]", "4", 3);
    assert_eq!(reduced.value.as_str(), "[2.0 ,3,4 ]");
    assert_eq!((reduced.changed, reduced.appended, reduced.dropped), (true, Some(true), 1));
}

#[test]
fn a_bounded_list_below_its_limit_only_grows() {
    let reduced = push("[ 1 , 1 ]", "1", 3);
    assert_eq!((reduced.value.as_str(), reduced.dropped), ("[ 1 , 1,1 ]", 0));
}

#[test]
fn a_bounded_list_far_above_its_limit_shrinks_to_it() {
    let reduced = push("[1,[2,3],{\"a\":[4]},5]", "6", 2);
    assert_eq!((reduced.value.as_str(), reduced.dropped), ("[5,6]", 3));
    let reduced = push("[1,2,3]", "4", 1);
    assert_eq!((reduced.value.as_str(), reduced.dropped), ("[4]", 3));
}

#[test]
fn a_bounded_list_with_the_same_text_counts_as_unchanged() {
    let reduced = push("[1]", "1", 1);
    assert_eq!((reduced.changed, reduced.appended, reduced.dropped), (false, Some(true), 1));
}

#[test]
fn a_bounded_list_limit_has_a_range() {
    for limit in [0, MAX_LIST_LIMIT + 1, usize::MAX] {
        for current in [None, Some(&json("[]")), Some(&json("{}"))] {
            let error = reduce(current, &Reducer::BoundedList { item: json("1"), limit }).unwrap_err();
            assert!(matches!(error, ReduceError::LimitOutOfRange { max: 10_000, .. }));
        }
    }
    let mut list = format!("[{}0]", "0,".repeat(MAX_LIST_LIMIT - 2));
    for dropped in [0, 1, 1] {
        let reduced = push(&list, "1", MAX_LIST_LIMIT);
        assert_eq!(reduced.dropped, dropped);
        list = reduced.value.to_string();
    }
}

// ---- hostile sizes

#[test]
fn megabytes_are_reduced_in_linear_time() {
    let list = json(&format!("[{}0]", "[1],".repeat(1 << 18)));
    assert_eq!(reduce(Some(&list), &Reducer::AppendDedupe(json("[2]"))).unwrap().appended, Some(true));
    let bounded = Reducer::BoundedList { item: json("1"), limit: 10 };
    assert_eq!(reduce(Some(&list), &bounded).unwrap().dropped, (1 << 18) + 1 - 9);

    let members = |value: &str| -> String { (0..30_000).map(|i| format!("\"{i}\":{value},")).collect() };
    let object = json(&format!("{{{}\"o\":{{{}\"e\":0}}}}", members("1"), members("1")));
    let patch = json(&format!("{{{}\"o\":{{{}\"n\":0}}}}", members("2"), members("3")));
    let expected = format!("{{{}\"o\":{{{}\"e\":0,\"n\":0}}}}", members("2"), members("3"));
    assert_eq!(reduce(Some(&object), &Reducer::Merge(patch)).unwrap().value.as_str(), expected);

    let duplicates = json(&format!("{{{}\"k\":{{}}}}", "\"k\":{\"a\":0},".repeat(30_000)));
    let reduced = reduce(Some(&duplicates), &Reducer::Merge(json(r#"{"k":{"b":1}}"#))).unwrap();
    assert_eq!(reduced.value.as_str(), r#"{"k":{"b":1}}"#);
}

// ---- properties

/// The members of an object in order, duplicates included, values as text; read by serde_json, not by us.
#[derive(Debug)]
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

fn members(text: &str) -> Vec<(String, String)> {
    let Members(members) = serde_json::from_str(text).unwrap();
    members.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect()
}

fn last<'a>(members: &'a [(String, String)], name: &str) -> Option<&'a str> {
    members.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

/// Checks `result` against the documented behaviour, member by member.
fn is_the_merge_of(current: &str, patch: &str, result: &str) -> Result<(), TestCaseError> {
    let (before, change, after) = (members(current), members(patch), members(result));
    let touched = |name: &str| last(&change, name).is_some();

    let untouched = |members: &[(String, String)]| -> Vec<(String, String)> {
        members.iter().filter(|(name, _)| !touched(name)).cloned().collect()
    };
    prop_assert_eq!(untouched(&before), untouched(&after), "untouched members, byte for byte and in order");

    // Names in order: the current ones without the earlier duplicates of touched ones, then the new ones.
    let mut names: Vec<&str> = Vec::new();
    for (index, (name, _)) in before.iter().enumerate() {
        if !touched(name) || before[index + 1..].iter().all(|(later, _)| later != name) {
            names.push(name);
        }
    }
    for (index, (name, _)) in change.iter().enumerate() {
        let counts = change[index + 1..].iter().all(|(later, _)| later != name);
        if counts && last(&before, name).is_none() {
            names.push(name);
        }
    }
    prop_assert_eq!(after.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);

    for (name, _) in &change {
        let (old, new, got) =
            (last(&before, name), last(&change, name).unwrap(), last(&after, name).unwrap());
        match old {
            Some(old) if old.starts_with('{') && new.starts_with('{') => is_the_merge_of(old, new, got)?,
            _ => prop_assert_eq!(new, got),
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn merge_behaves_as_documented(current in object_doc(), patch in object_doc()) {
        let (current, patch) = (current.text(), patch.text());
        is_the_merge_of(&current, &patch, &merge(&current, &patch))?;
    }

    #[test]
    fn merging_twice_equals_merging_once(current in object_doc(), patch in object_doc()) {
        let once = merge(&current.text(), &patch.text());
        prop_assert!(semantic_eq(&json(&merge(&once, &patch.text())), &json(&once)));
    }

    #[test]
    fn merging_a_value_into_itself_keeps_its_meaning(current in object_doc()) {
        let text = current.text();
        prop_assert!(semantic_eq(&json(&merge(&text, &text)), &json(&text)));
    }

    #[test]
    fn append_agrees_with_a_search_for_an_equal_element(list in array_doc(), item in doc(), style: u8) {
        let present = list.iter().any(|element| element.means_the_same_as(&item));
        let array = Doc::Array(list.clone(), style);
        let reduced = append(&array.text(), &item.text());
        prop_assert_eq!(reduced.appended, Some(!present));
        let again = reduce(Some(&reduced.value), &Reducer::AppendDedupe(json(&item.text()))).unwrap();
        prop_assert_eq!(again.appended, Some(false));
        for element in list {
            let again = reduce(Some(&array_json(&array)), &Reducer::AppendDedupe(json(&element.restyled(style).text())));
            prop_assert!(!again.unwrap().changed);
        }
    }

    #[test]
    fn a_bounded_list_is_the_tail_of_the_appended_list(list in array_doc(), item in doc(), limit in 1..8_usize, style: u8) {
        let reduced = push(&Doc::Array(list.clone(), style).text(), &item.text(), limit);
        let mut expected: Vec<String> = list.iter().chain([&item]).map(Doc::text).collect();
        let dropped = expected.len().saturating_sub(limit);
        expected.drain(..dropped);
        let got: Vec<Box<RawValue>> = reduced.value.deserialize().unwrap();
        prop_assert_eq!(got.iter().map(|raw| raw.get()).collect::<Vec<_>>(), expected);
        prop_assert_eq!(reduced.dropped, dropped);
    }
}

fn array_json(array: &Doc) -> Json {
    json(&array.text())
}
