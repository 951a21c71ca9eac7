//! BM25, its saturation, and the index compared with reading every document.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::lexical::{Bm25, LexicalHit, LexicalIndex, TermCounts, idf, rank};

#[test]
fn idf_equals_lucenes() {
    assert!((idf(10, 1) - (1.0_f64 + 9.5 / 1.5).ln()).abs() < 1e-12);
    assert!(idf(10, 10) > 0.0);
    assert!(idf(10, 0) > idf(10, 1));
}

#[test]
fn weight_by_hand() {
    // Two documents of 4 and 8 tokens: mean 6. One term, twice in the longer.
    let bm25 = Bm25::new(2, 12);
    let idf = (1.0_f64 + 1.5 / 1.5).ln();
    let expected = idf * 2.0 * 1.9 / (2.0 + 0.9 * (0.6 + 0.4 * 8.0 / 6.0));
    assert!((bm25.weight(idf, 2, 8) - expected).abs() < 1e-12);
}

#[test]
fn the_score_approaches_one_for_a_repeated_query_and_never_exceeds_it() {
    let text = "lisbon ".repeat(10_000);
    let hits = rank("Lisbon", [(1, text.as_str()), (2, &"oslo ".repeat(90_000))], |_| true, 10);
    assert!((0.99..=1.0).contains(&hits[0].score), "{hits:?}");
}

#[test]
fn words_missing_in_the_scope_lower_the_score() {
    let documents = [(1, "ann paints"), (2, "bob sings")];
    let all = rank("ann paints", documents, |_| true, 10);
    let half = rank("ann sculpts", documents, |_| true, 10);
    assert!(half[0].score < all[0].score / 2.0);
}

#[test]
fn no_terms_no_hits() {
    let mut index = LexicalIndex::new();
    index.insert(1, "ann", None);
    index.insert(2, "", None);
    assert!(index.search("", |_| true, 10).is_empty());
    assert!(index.search("?!", |_| true, 10).is_empty());
    assert!(index.search("ann", |_| true, 0).is_empty());
    assert!(rank("", [(1, "ann")], |_| true, 10).is_empty());
    assert!(LexicalIndex::<u32>::new().search("ann", |_| true, 10).is_empty());
}

#[test]
fn ties_break_by_key_in_any_insertion_order() {
    let mut index = LexicalIndex::new();
    for key in ["c", "a", "d", "b"] {
        index.insert(key.to_owned(), "same words", None);
    }
    let keys: Vec<_> = index.search("words", |_| true, 3).into_iter().map(|hit| hit.key).collect();
    assert_eq!(keys, ["a", "b", "c"]);
}

#[test]
fn a_filter_never_under_returns_and_leaves_scores_alone() {
    let mut index = LexicalIndex::new();
    for key in 0..1_000 {
        index.insert(key, if key % 100 == 0 { "cat" } else { "cat cat" }, None);
    }
    let all = index.search("cat", |_| true, 1_000);
    let some = index.search("cat", |key| key % 100 == 0, 20);
    assert_eq!(some.len(), 10);
    assert!(some.iter().all(|hit| all.contains(hit)));
}

#[test]
fn a_document_expires_at_its_millisecond() {
    let mut index = LexicalIndex::new();
    index.insert("k", "ann", Some(1_000));
    assert_eq!(index.next_expiry(), Some(1_000));
    assert_eq!(index.expire(999), 0);
    assert_eq!(index.search("ann", |_| true, 1).len(), 1);
    assert_eq!(index.expire(1_000), 1);
    assert!(index.search("ann", |_| true, 1).is_empty());
    assert_eq!((index.len(), index.tokens(), index.document_frequency("ann")), (0, 0, 0));
}

#[test]
fn an_expiry_moves_with_its_document() {
    let mut index = LexicalIndex::new();
    index.insert("k", "ann", Some(10));
    assert!(index.set_expiry("k", Some(20)));
    assert_eq!(index.expire(10), 0);
    assert!(index.set_expiry("k", None));
    index.insert("l", "ann", Some(20));
    index.insert("l", "bob", None);
    assert_eq!(index.expire(i64::MAX), 0);
    assert!(!index.set_expiry("m", None));
}

#[test]
fn memory_is_freed_after_removal() {
    let mut index = LexicalIndex::new();
    let empty = index.heap_bytes();
    for key in 0..20_000_u32 {
        index.insert(key, &format!("note {key} about thing{key} and more"), Some(i64::from(key)));
    }
    let full = index.heap_bytes();
    assert!(full > 20_000 * 40);
    for key in 0..19_900 {
        index.remove(&key);
    }
    index.compact();
    assert!(index.heap_bytes() < full / 50, "{} of {full}", index.heap_bytes());
    assert_eq!(index.search("note", |_| true, 1_000).len(), 100);
    index.clear();
    assert_eq!(index.heap_bytes(), empty);
}

#[test]
fn writing_one_key_over_and_over_does_not_grow_the_index() {
    let mut index = LexicalIndex::new();
    for n in 0..50_000 {
        index.insert(1, &format!("state number{n} now"), None);
    }
    assert!(index.heap_bytes() < 500_000, "{}", index.heap_bytes());
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, String, Option<i64>),
    Remove(u8),
    SetExpiry(u8, Option<i64>),
    Expire(i64),
    Compact,
}

fn some_text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::collection::vec(prop::sample::select(vec![
            "cat", "Cats", "dog", "the", "what", "went", "going", "user_id-42", "user", "café", "猫がいる", "🎉",
            "v1.2.3", "a", "Ann's",
        ]), 0..9).prop_map(|words| words.join(" ")),
        1 => "\\PC{0,12}",
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let expiry = || prop::option::weighted(0.3, 0..40_i64);
    prop_oneof![
        8 => (0..24_u8, some_text(), expiry()).prop_map(|(key, text, at)| Step::Insert(key, text, at)),
        3 => (0..24_u8).prop_map(Step::Remove),
        1 => (0..24_u8, expiry()).prop_map(|(key, at)| Step::SetExpiry(key, at)),
        1 => (0..40_i64).prop_map(Step::Expire),
        1 => Just(Step::Compact),
    ]
}

fn same(found: &[LexicalHit<u8>], expected: &[LexicalHit<u8>]) {
    assert_eq!(
        found.iter().map(|hit| hit.key).collect::<Vec<_>>(),
        expected.iter().map(|hit| hit.key).collect::<Vec<_>>()
    );
    for (found, expected) in found.iter().zip(expected) {
        assert!((found.bm25 - expected.bm25).abs() < 1e-9, "{found:?} {expected:?}");
        assert!((found.score - expected.score).abs() < 1e-9, "{found:?} {expected:?}");
        assert!((0.0..=1.0).contains(&found.score));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_equals_reading_every_document(
        steps in prop::collection::vec(step(), 0..80),
        query in some_text(),
        limit in 1..12_usize,
    ) {
        let mut index = LexicalIndex::new();
        let mut model: BTreeMap<u8, (String, Option<i64>)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(key, text, at) => {
                    index.insert(key, &text, at);
                    model.insert(key, (text, at));
                }
                Step::Remove(key) => prop_assert_eq!(index.remove(&key), model.remove(&key).is_some()),
                Step::SetExpiry(key, at) => {
                    let known = model.get_mut(&key).map(|document| document.1 = at).is_some();
                    prop_assert_eq!(index.set_expiry(&key, at), known);
                }
                Step::Expire(now) => {
                    let before = model.len();
                    model.retain(|_, document| document.1.is_none_or(|at| at > now));
                    prop_assert_eq!(index.expire(now), before - model.len());
                }
                Step::Compact => index.compact(),
            }
            prop_assert_eq!(index.len(), model.len());
        }
        let counts: Vec<_> = model.values().map(|document| TermCounts::of(&document.0)).collect();
        prop_assert_eq!(index.tokens(), counts.iter().map(|counts| u64::from(counts.length)).sum::<u64>());
        for term in ["cat", "猫", "user"] {
            let having = counts.iter().filter(|counts| counts.counts.contains_key(term)).count();
            prop_assert_eq!(usize::try_from(index.document_frequency(term)).unwrap(), having);
        }
        prop_assert_eq!(index.next_expiry(), model.values().filter_map(|document| document.1).min());

        let documents = || model.iter().map(|(&key, document)| (key, document.0.as_str()));
        same(&index.search(&query, |_| true, limit), &rank(&query, documents(), |_| true, limit));
        let even = |key: &u8| key.is_multiple_of(2);
        same(&index.search(&query, even, limit), &rank(&query, documents(), even, limit));
    }

    #[test]
    fn any_text_is_analyzed_within_the_limits(text in any::<String>()) {
        for token in crate::lexical::tokens(&text) {
            prop_assert!(!token.is_empty() && token.chars().count() <= crate::lexical::MAX_TOKEN_CHARS);
            prop_assert!(!token.contains(char::is_whitespace));
        }
    }
}
