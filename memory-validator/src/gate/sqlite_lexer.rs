//! SQLite's lexer, rule by rule as in its `tokenize.c`.

use super::characters::hidden;
use super::keywords::SQLITE;
use super::token::{Kind, Lexed, Role, Token};
use super::too_many_tokens;
use crate::policy::{Dialect, Limits};
use crate::verdict::{Position, Refusal, Stage};

/// A character that SQLite takes for a space at the start of a token.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Cuts a text.
pub(crate) fn lex<'a>(sql: &'a str, limits: &Limits) -> Lexed<'a> {
    let mut lexed = Lexed {
        sql,
        dialect: Dialect::Sqlite,
        tokens: Vec::with_capacity((sql.len() / 4).min(limits.tokens).saturating_add(1)),
        over: None,
        fault: None,
    };
    let bytes = sql.as_bytes();
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        // The engine stops at a NUL, but a parser does not.
        lexed.over = Some(character(sql, at, '\0'));
        return lexed;
    }
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let (kind, length) = next(rest);
        let end = at + length.max(1);
        if let Some(kind) = kind {
            if lexed.tokens.len() >= limits.tokens {
                lexed.over = Some(too_many_tokens(sql, at, limits));
                return lexed;
            }
            push(&mut lexed, kind, at, end);
        } else if rest.starts_with(BYTE_ORDER_MARK) && lexed.fault.is_none() {
            lexed.fault = Some(character(sql, at, '\u{feff}'));
        }
        at = end;
    }
    lexed
}

fn push(lexed: &mut Lexed<'_>, kind: Kind, start: usize, end: usize) {
    let text = lexed.sql.as_bytes().get(start..end).unwrap_or_default();
    let role = if kind == Kind::Word { SQLITE.role(text) } else { Role::None };
    if lexed.fault.is_none() {
        lexed.fault = match kind {
            Kind::Word if !text.is_ascii() => odd(lexed.sql, start, end),
            Kind::Illegal => {
                Some(odd(lexed.sql, start, end).unwrap_or_else(|| illegal(lexed.sql, start, end)))
            }
            Kind::Parameter if !numbered(text) => Some(parameter(lexed.sql, start, end)),
            _ => None,
        };
    }
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    lexed.tokens.push(Token { kind, role, start: offset(start), end: offset(end) });
}

/// The kind and length of the first token; no kind for a space or comment. The text has no NUL.
fn next(text: &[u8]) -> (Option<Kind>, usize) {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    match byte(0) {
        b' ' | b'\t' | b'\n' | 0x0c | b'\r' => (None, count(text, 1, is_space)),
        b'-' => match byte(1) {
            b'-' => (None, count(text, 2, |byte| byte != b'\n')),
            b'>' if byte(2) == b'>' => (Some(Kind::Operator), 3),
            b'>' => (Some(Kind::Operator), 2),
            _ => (Some(Kind::Operator), 1),
        },
        b'/' if byte(1) == b'*' && text.len() > 2 => (None, comment(text)),
        b'(' => (Some(Kind::Open), 1),
        b')' => (Some(Kind::Close), 1),
        b';' => (Some(Kind::Semicolon), 1),
        b',' => (Some(Kind::Comma), 1),
        b'/' | b'+' | b'*' | b'%' | b'&' | b'~' => (Some(Kind::Operator), 1),
        b'=' => (Some(Kind::Operator), 1 + usize::from(byte(1) == b'=')),
        b'<' => (Some(Kind::Operator), 1 + usize::from(matches!(byte(1), b'=' | b'>' | b'<'))),
        b'>' => (Some(Kind::Operator), 1 + usize::from(matches!(byte(1), b'=' | b'>'))),
        b'!' if byte(1) == b'=' => (Some(Kind::Operator), 2),
        b'|' => (Some(Kind::Operator), 1 + usize::from(byte(1) == b'|')),
        quote @ (b'\'' | b'"' | b'`') => quoted(text, quote),
        b'.' if !byte(1).is_ascii_digit() => (Some(Kind::Dot), 1),
        b'.' | b'0'..=b'9' => number(text),
        b'[' => match text.iter().position(|byte| *byte == b']') {
            Some(at) => (Some(Kind::Quoted), at + 1),
            None => (Some(Kind::Illegal), text.len()),
        },
        b'?' => (Some(Kind::Parameter), count(text, 1, |byte| byte.is_ascii_digit())),
        b'$' | b'@' | b'#' | b':' => named_parameter(text),
        b'x' | b'X' if byte(1) == b'\'' => blob(text),
        0xef if text.starts_with(BYTE_ORDER_MARK) => (None, BYTE_ORDER_MARK.len()),
        first if is_id(first) => (Some(Kind::Word), count(text, 1, is_id)),
        _ => (Some(Kind::Illegal), 1),
    }
}

/// The length of `text` up to the first byte, from `from` on, that does not belong.
fn count(text: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let tail = text.get(from..).unwrap_or_default();
    from.min(text.len()) + tail.iter().position(|byte| !belongs(*byte)).unwrap_or(tail.len())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0c | b'\r')
}

/// Characters of an identifier. The first may not be a digit or `$`.
fn is_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

/// A comment goes to the first `*/`, or to the end.
fn comment(text: &[u8]) -> usize {
    let inner = text.get(2..).unwrap_or_default();
    inner.windows(2).position(|pair| pair == b"*/").map_or(text.len(), |at| at + 4)
}

fn quoted(text: &[u8], quote: u8) -> (Option<Kind>, usize) {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        if *byte == quote {
            if text.get(at + 1) != Some(&quote) {
                return (Some(if quote == b'\'' { Kind::Text } else { Kind::Quoted }), at + 1);
            }
            at += 1;
        }
        at += 1;
    }
    (Some(Kind::Illegal), text.len())
}

fn number(text: &[u8]) -> (Option<Kind>, usize) {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let digits = |from: usize| count(text, from, |byte| byte.is_ascii_digit() || byte == b'_');
    let mut end = if byte(0) == b'0' && matches!(byte(1), b'x' | b'X') && byte(2).is_ascii_hexdigit() {
        count(text, 3, |byte| byte.is_ascii_hexdigit() || byte == b'_')
    } else {
        let mut end = digits(0);
        if byte(end) == b'.' {
            end = digits(end + 1);
        }
        if matches!(byte(end), b'e' | b'E') {
            let sign = usize::from(matches!(byte(end + 1), b'+' | b'-'));
            if byte(end + 1 + sign).is_ascii_digit() {
                end = digits(end + 2);
            }
        }
        end
    };
    let mut kind = Kind::Number;
    if is_id(byte(end)) {
        kind = Kind::Illegal;
        end = count(text, end, is_id);
    }
    (Some(kind), end)
}

/// `$name`, `@name`, `:name`, with the `::` and `(…)` of Tcl.
fn named_parameter(text: &[u8]) -> (Option<Kind>, usize) {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let (mut at, mut letters) = (1, 0usize);
    while at < text.len() {
        if is_id(byte(at)) {
            letters += 1;
        } else if byte(at) == b'(' && letters > 0 {
            let end = count(text, at + 1, |byte| !is_space(byte) && byte != b')');
            return match byte(end) {
                b')' => (Some(Kind::Parameter), end + 1),
                _ => (Some(Kind::Illegal), end),
            };
        } else if byte(at) == b':' && byte(at + 1) == b':' {
            at += 1;
        } else {
            break;
        }
        at += 1;
    }
    (Some(if letters == 0 { Kind::Illegal } else { Kind::Parameter }), at.min(text.len()))
}

fn blob(text: &[u8]) -> (Option<Kind>, usize) {
    let end = count(text, 2, |byte| byte.is_ascii_hexdigit());
    if text.get(end) == Some(&b'\'') && end % 2 == 0 {
        return (Some(Kind::Blob), end + 1);
    }
    let end = count(text, end, |byte| byte != b'\'');
    (Some(Kind::Illegal), (end + 1).min(text.len()))
}

/// `?`, `?2`, `$2`: positional arguments.
fn numbered(text: &[u8]) -> bool {
    match text.split_first() {
        Some((b'?', digits)) => digits.iter().all(u8::is_ascii_digit),
        Some((b'$', digits)) => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn character(sql: &str, at: usize, character: char) -> Refusal {
    let what = hidden(character).unwrap_or("an odd character");
    Refusal::new(Stage::Gate, "character", Position::of(sql, at), format!("U+{:04X}", u32::from(character)))
        .because(format!("the text contains {what}"))
        .instead("leave it out; inside a value pass it as an argument")
}

/// An invisible first character of a token.
fn odd(sql: &str, start: usize, end: usize) -> Option<Refusal> {
    let text = sql.get(start..end)?;
    let (at, found) = text.char_indices().find(|(_, found)| hidden(*found).is_some())?;
    Some(character(sql, start + at, found))
}

fn illegal(sql: &str, start: usize, end: usize) -> Refusal {
    let first = sql.get(start..end).and_then(|text| text.chars().next()).unwrap_or(' ');
    let why = match first {
        '\'' => "a text literal is not closed",
        '"' | '`' | '[' => "a quoted name does not end",
        'x' | 'X' => "a literal of bytes needs pairs of hexadecimal digits",
        '0'..='9' | '.' => "a number runs into letters",
        _ => "no token starts like this",
    };
    Refusal::new(Stage::Gate, "token", Position::of(sql, start), first.to_string())
        .because(why)
        .instead("close every quote, and double a quote inside a literal")
}

fn parameter(sql: &str, start: usize, end: usize) -> Refusal {
    let text: String = sql.get(start..end).unwrap_or_default().chars().take(32).collect();
    Refusal::new(Stage::Gate, "parameter", Position::of(sql, start), text)
        .because("named arguments are not supported")
        .instead("write `?`, `?1` or `$1`")
}
