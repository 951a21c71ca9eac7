//! Reducers on arrays.

use super::{MAX_LIST_LIMIT, Operand, ReduceError, Reduced, require, slice};
use crate::json::scan::Scanner;
use crate::json::{Json, JsonError, JsonKind, kind_of, write_canonical};
use std::collections::VecDeque;

/// Calls `visit` with the bounds of each element of an array.
fn for_each_element(array: &str, mut visit: impl FnMut(usize, usize) -> bool) -> Result<(), JsonError> {
    let mut scanner = Scanner::new(array);
    scanner.next().transpose()?;
    while let Some(event) = scanner.next().transpose()? {
        if event.depth == 0 {
            break;
        }
        let end = scanner.finish_value(event)?;
        if !visit(event.start, end) {
            break;
        }
    }
    Ok(())
}

pub(super) fn append_dedupe(current: Option<&Json>, item: &Json) -> Result<Reduced, ReduceError> {
    let Some(current) = current else { return first_element(item) };
    require(current, JsonKind::Array, Operand::Current)?;
    let array = current.as_str();
    let kind = item.kind();
    let wanted = item.canonical_bytes();
    let mut canonical = Vec::new();
    let mut last_end = None;
    let mut present = false;
    for_each_element(array, |start, end| {
        let element = slice(array, start, end);
        if kind_of(element) == kind {
            canonical.clear();
            write_canonical(element, &mut canonical);
            present = canonical == wanted;
        }
        last_end = Some(end);
        !present
    })?;
    if present {
        return Ok(Reduced { value: current.clone(), changed: false, appended: Some(false), dropped: 0 });
    }
    let value = Json::parse(insert_element(array, last_end, item))?;
    Ok(Reduced { value, changed: true, appended: Some(true), dropped: 0 })
}

pub(super) fn bounded_list(
    current: Option<&Json>,
    item: &Json,
    limit: usize,
) -> Result<Reduced, ReduceError> {
    if limit == 0 || limit > MAX_LIST_LIMIT {
        return Err(ReduceError::LimitOutOfRange { limit, max: MAX_LIST_LIMIT });
    }
    let Some(current) = current else { return first_element(item) };
    require(current, JsonKind::Array, Operand::Current)?;
    let array = current.as_str();
    let keep = limit - 1;
    let mut kept_starts = VecDeque::new();
    let mut dropped = 0;
    let mut last_end = None;
    for_each_element(array, |start, end| {
        kept_starts.push_back(start);
        if kept_starts.len() > keep {
            kept_starts.pop_front();
            dropped += 1;
        }
        last_end = Some(end);
        true
    })?;
    let text = match (kept_starts.front(), last_end) {
        (_, end) if dropped == 0 => insert_element(array, end, item),
        (Some(first), Some(end)) => {
            let (kept, tail) = (slice(array, *first, end), slice(array, end, array.len()));
            format!("[{kept},{item}{tail}")
        }
        _ => format!("[{item}]"),
    };
    let value = Json::parse(text)?;
    let changed = value != *current;
    Ok(Reduced { value, changed, appended: Some(true), dropped })
}

fn first_element(item: &Json) -> Result<Reduced, ReduceError> {
    let value = Json::parse(format!("[{item}]"))?;
    Ok(Reduced { value, changed: true, appended: Some(true), dropped: 0 })
}

/// `array` with `item` after the element that ends at `last_end`, or as its only element.
fn insert_element(array: &str, last_end: Option<usize>, item: &Json) -> String {
    let (at, comma) = last_end.map_or((1, ""), |end| (end, ","));
    let (head, tail) = (slice(array, 0, at), slice(array, at, array.len()));
    format!("{head}{comma}{item}{tail}")
}
