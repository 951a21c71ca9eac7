//! Text to tokens: bounded, linear, independent of the context.

use std::collections::HashSet;

use memory_core::lexical::{
    Analyzer, LexicalIndex, MAX_QUERY_TERMS, MAX_TOKEN_CHARS, MAX_TOKENS, TermCounts, query_terms, tokens,
};

use crate::support::{one_in, quickly, repeated};

/// Tries one text.
pub fn run(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let all = tokens(text);
    bounded(&all);
    let half = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (before, after) = text.split_at(half);
    stands_alone(before, after);
    // ASCII text has a separate code path, which must give the same result.
    stands_alone(text, "é");
    used_again(before, text, &all);
    counted(text, &all);
    found(text, &all);
    if one_in(256, data) {
        for between in ["", " "] {
            bounded(&quickly("analysing", || tokens(&repeated(text, between))));
        }
    }
}

fn bounded(tokens: &[String]) {
    assert!(tokens.len() <= MAX_TOKENS);
    for token in tokens {
        assert!(!token.is_empty() && token.chars().count() <= MAX_TOKEN_CHARS, "{token:?}");
        assert!(!token.contains(char::is_whitespace) && !token.contains(char::is_control), "{token:?}");
    }
}

/// Tokens do not cross a line break.
fn stands_alone(before: &str, after: &str) {
    let mut parts = tokens(before);
    parts.extend(tokens(after));
    assert_eq!(tokens(&format!("{before}\n{after}")), parts);
}

fn used_again(first: &str, second: &str, expected: &[String]) {
    let mut analyzer = Analyzer::new();
    analyzer.analyze(first, &mut |_| {});
    let mut all = Vec::new();
    analyzer.analyze(second, &mut |token| all.push(token.to_owned()));
    assert_eq!(all, expected);
}

fn counted(text: &str, all: &[String]) {
    let counts = TermCounts::of(text);
    assert_eq!(usize::try_from(counts.length), Ok(all.len()));
    let distinct: HashSet<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(counts.counts.len(), distinct.len());
}

/// A text is found by itself.
fn found(text: &str, all: &[String]) {
    let terms = query_terms(text);
    assert_eq!(terms.is_empty(), all.is_empty());
    assert!(terms.len() <= MAX_QUERY_TERMS);
    let distinct: HashSet<&String> = terms.iter().collect();
    assert_eq!(distinct.len(), terms.len());
    assert!(terms.iter().all(|term| all.contains(term)), "{terms:?} of {all:?}");
    let mut index = LexicalIndex::new();
    index.insert(0, text, None);
    let hits = index.search(text, |_| true, 1);
    assert_eq!(hits.len(), usize::from(!all.is_empty()));
    assert!(hits.iter().all(|hit| hit.bm25 > 0.0 && hit.score > 0.0 && hit.score <= 1.0));
}
