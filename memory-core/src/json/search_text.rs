//! The words of a JSON value, for a full-text index.

use super::Json;
use super::scan::{Scanner, Token};
use super::string::{Piece, pieces};

/// Appends to `out` under a byte budget, with one space between entries.
struct Writer<'a> {
    out: &'a mut String,
    left: usize,
    first: bool,
    gap: bool,
}

impl Writer<'_> {
    /// Writes as much of `text` as fits; false once the budget is used up.
    fn push(&mut self, text: &str) -> bool {
        if text.is_empty() {
            return true;
        }
        let gap = usize::from(self.gap);
        let fits = floor_char_boundary(text, self.left.saturating_sub(gap));
        let Some(head) = text.get(..fits).filter(|head| !head.is_empty()) else {
            self.left = 0;
            return false;
        };
        if self.gap {
            self.out.push(' ');
            self.gap = false;
        }
        self.out.push_str(head);
        self.left -= gap + head.len();
        self.first = false;
        fits == text.len()
    }

    /// A NUL becomes a space, because no store's text column accepts it.
    fn push_string(&mut self, raw: &str) -> bool {
        self.gap = !self.first;
        pieces(raw).all(|piece| match piece {
            Piece::Text(text) => self.push(text),
            Piece::Char('\0') => self.push(" "),
            Piece::Char(character) => self.push(character.encode_utf8(&mut [0; 4])),
        })
    }

    /// Writes the whole number or nothing: half of it would be a different number.
    fn push_number(&mut self, text: &str) -> bool {
        self.gap = !self.first;
        text.len() + usize::from(self.gap) <= self.left && self.push(text)
    }
}

fn floor_char_boundary(text: &str, limit: usize) -> usize {
    if limit >= text.len() {
        return text.len();
    }
    (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

pub(super) fn write(json: &Json, out: &mut String, max_bytes: usize) {
    let text = json.as_str();
    let mut writer = Writer { out, left: max_bytes, first: true, gap: false };
    for event in Scanner::new(text).map_while(Result::ok) {
        let raw = text.get(event.start..event.end).unwrap_or_default();
        let more = match event.token {
            Token::Key | Token::String => writer.push_string(raw),
            Token::Number => writer.push_number(raw),
            _ => true,
        };
        if !more {
            return;
        }
    }
}
