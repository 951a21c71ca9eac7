//! One run of letters and digits.

use unicode_normalization::char::is_combining_mark;

use super::character::{Class, fold_into};
use super::output::Output;

/// A folded run of letters and digits, with the positions where it may be split.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) text: String,
    pub(super) chars: usize,
    splits: Vec<Split>,
    pub(super) last: Option<Class>,
    /// Byte offset of the last character.
    last_start: usize,
    /// Upper-case letters at the end.
    capitals: usize,
    /// Byte offset of the first apostrophe.
    apostrophe: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    at: usize,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// `authService`, `O'Brien`.
    Word,
    /// `HTTPServer`: before the last capital.
    Acronym,
    /// Between letters and digits.
    Digit,
}

impl Run {
    pub(super) fn is_empty(&self) -> bool {
        self.chars == 0
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.chars = 0;
        self.splits.clear();
        self.last = None;
        self.last_start = 0;
        self.capitals = 0;
        self.apostrophe = None;
    }

    pub(super) fn push(&mut self, c: char, class: Class) {
        let at = self.text.len();
        if let Some(last) = self.last
            && last != class
        {
            match (last, class) {
                (Class::Digit, Class::Letter) if is_combining_mark(c) => {}
                (Class::Digit, _) | (_, Class::Digit) => self.split(at, Why::Digit),
                (_, Class::Upper) => self.split(at, Why::Word),
                (Class::Upper, Class::Lower) if self.capitals > 1 => {
                    self.split(self.last_start, Why::Acronym);
                }
                _ => {}
            }
        }
        self.capitals = if class == Class::Upper { self.capitals + 1 } else { 0 };
        self.last = Some(class);
        self.last_start = at;
        fold_into(c, &mut self.text);
        self.chars += if c.is_ascii() { 1 } else { self.text.get(at..).unwrap_or_default().chars().count() };
    }

    fn split(&mut self, at: usize, why: Why) {
        if at > 0 && self.splits.last().is_none_or(|last| last.at < at) {
            self.splits.push(Split { at, why });
        }
    }

    pub(super) fn mark_apostrophe(&mut self) {
        let at = self.text.len();
        self.apostrophe.get_or_insert(at);
        self.split(at, Why::Word);
        // The capital of `O'Brien` starts a word already.
        self.capitals = 0;
        self.last = None;
    }

    /// `Ann's`, `they're`: the word before the apostrophe; `don't`: one word.
    pub(super) fn trim_contraction(&mut self) {
        let Some(at) = self.apostrophe.take() else { return };
        let Some(ending) = self.text.get(at..) else { return };
        match ending {
            "s" | "m" | "d" | "re" | "ve" | "ll" => {
                self.chars -= ending.len();
                self.text.truncate(at);
                self.splits.retain(|split| split.at < at);
            }
            "t" => self.splits.retain(|split| split.at < at),
            _ => {}
        }
    }

    pub(super) fn emit<F: FnMut(&str)>(&mut self, out: &mut Output<'_, F>) {
        out.emit(&self.text);
        if self.splits.is_empty() {
            return;
        }
        // `URLs`: the plural of an acronym, not `UR` and `Ls`.
        if let Some(last) = self.splits.last()
            && last.why == Why::Acronym
            && self.text.get(last.at..).is_some_and(|piece| piece.len() == 2 && piece.ends_with('s'))
        {
            self.splits.pop();
        }
        if !self.digits_stand_alone() {
            self.splits.retain(|split| split.why != Why::Digit);
        }
        if self.splits.is_empty() {
            return;
        }
        let mut from = 0;
        for to in self.splits.iter().map(|split| split.at).chain([self.text.len()]) {
            out.emit(self.text.get(from..to).unwrap_or_default());
            from = to;
        }
    }

    /// Whether each piece of letters next to digits has at least two letters: `user42`, but not `4o`, `v1` or `e29b`.
    fn digits_stand_alone(&self) -> bool {
        let mut from = Split { at: 0, why: Why::Word };
        let end = Split { at: self.text.len(), why: Why::Word };
        for &to in self.splits.iter().chain([&end]) {
            let piece = self.text.get(from.at..to.at).unwrap_or_default();
            let mut chars = piece.chars();
            let lone = chars.next().is_some_and(|c| !c.is_ascii_digit()) && chars.next().is_none();
            if lone && (from.why == Why::Digit || to.why == Why::Digit) {
                return false;
            }
            from = to;
        }
        true
    }

    /// `C#`, `C++`: the run including the sign.
    pub(super) fn emit_signed<F: FnMut(&str)>(&mut self, sign: &str, out: &mut Output<'_, F>) {
        let length = self.text.len();
        self.text.push_str(sign);
        out.emit(&self.text);
        self.text.truncate(length);
    }
}
