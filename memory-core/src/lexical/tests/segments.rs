//! Segments, and the index built from them, compared with reading every document.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::lexical::segment::checksum;
use crate::lexical::{LexicalHit, Segment, SegmentedIndex, rank};

fn index<'t>(documents: impl IntoIterator<Item = (&'t str, &'t str)>) -> SegmentedIndex {
    let mut index = SegmentedIndex::new();
    for (version, (key, text)) in (1..).zip(documents) {
        index.insert(key.into(), version, text, None);
    }
    index
}

fn arrange(index: &mut SegmentedIndex) -> Vec<Arc<Segment>> {
    let segments = index.arranged();
    index.rearrange(&segments);
    segments
}

/// Stored and read again.
fn reopened(index: &SegmentedIndex) -> SegmentedIndex {
    let mut again = SegmentedIndex::new();
    for segment in index.arranged() {
        let decoded = Segment::decode(&segment.encode()).unwrap();
        assert_eq!(decoded, *segment);
        again.add(Arc::new(decoded));
    }
    again
}

fn keys(index: &SegmentedIndex, query: &str) -> Vec<String> {
    index.search_and_score(query, |_| true, 10, &[]).0.into_iter().map(|hit| hit.key.to_owned()).collect()
}

#[test]
fn documents_found_by_other_means_get_the_scores_of_search() {
    let texts = [("a", "green tea"), ("b", "tea"), ("c", "coffee"), ("d", "black tea leaves")];
    for stored in [false, true] {
        let mut index = index(texts);
        if stored {
            index = reopened(&index);
        }
        let (best, scores) = index.search_and_score("green tea", |_| true, 1, &["d", "c", "gone", "a"]);
        let (all, _) = index.search_and_score("green tea", |_| true, 10, &[]);
        let score = |name: &str| all.iter().find(|hit| hit.key == name).map(|hit| hit.score);
        assert_eq!(best, all[..1]);
        assert_eq!(scores, [score("d"), None, None, score("a")]);
    }
}

#[test]
fn a_stored_document_that_goes_away_is_not_found_and_counts_no_more() {
    let mut index = reopened(&index([("a", "green tea"), ("b", "tea"), ("c", "coffee")]));
    index.remove("a");
    index.insert("b".into(), 9, "rain", None);
    assert_eq!((index.len(), index.tokens()), (2, 2));
    assert_eq!(keys(&index, "tea"), Vec::<String>::new());
    assert_eq!(keys(&index, "rain coffee"), ["b", "c"]);
    let again = arrange(&mut index);
    assert!(
        again
            .iter()
            .all(|segment| !contains(&segment.encode(), "green") && !contains(&segment.encode(), "tea"))
    );
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn damaged_bytes_are_no_segment() {
    let bytes = index([("a", "green tea"), ("b", "tea tea")]).arranged()[0].encode();
    assert!(Segment::decode(&bytes).is_some());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(Segment::decode(&damaged).is_none(), "{at} {bit}");
        }
        assert!(Segment::decode(&bytes[..at]).is_none());
    }
}

#[test]
fn segments_keep_their_size_and_those_without_a_change_stay() {
    let text = |n: usize| (format!("k/{n:05}"), format!("note number{n}"));
    let documents: Vec<(String, String)> = (0..20_000).map(text).collect();
    let mut index = index(documents.iter().map(|(key, text)| (key.as_str(), text.as_str())));
    let before = arrange(&mut index);
    assert_eq!(before.iter().map(|segment| segment.len()).sum::<usize>(), 20_000);
    assert!(before.iter().all(|segment| (1_024..=4_096).contains(&segment.len())));
    assert!(before.windows(2).all(|pair| pair[0].last() < pair[1].first()));

    index.remove("k/00001");
    index.insert("k/19999x".into(), 30_000, "the last", None);
    let after = arrange(&mut index);
    let kept = before.iter().filter(|old| after.iter().any(|new| Arc::ptr_eq(old, new))).count();
    assert_eq!(kept, before.len() - 1, "all but the first, which lost one");
    assert_eq!(after.iter().map(|segment| segment.len()).sum::<usize>(), 20_000);
    assert!(after.windows(2).all(|pair| pair[0].last() < pair[1].first()));

    for n in 20_000..22_000 {
        index.insert(format!("k/{n:05}").as_str().into(), n, "appended", None);
        if n % 100 == 0 {
            arrange(&mut index);
        }
    }
    let small = arrange(&mut index).iter().filter(|segment| segment.len() < 1_024).count();
    assert!(small <= 1, "what is appended little by little does not stay in small segments: {small}");
}

/// A change rewrites the segment around it, so segments must stay small.
#[test]
fn long_documents_lie_in_segments_of_fewer() {
    let long = "tea ".repeat(10_000);
    let documents: Vec<(String, &str)> = (0..100).map(|n| (format!("k/{n:03}"), long.as_str())).collect();
    let mut index = index(documents.iter().map(|(key, text)| (key.as_str(), *text)));
    let before = arrange(&mut index);
    assert!(before.iter().all(|segment| (15..=30).contains(&segment.len())));
    index.remove("k/000");
    let after = arrange(&mut index);
    assert_eq!(
        after.iter().filter(|new| before.iter().any(|old| Arc::ptr_eq(old, new))).count(),
        before.len() - 1
    );
}

#[test]
fn an_index_in_segments_takes_a_fraction_of_the_memory() {
    let documents: Vec<(String, String)> = (0..50_000)
        .map(|n| {
            (format!("note/{n:08}"), format!("{n} the thing {} about {} and some more", n % 977, n % 331))
        })
        .collect();
    let index = index(documents.iter().map(|(key, text)| (key.as_str(), text.as_str())));
    assert!(index.heap_bytes() < 100 * documents.len(), "{}", index.heap_bytes() / documents.len());
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, String, Option<i64>),
    Remove(u8),
    Expire(i64),
    Arrange,
    Store,
    /// Another process removes some and replaces others; a comparison finds out.
    Compare(Vec<u8>, Vec<(u8, String)>),
}

fn some_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof!["tea", "rain", "ann", "lisbon", "tea tea"], 0..5)
        .prop_map(|words| words.join(" "))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40_u8, some_text(), proptest::option::of(0..50_i64)).prop_map(|(k, t, e)| Step::Insert(k, t, e)),
        2 => (0..40_u8).prop_map(Step::Remove),
        1 => (0..50_i64).prop_map(Step::Expire),
        1 => Just(Step::Arrange),
        1 => Just(Step::Store),
        1 => (
            proptest::collection::vec(0..40_u8, 0..5),
            proptest::collection::vec((0..40_u8, some_text()), 0..5)
        )
            .prop_map(|(gone, new)| Step::Compare(gone, new)),
    ]
}

proptest! {
    /// Forged bytes, even with a valid checksum, cause at most wrong answers.
    #[test]
    fn forged_bytes_do_no_harm(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = index([("a", "green tea"), ("b", "tea tea"), ("c", "rain"), ("d", "tea rain")]).arranged()[0].encode();
        bytes.truncate(bytes.len() - 8);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.extend(checksum(&bytes).to_le_bytes());
        if let Some(forged) = Segment::decode(&bytes) {
            let mut index = SegmentedIndex::new();
            index.add(Arc::new(forged));
            index.search_and_score("tea rain", |_| true, 10, &["a", "e"]);
            index.insert("b".into(), 9, "rain", Some(5));
            index.remove("c");
            index.expire(7);
            let mut comparison = index.compare();
            for key in ["a", "b", "d"] {
                comparison.knows(key, 1);
            }
            comparison.end(&mut index);
            arrange(&mut index);
            index.search_and_score("tea rain", |_| true, 10, &["a", "e"]);
        }
    }

    #[test]
    fn it_agrees_with_reading_every_document(steps in proptest::collection::vec(step(), 1..80), query in some_text()) {
        let mut index = SegmentedIndex::new();
        let mut documents: BTreeMap<String, (u64, String, Option<i64>)> = BTreeMap::new();
        let mut version = 0;
        let name = |key: u8| format!("k{key:02}");
        for step in steps {
            version += 1;
            match step {
                Step::Insert(key, text, expires_at) => {
                    index.insert(name(key).as_str().into(), version, &text, expires_at);
                    documents.insert(name(key), (version, text, expires_at));
                }
                Step::Remove(key) => {
                    index.remove(&name(key));
                    documents.remove(&name(key));
                }
                Step::Expire(now) => {
                    let before = documents.len();
                    documents.retain(|_, (_, _, at)| at.is_none_or(|at| at > now));
                    prop_assert_eq!(index.expire(now), before - documents.len());
                }
                Step::Arrange => drop(arrange(&mut index)),
                Step::Store => index = reopened(&index),
                Step::Compare(gone, new) => {
                    for key in gone {
                        documents.remove(&name(key));
                    }
                    for (key, text) in new {
                        version += 1;
                        documents.insert(name(key), (version, text, None));
                    }
                    let mut comparison = index.compare();
                    for (key, (version, text, expires_at)) in &documents {
                        if !comparison.knows(key, *version) {
                            index.insert(key.as_str().into(), *version, text, *expires_at);
                        }
                    }
                    comparison.end(&mut index);
                }
            }
            let due = documents.values().filter_map(|(_, _, at)| *at).min();
            prop_assert!(index.next_expiry().is_none_or(|next| due.is_none_or(|due| next <= due)));
            prop_assert_eq!(index.len(), documents.len());
        }
        let texts = || documents.iter().map(|(key, (_, text, _))| (key.as_str(), text.as_str()));
        let expected: Vec<LexicalHit<&str>> = rank(&query, texts(), |key| !key.ends_with('7'), 5);
        let (found, _) = index.search_and_score(&query, |key| !key.ends_with('7'), 5, &[]);
        let found_keys: Vec<_> = found.iter().map(|hit| (hit.key, hit.score.to_bits(), hit.version)).collect();
        let expected: Vec<_> =
            expected.iter().map(|hit| (hit.key, hit.score.to_bits(), documents[hit.key].0)).collect();
        prop_assert_eq!(found_keys, expected);
    }
}
