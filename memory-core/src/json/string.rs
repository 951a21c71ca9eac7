//! Decodes string tokens that the scanner has accepted.

use std::borrow::Cow;

/// A piece of a string's content: a slice of the text, or one character from an escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Char(char),
}

/// The content of a string token (`raw` includes the quotes), piece by piece, without copying.
pub(crate) fn pieces(raw: &str) -> Pieces<'_> {
    let inner = raw.strip_prefix('"').unwrap_or(raw);
    Pieces { rest: inner.strip_suffix('"').unwrap_or(inner) }
}

/// The content of a string token; borrowed if nothing in it is escaped.
pub(crate) fn decode(raw: &str) -> Cow<'_, str> {
    let mut pieces = pieces(raw);
    if !pieces.rest.contains('\\') {
        return Cow::Borrowed(pieces.rest);
    }
    let mut content = String::with_capacity(pieces.rest.len());
    for piece in &mut pieces {
        match piece {
            Piece::Text(text) => content.push_str(text),
            Piece::Char(character) => content.push(character),
        }
    }
    Cow::Owned(content)
}

#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let Some(escape) = self.rest.strip_prefix('\\') else {
            if self.rest.is_empty() {
                return None;
            }
            let (text, rest) = self.rest.split_at(self.rest.find('\\').unwrap_or(self.rest.len()));
            self.rest = rest;
            return Some(Piece::Text(text));
        };
        let mut characters = escape.chars();
        let character = match characters.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (character, rest) = unicode_escape(characters.as_str())?;
                self.rest = rest;
                return Some(Piece::Char(character));
            }
            itself => itself,
        };
        self.rest = characters.as_str();
        Some(Piece::Char(character))
    }
}

/// Reads what follows `\u`: four digits, and the second half of a surrogate pair if needed.
fn unicode_escape(text: &str) -> Option<(char, &str)> {
    let (first, rest) = hex4(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, rest));
    }
    let (second, rest) = hex4(rest.strip_prefix("\\u")?)?;
    let code = 0x1_0000 + (first.checked_sub(0xD800)? << 10) + second.checked_sub(0xDC00)?;
    Some((char::from_u32(code)?, rest))
}

fn hex4(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}
