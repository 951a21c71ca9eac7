//! `trim`, `instr`, `replace`, and `unhex` with two or three arguments, in linear time.

use std::collections::HashSet;

use memchr::memmem;
use rusqlite::types::ValueRef;

use super::call::{Call, Function, Outcome};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "trim", arguments: 2, run: |call| trim(call, true, true) },
    Function { name: "ltrim", arguments: 2, run: |call| trim(call, true, false) },
    Function { name: "rtrim", arguments: 2, run: |call| trim(call, false, true) },
    Function { name: "instr", arguments: 2, run: instr },
    Function { name: "replace", arguments: 3, run: replace },
    Function { name: "unhex", arguments: 2, run: unhex },
];

/// Longest character in bytes. In invalid UTF-8, SQLite sees longer ones, which are never trimmed here.
const CHARACTER: usize = 4;

fn trim(call: &Call<'_>, left: bool, right: bool) -> Outcome {
    let (Some(mut text), Some(set)) = (call.text(0), call.text(1)) else { return Outcome::Null };
    let set = Set::of(set);
    while left
        && let Some(rest) = (1..=CHARACTER).find_map(|length| {
            let (first, rest) = text.split_at_checked(length)?;
            set.contains(first).then_some(rest)
        })
    {
        text = rest;
    }
    while right
        && let Some(rest) = (1..=CHARACTER).find_map(|length| {
            let (rest, last) = text.split_at_checked(text.len().checked_sub(length)?)?;
            set.contains(last).then_some(rest)
        })
    {
        text = rest;
    }
    Outcome::Text(text.to_vec())
}

/// A set of characters.
struct Set<'a> {
    bytes: [bool; 256],
    longer: HashSet<&'a [u8]>,
}

impl<'a> Set<'a> {
    fn of(text: &'a [u8]) -> Self {
        let mut set = Self { bytes: [false; 256], longer: HashSet::new() };
        for character in characters(text) {
            match character {
                [byte] => {
                    if let Some(known) = set.bytes.get_mut(usize::from(*byte)) {
                        *known = true;
                    }
                }
                longer if longer.len() <= CHARACTER => {
                    set.longer.insert(longer);
                }
                _ => {}
            }
        }
        set
    }

    fn contains(&self, character: &[u8]) -> bool {
        match character {
            [byte] => self.bytes.get(usize::from(*byte)).is_some_and(|known| *known),
            longer => !self.longer.is_empty() && self.longer.contains(longer),
        }
    }
}

/// Characters as SQLite skips them: a first byte and its continuation bytes.
fn characters(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let more = if first < 0xc0 { 0 } else { continuations(rest.get(1..).unwrap_or_default()) };
        let (character, after) = rest.split_at_checked(1 + more)?;
        rest = after;
        Some(character)
    })
}

fn continuations(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_continuation(**byte)).count()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

fn instr(call: &Call<'_>) -> Outcome {
    let found = match (call.value(0), call.value(1)) {
        (ValueRef::Null, _) | (_, ValueRef::Null) => return Outcome::Null,
        (ValueRef::Blob(text), ValueRef::Blob(part)) => memmem::find(text, part),
        _ => {
            let (Some(text), Some(part)) = (call.text(0), call.text(1)) else { return Outcome::Null };
            memmem::find(text, part).map(|at| {
                text.get(..at).unwrap_or_default().iter().filter(|byte| !is_continuation(**byte)).count()
            })
        }
    };
    Outcome::Integer(found.and_then(|at| i64::try_from(at + 1).ok()).unwrap_or(0))
}

fn replace(call: &Call<'_>) -> Outcome {
    let (Some(text), Some(old)) = (call.text(0), call.text(1)) else { return Outcome::Null };
    if old.is_empty() {
        return Outcome::Text(text.to_vec());
    }
    let Some(new) = call.text(2) else { return Outcome::Null };
    let longest = call.longest();
    let mut replaced = Vec::with_capacity(text.len());
    let mut after = 0;
    for at in memmem::find_iter(text, old) {
        replaced.extend_from_slice(text.get(after..at).unwrap_or_default());
        replaced.extend_from_slice(new);
        after = at + old.len();
        if replaced.len() > longest {
            return Outcome::TooBig;
        }
    }
    replaced.extend_from_slice(text.get(after..).unwrap_or_default());
    if replaced.len() > longest { Outcome::TooBig } else { Outcome::Text(replaced) }
}

/// Pairs of hexadecimal digits, between which the characters of the second argument may occur.
fn unhex(call: &Call<'_>) -> Outcome {
    let (Some(text), Some(between)) = (call.text(0), call.text(1)) else { return Outcome::Null };
    let between = Set::of(between);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for character in characters(text) {
        let digit = match character {
            [byte] => char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()),
            _ => None,
        };
        match (digit, high) {
            (Some(digit), None) => high = Some(digit),
            (Some(digit), Some(first)) => {
                bytes.push(first << 4 | digit);
                high = None;
            }
            (None, None) if between.contains(character) => {}
            (None, _) => return Outcome::Null,
        }
    }
    if high.is_some() { Outcome::Null } else { Outcome::Blob(bytes) }
}
