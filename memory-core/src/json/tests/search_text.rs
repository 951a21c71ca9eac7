use super::{doc, json};
use proptest::prelude::*;

fn words(text: &str) -> String {
    json(text).search_text(usize::MAX)
}

#[test]
fn a_string_is_its_content() {
    assert_eq!(words(r#""line\n\"two\" \u732b\ud83d\ude00""#), "line\n\"two\" 猫😀");
    assert_eq!(words(r#""""#), "");
}

#[test]
fn an_object_is_its_names_and_leaves_in_document_order() {
    let text = r#"{"city":"Oslo","n":[1,2.50,{"deep":"yes"}],"city":"Rome","ok":true,"none":null}"#;
    assert_eq!(words(text), "city Oslo n 1 2.50 deep yes city Rome ok none");
}

#[test]
fn booleans_and_null_have_no_words_and_numbers_keep_their_spelling() {
    assert_eq!(words("true"), "");
    assert_eq!(words("null"), "");
    assert_eq!(words("[true,false,null]"), "");
    assert_eq!(words("1e400"), "1e400");
    assert_eq!(words("[9007199254740993,-0]"), "9007199254740993 -0");
}

#[test]
fn empty_strings_leave_no_double_space() {
    assert_eq!(words(r#"["","a","","b",""]"#), "a b");
    assert_eq!(words(r#"{"":""}"#), "");
}

#[test]
fn a_nul_is_written_as_a_space() {
    assert_eq!(words(r#""a\u0000b""#), "a b");
}

#[test]
fn the_limit_cuts_between_characters() {
    let value = json(r#""a猫b""#);
    let cuts: Vec<String> = (0..=6).map(|limit| value.search_text(limit)).collect();
    assert_eq!(cuts, ["", "a", "a", "a", "a猫", "a猫b", "a猫b"]);
}

#[test]
fn the_limit_never_leaves_a_trailing_separator_or_half_a_number() {
    let value = json(r#"["ab",123,"c"]"#);
    let cuts: Vec<String> = (0..=9).map(|limit| value.search_text(limit)).collect();
    assert_eq!(cuts, ["", "a", "ab", "ab", "ab", "ab", "ab 123", "ab 123", "ab 123 c", "ab 123 c"]);
}

#[test]
fn writing_appends_and_limits_only_what_it_appends() {
    let mut out = "before:".to_owned();
    json(r#"["abc","def"]"#).write_search_text(&mut out, 5);
    assert_eq!(out, "before:abc d");
}

proptest! {
    #[test]
    fn a_limited_text_is_a_prefix_of_the_whole(doc in doc(), limit in 0..60_usize) {
        let value = json(&doc.text());
        let (whole, part) = (value.search_text(usize::MAX), value.search_text(limit));
        prop_assert!(part.len() <= limit);
        prop_assert!(whole.starts_with(&part), "{whole:?} / {part:?}");
        if whole.len() <= limit {
            prop_assert_eq!(part, whole);
        }
    }
}
