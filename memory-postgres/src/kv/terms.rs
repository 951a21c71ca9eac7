//! The index terms of an entry: one number for each word of its text, and one for each fact that a filter may test.
//!
//! A term is a hash of the scope's digest and the word or fact. So one index over all scopes finds no entry of another
//! scope, and one scope's words cost another nothing. The column `marks` holds them.

use memory_core::filter::{Field, Filter};
use memory_core::lexical::TermCounts;
use memory_core::{Metadata, Scalar, ScopeDigest, Source};
use sha2::{Digest as _, Sha256};

/// The index terms of an entry, as stored in its row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexTerms {
    /// The terms of words first, then those of facts.
    pub(crate) marks: Vec<i64>,
    /// How often each word occurs.
    pub(crate) counts: Vec<i32>,
    /// The number of words.
    pub(crate) tokens: i32,
}

impl IndexTerms {
    /// The terms of an entry whose search text is `text`.
    pub(crate) fn of(digest: &ScopeDigest, text: &str, metadata: &Metadata, source: Option<&Source>) -> Self {
        let terms = TermCounts::of(text);
        let mut all = Self { tokens: i32::try_from(terms.length).unwrap_or(i32::MAX), ..Self::default() };
        for (term, count) in &terms.counts {
            all.marks.push(word(digest, term));
            all.counts.push(i32::from(*count));
        }
        all.marks.extend(metadata.iter().map(|(name, value)| fact(digest, name, value)));
        all.marks.extend(source.map(|source| source_fact(digest, source.as_str())));
        all
    }
}

/// The term for a word; the same as the schema's function `word_mark`.
pub(crate) fn word(digest: &ScopeDigest, term: &str) -> i64 {
    mark(digest, b'w', &[term.as_bytes()])
}

fn source_fact(digest: &ScopeDigest, source: &str) -> i64 {
    mark(digest, b's', &[source.as_bytes()])
}

/// The term for one member of the metadata. Equal values have equal terms, whatever their spelling.
fn fact(digest: &ScopeDigest, name: &str, value: &Scalar) -> i64 {
    let length = u64::try_from(name.len()).unwrap_or(u64::MAX).to_be_bytes();
    let with = |kind: u8, value: &[u8]| mark(digest, b'm', &[&length, name.as_bytes(), &[kind], value]);
    match value {
        Scalar::Bool(value) => with(b'b', &[u8::from(*value)]),
        Scalar::Int(value) => with(b'i', &value.to_be_bytes()),
        Scalar::Float(value) => match whole(*value) {
            Some(value) => with(b'i', &value.to_be_bytes()),
            None => with(b'f', &value.to_bits().to_be_bytes()),
        },
        Scalar::Text(value) => with(b't', value.as_bytes()),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the float is a whole number within i64")]
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value))
        .then_some(value as i64)
}

fn mark(digest: &ScopeDigest, kind: u8, parts: &[&[u8]]) -> i64 {
    let mut hash = Sha256::new();
    hash.update(digest.as_bytes());
    hash.update([kind]);
    for part in parts {
        hash.update(part);
    }
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    i64::from_be_bytes(bytes)
}

/// Groups of terms: every entry that passes the filter has at least one term of each group. Empty: terms cannot narrow
/// this filter.
pub(crate) fn required(digest: &ScopeDigest, filter: &Filter) -> Vec<Vec<i64>> {
    let one = |field: &Field, value: &Scalar| match (field, value) {
        (Field::Metadata(name), value) => Some(fact(digest, name, value)),
        (Field::Source, Scalar::Text(label)) => Some(source_fact(digest, label)),
        _ => None,
    };
    match filter {
        Filter::Eq(field, value) => one(field, value).map(|mark| vec![vec![mark]]).unwrap_or_default(),
        Filter::In(field, values) if !values.is_empty() => {
            let marks: Option<Vec<i64>> = values.iter().map(|value| one(field, value)).collect();
            marks.map(|marks| vec![marks]).unwrap_or_default()
        }
        Filter::And(filters) => filters.iter().flat_map(|filter| required(digest, filter)).collect(),
        Filter::Or(filters) if !filters.is_empty() => {
            // One group of each branch, merged.
            let groups: Option<Vec<Vec<i64>>> = filters
                .iter()
                .map(|filter| required(digest, filter).into_iter().min_by_key(Vec::len))
                .collect();
            groups.map(|groups| vec![groups.concat()]).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use memory_core::Scope;
    use memory_core::lexical::tokens;

    use super::*;

    fn digest() -> ScopeDigest {
        Scope::agent("t", "a").unwrap().digest()
    }

    #[test]
    fn the_words_of_an_integer_are_its_digits() {
        // `kv_increment` relies on this.
        for number in [0, 1, -1, 42, -42, 1_000, 999_999_999_999, i64::MAX, i64::MIN, i64::MIN + 1] {
            assert_eq!(tokens(&number.to_string()), [number.unsigned_abs().to_string()], "{number}");
        }
    }

    #[test]
    fn equal_facts_have_equal_marks_and_others_do_not() {
        let mark = |value: Scalar| fact(&digest(), "n", &value);
        assert_eq!(mark(Scalar::Int(1)), mark(Scalar::Float(1.0)));
        assert_eq!(mark(Scalar::Int(0)), mark(Scalar::Float(-0.0)));
        for other in [Scalar::Int(2), Scalar::Float(1.5), Scalar::from("1"), Scalar::Bool(true)] {
            assert_ne!(mark(Scalar::Int(1)), mark(other));
        }
        assert_ne!(fact(&digest(), "ab", &Scalar::from("c")), fact(&digest(), "a", &Scalar::from("bc")));
        let other = Scope::agent("t", "b").unwrap().digest();
        assert_ne!(word(&digest(), "tea"), word(&other, "tea"));
    }

    #[test]
    fn what_a_filter_requires_is_necessary_for_it() {
        let required = |text: &str| required(&digest(), &serde_json::from_str(text).unwrap());
        let a = required(r#"{"eq":["metadata.a",1]}"#).concat();
        let b = required(r#"{"eq":["source","b"]}"#).concat();
        assert_eq!((a.len(), b.len()), (1, 1));
        assert_eq!(required(r#"{"in":["metadata.a",[1.0]]}"#), std::slice::from_ref(&a));
        assert_eq!(
            required(r#"{"and":[{"eq":["metadata.a",1]},{"gt":["metadata.c",2]},{"eq":["source","b"]}]}"#),
            [a.clone(), b.clone()]
        );
        assert_eq!(required(r#"{"or":[{"eq":["metadata.a",1]},{"eq":["source","b"]}]}"#), [[a, b].concat()]);
        for nothing in [
            r#"{"or":[{"eq":["metadata.a",1]},{"exists":"source"}]}"#,
            r#"{"not":{"eq":["metadata.a",1]}}"#,
            r#"{"ne":["metadata.a",1]}"#,
            r#"{"and":[]}"#,
            r#"{"or":[]}"#,
            r#"{"in":["source",[]]}"#,
            r#"{"eq":["created_at",1]}"#,
        ] {
            assert!(required(nothing).is_empty(), "{nothing}");
        }
    }
}
