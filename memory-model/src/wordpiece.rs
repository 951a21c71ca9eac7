//! The tokens of uncased BERT models (Devlin et al., 2019): lower case, no accents, words split into the longest pieces
//! that the vocabulary has.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// A longer word has no pieces, as in the original.
const MAX_WORD_CHARS: usize = 100;
/// The longest piece of the vocabulary has 18 bytes; no longer ones are tried.
const MAX_PIECE_BYTES: usize = 32;

/// Calls `piece` with each piece of a text for which `known` is true. A piece within a word begins with `##`.
pub(crate) fn pieces(text: &str, known: &dyn Fn(&str) -> bool, piece: &mut dyn FnMut(&str)) {
    let mut word = Word::default();
    for c in text.chars() {
        match class(c) {
            Class::Ignored => {}
            Class::Space => word.end(known, piece),
            Class::Alone => {
                word.end(known, piece);
                word.push(c);
                word.end(known, piece);
            }
            Class::Letter => word.push(c),
        }
    }
    word.end(known, piece);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Space,
    /// A word by itself: punctuation, a Han character.
    Alone,
    Ignored,
}

fn class(c: char) -> Class {
    if c.is_whitespace() {
        return Class::Space;
    }
    if c.is_ascii() {
        return if c.is_ascii_punctuation() {
            Class::Alone
        } else if c.is_ascii_control() {
            Class::Ignored
        } else {
            Class::Letter
        };
    }
    match u32::from(c) {
        0xFFFD | 0x0080..=0x009F | 0x00AD | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFEFF => {
            Class::Ignored
        }
        0xE000..=0xF8FF | 0xE0000..=0x10_FFFF => Class::Ignored,
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0xF900..=0xFAFF | 0x20000..=0x2FA1F => Class::Alone,
        0x00A1 | 0x00A7 | 0x00AB | 0x00B6 | 0x00B7 | 0x00BB | 0x00BF => Class::Alone,
        0x2010..=0x2027 | 0x2030..=0x2043 | 0x2045..=0x2051 | 0x2053..=0x205E => Class::Alone,
        0x3001..=0x3003 | 0x3008..=0x3011 | 0x3014..=0x301F | 0xFF01..=0xFF0F | 0xFF1A | 0xFF1B | 0xFF1F => {
            Class::Alone
        }
        _ => Class::Letter,
    }
}

/// A word being read.
#[derive(Default)]
struct Word {
    raw: String,
    text: String,
    piece: String,
}

impl Word {
    fn push(&mut self, c: char) {
        // A word too long to have pieces is read to its end, but not kept.
        if self.raw.len() <= 8 * MAX_WORD_CHARS {
            self.raw.push(c);
        }
    }

    fn end(&mut self, known: &dyn Fn(&str) -> bool, piece: &mut dyn FnMut(&str)) {
        if self.raw.is_empty() {
            return;
        }
        self.text.clear();
        if self.raw.is_ascii() {
            self.text.push_str(&self.raw);
            self.text.make_ascii_lowercase();
        } else {
            let plain = self.raw.nfd().filter(|c| !is_combining_mark(*c));
            self.text.extend(plain.flat_map(char::to_lowercase));
        }
        self.raw.clear();
        if self.text.chars().count() <= MAX_WORD_CHARS {
            self.split(known, piece);
        }
    }

    /// From the left, always the longest piece; a word with a part that is no piece has none.
    fn split(&mut self, known: &dyn Fn(&str) -> bool, piece: &mut dyn FnMut(&str)) {
        let mut ends = Vec::new();
        let mut start = 0;
        while start < self.text.len() {
            let Some(end) = self.longest(start, known) else { return };
            ends.push(end);
            start = end;
        }
        start = 0;
        for end in ends {
            self.set_piece(start, end);
            piece(&self.piece);
            start = end;
        }
    }

    fn longest(&mut self, start: usize, known: &dyn Fn(&str) -> bool) -> Option<usize> {
        let last = self.text.len().min(start + MAX_PIECE_BYTES);
        (start + 1..=last).rev().find(|end| {
            self.text.is_char_boundary(*end) && {
                self.set_piece(start, *end);
                known(&self.piece)
            }
        })
    }

    fn set_piece(&mut self, start: usize, end: usize) {
        self.piece.clear();
        if start > 0 {
            self.piece.push_str("##");
        }
        self.piece.push_str(self.text.get(start..end).unwrap_or_default());
    }
}
