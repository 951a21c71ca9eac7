//! `trim`, `instr`, `replace`, `unhex` of two and three arguments, in linear time.

use std::collections::HashSet;

use memchr::memmem;
use rusqlite::types::ValueRef;

use crate::sandbox::callback::{Call, Function, Outcome};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "trim", arguments: 2, run: |call| trim(call, true, true) },
    Function { name: "ltrim", arguments: 2, run: |call| trim(call, true, false) },
    Function { name: "rtrim", arguments: 2, run: |call| trim(call, false, true) },
    Function { name: "instr", arguments: 2, run: instr },
    Function { name: "replace", arguments: 3, run: replace },
    Function { name: "unhex", arguments: 2, run: unhex },
];

/// Longest character: text that is not UTF-8 may have longer ones to SQLite, which are never trimmed here.
const CHARACTER: usize = 4;

fn trim(call: &Call<'_>, left: bool, right: bool) -> Outcome {
    let (Some(mut text), Some(set)) = (call.text(0), call.text(1)) else { return Outcome::Null };
    let set: HashSet<&[u8]> = characters(set).filter(|found| found.len() <= CHARACTER).collect();
    let ends_with = |lengths: &mut dyn FnMut(usize) -> Option<(usize, bool)>| {
        (1..=CHARACTER).filter_map(lengths).find(|(_, known)| *known).map(|(length, _)| length)
    };
    while left
        && let Some(length) =
            ends_with(&mut |length| text.get(..length).map(|found| (length, set.contains(found))))
    {
        text = text.get(length..).unwrap_or_default();
    }
    while right
        && let Some(length) = ends_with(&mut |length| {
            let at = text.len().checked_sub(length)?;
            text.get(at..).map(|found| (length, set.contains(found)))
        })
    {
        text = text.get(..text.len() - length).unwrap_or_default();
    }
    Outcome::Text(text.to_vec())
}

/// Characters as SQLite skips them: a first byte and the continuation bytes behind it.
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
        return Outcome::Argument(0);
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

/// Pairs of hexadecimal digits, between which the characters of the second argument may stand.
fn unhex(call: &Call<'_>) -> Outcome {
    let (Some(text), Some(between)) = (call.text(0), call.text(1)) else { return Outcome::Null };
    let between: HashSet<&[u8]> = characters(between).collect();
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
