//! One spelling for all texts with the same meaning.

use super::scan::{Scanner, Token};
use super::string::{Piece, pieces};
use super::{Json, JsonError};
use sha2::{Digest, Sha256};

/// Whether two values mean the same.
///
/// # Behavior
/// - Objects are equal if they have equal members, in any order; of members with the same name the last counts.
/// - Arrays are equal if they have equal elements in the same order.
/// - Strings are equal by decoded content: `"\u0061"` equals `"a"`. No Unicode normalisation.
/// - Numbers are equal by exact decimal value, without floating point: `1`, `1.0` and `10e-1` are equal, `-0` equals
///   `0`, `9007199254740993` differs from `9007199254740992`. Exponents of any size cost only their length.
/// - Time and memory are proportional to the texts, times the depth at worst.
pub fn semantic_eq(a: &Json, b: &Json) -> bool {
    a == b || (a.kind() == b.kind() && a.canonical_bytes() == b.canonical_bytes())
}

impl Json {
    /// The canonical spelling: two values have equal bytes if and only if they are [`semantic_eq`].
    ///
    /// The bytes are JSON: no white space, members sorted by name without duplicates, only `"`, `\` and control
    /// characters escaped, numbers as `-?digits(e-?digits)?` without insignificant zeros (`1200` is `12e2`). This is
    /// not RFC 8785, which rounds numbers to doubles.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len_bytes());
        write(self.as_str(), &mut out);
        out
    }

    /// SHA-256 of [`canonical_bytes`](Self::canonical_bytes): equal for values that mean the same, stable across
    /// processes and releases.
    pub fn canonical_hash(&self) -> [u8; 32] {
        Sha256::digest(self.canonical_bytes()).into()
    }
}

/// The position of a member of an open object in the output.
#[derive(Debug, Clone, Copy)]
struct Member {
    start: usize,
    key_end: usize,
    end: usize,
}

/// An open container; `members` stays empty for an array.
#[derive(Debug)]
struct Frame {
    start: usize,
    members: Vec<Member>,
}

/// Appends the canonical spelling of `text`, which must be valid.
pub(crate) fn write(text: &str, out: &mut Vec<u8>) {
    let result = try_write(text, out);
    debug_assert!(result.is_ok(), "canonical form of a text that was never validated");
}

fn try_write(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut scratch = Vec::new();
    let mut first = true;
    for event in Scanner::new(text) {
        let event = event?;
        let raw = text.get(event.start..event.end).unwrap_or_default();
        let closes = matches!(event.token, Token::ObjectEnd | Token::ArrayEnd);
        let follows_key = out.last() == Some(&b':');
        if !first && !closes && !follows_key {
            out.push(b',');
        }
        first = false;
        match event.token {
            Token::ObjectStart | Token::ArrayStart => {
                out.push(if event.token == Token::ObjectStart { b'{' } else { b'[' });
                frames.push(Frame { start: out.len(), members: Vec::new() });
                first = true;
            }
            Token::ArrayEnd => {
                frames.pop();
                out.push(b']');
            }
            Token::ObjectEnd => {
                if let Some(mut frame) = frames.pop() {
                    sort_members(&mut frame, out, &mut scratch);
                }
                out.push(b'}');
            }
            Token::Key => {
                let start = out.len();
                write_string(raw, out);
                if let Some(frame) = frames.last_mut() {
                    frame.members.push(Member { start, key_end: out.len(), end: out.len() });
                }
                out.push(b':');
            }
            Token::String => write_string(raw, out),
            Token::Number => write_number(raw, out),
            Token::True | Token::False | Token::Null => out.extend_from_slice(raw.as_bytes()),
        }
        let value_is_complete = !matches!(event.token, Token::ObjectStart | Token::ArrayStart | Token::Key);
        if let Some(member) = frames.last_mut().and_then(|frame| frame.members.last_mut())
            && value_is_complete
        {
            member.end = out.len();
        }
    }
    Ok(())
}

/// Sorts the members of the object at the end of `out` by name, and keeps the last of each name.
fn sort_members(frame: &mut Frame, out: &mut Vec<u8>, scratch: &mut Vec<u8>) {
    let bytes = |start: usize, end: usize| out.get(start..end).unwrap_or_default();
    let key = |member: &Member| bytes(member.start, member.key_end);
    if frame.members.is_sorted_by(|a, b| key(a) < key(b)) {
        return;
    }
    frame.members.sort_by(|a, b| key(a).cmp(key(b)));
    scratch.clear();
    let mut members = frame.members.iter().peekable();
    while let Some(member) = members.next() {
        if members.peek().is_some_and(|next| key(next) == key(member)) {
            continue;
        }
        if !scratch.is_empty() {
            scratch.push(b',');
        }
        scratch.extend_from_slice(bytes(member.start, member.end));
    }
    out.truncate(frame.start);
    out.extend_from_slice(scratch);
}

fn write_string(raw: &str, out: &mut Vec<u8>) {
    if !raw.contains('\\') {
        out.extend_from_slice(raw.as_bytes());
        return;
    }
    out.push(b'"');
    for piece in pieces(raw) {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Char('"') => out.extend_from_slice(b"\\\""),
            Piece::Char('\\') => out.extend_from_slice(b"\\\\"),
            Piece::Char(control @ ..'\u{20}') => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(control)).as_bytes());
            }
            Piece::Char(character) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    out.push(b'"');
}

/// Writes `digits × 10^exponent` with neither leading nor trailing zeros in `digits`.
fn write_number(raw: &str, out: &mut Vec<u8>) {
    let unsigned = raw.strip_prefix('-').unwrap_or(raw);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, ""));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));

    let start = out.len();
    if raw.len() != unsigned.len() {
        out.push(b'-');
    }
    let digits_start = out.len();
    let whole = whole.trim_start_matches('0');
    out.extend_from_slice(whole.as_bytes());
    let significant = if whole.is_empty() { fraction.trim_start_matches('0') } else { fraction };
    out.extend_from_slice(significant.as_bytes());
    let written = out.len();
    while out.len() > digits_start && out.last() == Some(&b'0') {
        out.pop();
    }
    if out.len() == digits_start {
        out.truncate(start);
        out.push(b'0');
        return;
    }
    let shift = (written - out.len()) as i128 - fraction.len() as i128;
    write_exponent(exponent, shift, out);
}

/// Exponents with more digits are added up digit by digit.
const I128_DIGITS: usize = 36;

/// Writes `e` and the sum of the exponent's text and `shift`, or nothing if the sum is zero.
fn write_exponent(text: &str, shift: i128, out: &mut Vec<u8>) {
    let negative = text.starts_with('-');
    let magnitude = text.trim_start_matches(['+', '-']).trim_start_matches('0');
    if magnitude.len() <= I128_DIGITS {
        let magnitude: i128 = magnitude.parse().unwrap_or(0);
        let sum = if negative { shift - magnitude } else { magnitude + shift };
        if sum != 0 {
            out.extend_from_slice(format!("e{sum}").as_bytes());
        }
        return;
    }
    // The magnitude exceeds any shift (at most the length of a text in memory), so the sign stays.
    out.extend_from_slice(if negative { b"e-" } else { b"e" });
    let mut digits = magnitude.as_bytes().to_vec();
    let mut carry = if negative { -shift } else { shift };
    for digit in digits.iter_mut().rev() {
        if carry == 0 {
            break;
        }
        let sum = i128::from(*digit - b'0') + carry;
        *digit = b'0' + u8::try_from(sum.rem_euclid(10)).unwrap_or(0);
        carry = sum.div_euclid(10);
    }
    if carry != 0 {
        out.extend_from_slice(carry.to_string().as_bytes());
        out.extend_from_slice(&digits);
    } else {
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        out.extend(digits.into_iter().skip(zeros));
    }
}
