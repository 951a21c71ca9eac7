//! The index of a scope, compared with a scan of every document.
//!
//! A line is an operation: `+KEY TEXT` inserts, `@KEY MILLIS TEXT` inserts what expires, `~KEY MILLIS` changes when
//! (`~KEY` alone: never), `-KEY` removes, `!MILLIS` expires, `*KEY N` inserts and removes N times, `#` compacts, `0`
//! clears, `?LIMIT TEXT` searches; a key is the character after the sign.

use std::collections::BTreeMap;

use memory_core::lexical::{LexicalIndex, rank, tokens};

const MAX_OPERATIONS: usize = 200;
const MAX_CHURN: usize = 600;

#[derive(Default)]
struct Pair {
    index: LexicalIndex<char>,
    /// Text and expiry of live documents.
    documents: BTreeMap<char, (String, Option<i64>)>,
}

/// Tries one sequence of operations.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut pair = Pair::default();
    for line in text.lines().take(MAX_OPERATIONS) {
        let mut characters = line.chars();
        let (sign, rest) = (characters.next(), characters.as_str());
        match sign {
            Some('!') => pair.expire(rest.trim().parse().unwrap_or(0)),
            Some('#') => pair.index.compact(),
            Some('0') => {
                pair.index.clear();
                pair.documents.clear();
            }
            Some('?') => {
                let (limit, query) = rest.split_once(' ').unwrap_or(("10", rest));
                pair.search(query, limit.parse().unwrap_or(10));
            }
            Some(sign @ ('+' | '@' | '~' | '-' | '*')) => {
                let Some(key) = characters.next() else { continue };
                pair.change(sign, key, characters.as_str().trim_start_matches(' '));
            }
            _ => {}
        }
        pair.compare();
    }
    pair.search("ann lisbon", 3);
    pair.search(&text, 100);
}

impl Pair {
    fn change(&mut self, sign: char, key: char, rest: &str) {
        let known = self.documents.contains_key(&key);
        match sign {
            '+' => self.insert(key, rest, None),
            '@' => {
                let (at, text) = rest.split_once(' ').unwrap_or((rest, ""));
                self.insert(key, text, at.parse().ok());
            }
            '~' => {
                let at = rest.parse().ok();
                assert_eq!(self.index.set_expiry(&key, at), known);
                if let Some((_, expiry)) = self.documents.get_mut(&key) {
                    *expiry = at;
                }
            }
            '-' => {
                assert_eq!(self.index.remove(&key), known);
                self.documents.remove(&key);
            }
            _ => {
                let (times, text) = rest.split_once(' ').unwrap_or((rest, "churned"));
                for _ in 0..times.parse().unwrap_or(0).min(MAX_CHURN) {
                    self.index.insert(key, text, None);
                    self.index.remove(&key);
                    self.documents.remove(&key);
                }
            }
        }
    }

    fn insert(&mut self, key: char, text: &str, expiry: Option<i64>) {
        self.index.insert(key, text, expiry);
        self.documents.insert(key, (text.to_owned(), expiry));
    }

    fn expire(&mut self, now: i64) {
        let before = self.documents.len();
        self.documents.retain(|_, (_, expiry)| expiry.is_none_or(|at| at > now));
        assert_eq!(self.index.expire(now), before - self.documents.len());
    }

    fn compare(&self) {
        assert_eq!(self.index.len(), self.documents.len());
        assert_eq!(self.index.is_empty(), self.documents.is_empty());
        assert!(self.documents.keys().all(|key| self.index.contains(key)));
        assert_eq!(self.index.next_expiry(), self.documents.values().filter_map(|(_, at)| *at).min());
        let all: usize = self.documents.values().map(|(text, _)| tokens(text).len()).sum();
        assert_eq!(usize::try_from(self.index.tokens()), Ok(all));
    }

    fn search(&self, query: &str, limit: usize) {
        let documents = || self.documents.iter().map(|(key, (text, _))| (*key, text));
        let odd = |key: &char| u32::from(*key) % 2 == 1;
        let hits = self.index.search(query, |_| true, limit);
        // Exactly equal: a score must not depend on which of the two computed it.
        assert_eq!(hits, rank(query, documents(), |_| true, limit));
        assert_eq!(self.index.search(query, odd, limit), rank(query, documents(), odd, limit));
        assert!(hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
        for token in tokens(query).into_iter().take(8) {
            let having = documents().filter(|(_, text)| tokens(text).contains(&token)).count();
            assert_eq!(usize::try_from(self.index.document_frequency(&token)), Ok(having));
        }
    }
}
