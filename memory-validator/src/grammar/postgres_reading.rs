//! A text with some phrases replaced: the tokens, and the replacements.

use std::borrow::Cow;

use crate::gate::token::{Kind, Lexed};

/// A text as this grammar can read it.
pub(super) struct Plain {
    pub(super) text: String,
    /// Where each replacement starts and ends in it, and the byte of the original text that it replaces.
    places: Vec<(usize, usize)>,
}

impl Plain {
    /// The byte of the original text that corresponds to a byte of this one.
    pub(super) fn origin(&self, offset: usize) -> usize {
        let next = self.places.partition_point(|(at, _)| *at <= offset);
        let (at, origin) = next.checked_sub(1).and_then(|last| self.places.get(last)).unwrap_or(&(0, 0));
        let end = self.places.get(next).map_or(usize::MAX, |(_, origin)| *origin);
        (origin + (offset - at)).min(end)
    }
}

/// A run of tokens, and its replacement.
struct Place {
    from: usize,
    to: usize,
    text: Cow<'static, str>,
}

pub(super) struct Reading<'l, 'a> {
    pub(super) lexed: &'l Lexed<'a>,
    /// Tokens without the last semicolons.
    pub(super) ends: usize,
    places: Vec<Place>,
}

impl<'l, 'a> Reading<'l, 'a> {
    pub(super) fn new(lexed: &'l Lexed<'a>) -> Option<Self> {
        let ends = lexed.tokens.iter().rposition(|token| token.kind != Kind::Semicolon)? + 1;
        Some(Self { lexed, ends, places: Vec::new() })
    }

    /// The text of a token; empty beyond the end.
    pub(super) fn text(&self, at: usize) -> &'a str {
        self.lexed.at(at).map_or("", |token| self.lexed.text(token))
    }

    pub(super) fn one_of(&self, at: usize, words: &[&str]) -> bool {
        at < self.ends && self.lexed.is_one_of(at, words)
    }

    /// Whether the token before one is one of these bare words.
    pub(super) fn after(&self, at: usize, words: &[&str]) -> bool {
        at > 0 && self.one_of(at - 1, words)
    }

    pub(super) fn after_kind(&self, at: usize, kinds: &[Kind]) -> bool {
        at > 0 && kinds.iter().any(|kind| self.lexed.is(at - 1, *kind))
    }

    pub(super) fn mark(&self, at: usize, mark: &str) -> bool {
        at < self.ends
            && self.lexed.at(at).is_some_and(|token| {
                !matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Text | Kind::Blob)
                    && self.lexed.text(token) == mark
            })
    }

    pub(super) fn name(&self, at: usize) -> bool {
        at < self.ends && (self.lexed.is(at, Kind::Word) || self.lexed.is(at, Kind::Quoted))
    }

    pub(super) fn literal(&self, at: usize) -> bool {
        at < self.ends
            && (self.lexed.is(at, Kind::Text)
                || self.lexed.is(at, Kind::Number)
                || self.lexed.is(at, Kind::Parameter)
                || self.one_of(at, &["true", "false", "null"]))
    }

    /// How many tokens match a phrase of words, with `a|b` for alternatives and `?a` for an optional one.
    pub(super) fn words(&self, at: usize, phrase: &str) -> Option<usize> {
        let mut here = at;
        for words in phrase.split_whitespace() {
            let (words, may_lack) = words.strip_prefix('?').map_or((words, false), |words| (words, true));
            if words.split('|').any(|word| self.one_of(here, &[word])) {
                here += 1;
            } else if !may_lack {
                return None;
            }
        }
        Some(here - at)
    }

    /// Replaces `length` tokens with a text, and returns that number. If it is 0, the text is inserted before the
    /// token.
    pub(super) fn put(&mut self, from: usize, length: usize, text: impl Into<Cow<'static, str>>) -> usize {
        self.places.push(Place { from, to: from + length, text: text.into() });
        length
    }

    /// The bracket that closes the one opened here.
    pub(super) fn close(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (open..self.ends).find(|at| {
            if self.lexed.is(*at, Kind::Open) {
                depth += 1;
            } else if self.lexed.is(*at, Kind::Close) {
                depth = depth.saturating_sub(1);
            }
            depth == 0
        })
    }

    /// The tokens between a bracket and the one that closes it, without those in nested brackets.
    pub(super) fn inside(&self, open: usize) -> Vec<usize> {
        let mut depth = 0_usize;
        let mut inside = Vec::new();
        for at in open..self.ends {
            if self.lexed.is(at, Kind::Close) {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return inside;
                }
            }
            if depth == 1 {
                inside.push(at);
            }
            if self.lexed.is(at, Kind::Open) {
                depth += 1;
            }
        }
        Vec::new()
    }

    /// The length of `(a, b, c)`.
    pub(super) fn names(&self, open: usize) -> Option<usize> {
        let mut at = open;
        if !self.mark(at, "(") {
            return None;
        }
        loop {
            if !self.name(at + 1) {
                return None;
            }
            at += 2;
            if self.mark(at, ")") {
                return Some(at + 1 - open);
            }
            if !self.mark(at, ",") {
                return None;
            }
        }
    }

    pub(super) fn follows_place(&self, at: usize) -> bool {
        self.places.last().is_some_and(|place| place.to == at)
    }

    /// The text with its phrases replaced, if there are any.
    pub(super) fn plain(mut self) -> Option<Plain> {
        if self.places.is_empty() {
            return None;
        }
        let sql = self.lexed.sql;
        let offset = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        let mut plain = Plain { text: String::with_capacity(sql.len()), places: Vec::new() };
        let mut read = 0;
        self.places.sort_by_key(|place| (place.from, place.to));
        for place in &self.places {
            let (first, last) = (self.lexed.at(place.from), self.lexed.at(place.to.saturating_sub(1)));
            let (Some(first), Some(last)) = (first, last) else { continue };
            let end = if place.from == place.to { first.start } else { last.end };
            // A replacement inside another phrase disappears with it.
            let Some(before) = sql.get(read..offset(first.start)) else { continue };
            plain.text.push_str(before);
            plain.places.push((plain.text.len(), offset(first.start)));
            plain.text.extend([" ", place.text.as_ref(), " "]);
            read = offset(end);
            plain.places.push((plain.text.len(), read));
        }
        plain.text.push_str(sql.get(read..).unwrap_or_default());
        Some(plain)
    }
}
