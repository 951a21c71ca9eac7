//! Atomic reducers as pure functions, so that every backend reduces alike.
//!
//! A backend reads the current value, calls [`reduce`] and writes the result inside one transaction.

use crate::json::scan::{Event, Scanner, Token};
use crate::json::string::decode;
use crate::json::{Json, JsonError, JsonKind, MAX_DEPTH, kind_of, write_canonical};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// The largest `limit` of a [`Reducer::BoundedList`].
pub const MAX_LIST_LIMIT: usize = 10_000;

/// How to derive a key's next value from its current one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reducer {
    /// Merges an object into the current object.
    ///
    /// # Behavior
    /// - Objects merge member by member, at every depth; any other value replaces what was there.
    /// - `null` is a value like any other: it is stored and deletes nothing.
    /// - Without a current value the result is the patch.
    /// - The text of members that are not touched stays byte for byte. Touched members keep their place, new ones follow
    ///   in the patch's order.
    /// - Of members with the same name the last counts, in both; touching one removes its earlier duplicates.
    Merge(Json),
    /// Appends an item to the current array unless an element is [`semantic_eq`](crate::json::semantic_eq) to it.
    ///
    /// # Behavior
    /// - Without a current value the array is empty.
    /// - The text of the other elements stays byte for byte.
    AppendDedupe(Json),
    /// Appends an item to the current array, then drops elements from the head until `limit` are left.
    ///
    /// # Behavior
    /// - Without a current value the array is empty.
    /// - The text of the elements that stay is unchanged.
    BoundedList {
        /// What to append.
        item: Json,
        /// How many elements to keep: 1..=[`MAX_LIST_LIMIT`].
        limit: usize,
    },
}

/// What a reducer made of the current value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reduced {
    /// The new value.
    pub value: Json,
    /// Whether its text differs from the current one; true where there was none.
    pub changed: bool,
    /// Whether a list reducer appended its item; `None` for other reducers.
    pub appended: Option<bool>,
    /// How many elements were dropped from the head.
    pub dropped: usize,
}

/// Which of a reducer's two inputs an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// The value that is stored.
    Current,
    /// The value that came with the reducer.
    Patch,
}

impl fmt::Display for Operand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Current => "current value",
            Self::Patch => "patch",
        })
    }
}

/// Why a reducer does not apply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReduceError {
    /// An input is of a kind the reducer does not work on.
    #[error("the {operand} is of type {found}, but the reducer needs {expected}")]
    WrongType {
        /// Which input.
        operand: Operand,
        /// What the reducer works on.
        expected: JsonKind,
        /// What it met.
        found: JsonKind,
    },
    /// The limit of a bounded list is zero or too large.
    #[error("a list limit of {limit} is outside 1..={max}")]
    LimitOutOfRange {
        /// The limit asked for.
        limit: usize,
        /// The largest allowed, [`MAX_LIST_LIMIT`].
        max: usize,
    },
    /// The result would be nested too deeply.
    #[error("the result would be nested deeper than {limit} levels")]
    TooDeep {
        /// The limit, [`MAX_DEPTH`].
        limit: usize,
    },
    /// A result that is not JSON: a defect of this crate, reported instead of stored.
    #[error("the reducer produced invalid JSON")]
    Defect(#[source] JsonError),
}

impl From<JsonError> for ReduceError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::TooDeep { .. } => Self::TooDeep { limit: MAX_DEPTH },
            other => Self::Defect(other),
        }
    }
}

/// Applies a reducer to the current value; `None` is a key that is absent or expired.
///
/// # Behavior
/// - Pure: equal inputs give equal results on every backend.
/// - Cost is proportional to the length of both texts.
///
/// # Errors
/// [`ReduceError::WrongType`], [`ReduceError::LimitOutOfRange`], [`ReduceError::TooDeep`]; nothing is to be written then.
pub fn reduce(current: Option<&Json>, reducer: &Reducer) -> Result<Reduced, ReduceError> {
    match reducer {
        Reducer::Merge(patch) => merge(current, patch),
        Reducer::AppendDedupe(item) => append_dedupe(current, item),
        Reducer::BoundedList { item, limit } => bounded_list(current, item, *limit),
    }
}

fn require(json: &Json, expected: JsonKind, operand: Operand) -> Result<(), ReduceError> {
    match json.kind() {
        found if found == expected => Ok(()),
        found => Err(ReduceError::WrongType { operand, expected, found }),
    }
}

fn slice(text: &str, start: usize, end: usize) -> &str {
    text.get(start..end).unwrap_or_default()
}

// ---- lists

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

fn append_dedupe(current: Option<&Json>, item: &Json) -> Result<Reduced, ReduceError> {
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

fn bounded_list(current: Option<&Json>, item: &Json, limit: usize) -> Result<Reduced, ReduceError> {
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

// ---- merge

/// An object of the patch, reached from its root through objects alone.
#[derive(Debug, Default)]
struct PatchObject<'a> {
    members: Vec<PatchMember<'a>>,
    by_name: BTreeMap<Cow<'a, str>, usize>,
}

#[derive(Debug)]
struct PatchMember<'a> {
    /// As written, quotes included.
    key: &'a str,
    value: &'a str,
    /// Index of the value's own [`PatchObject`], if it is an object.
    object: Option<usize>,
}

/// Indexes the objects of a patch; the first is its root.
fn index_patch(patch: &str) -> Result<Vec<PatchObject<'_>>, JsonError> {
    struct Open<'a> {
        object: usize,
        start: usize,
        key: &'a str,
    }
    let mut objects: Vec<PatchObject<'_>> = Vec::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut scanner = Scanner::new(patch);
    while let Some(event) = scanner.next().transpose()? {
        let (value_start, value_end, object) = match event.token {
            Token::Key => {
                if let Some(top) = open.last_mut() {
                    top.key = slice(patch, event.start, event.end);
                }
                continue;
            }
            Token::ObjectStart => {
                open.push(Open { object: objects.len(), start: event.start, key: "" });
                objects.push(PatchObject::default());
                continue;
            }
            Token::ObjectEnd => match open.pop() {
                Some(closed) => (closed.start, event.end, Some(closed.object)),
                None => continue,
            },
            _ => (event.start, scanner.finish_value(event)?, None),
        };
        let Some(parent) = open.last() else { continue };
        if let Some(parent_object) = objects.get_mut(parent.object) {
            let index = parent_object.members.len();
            let value = slice(patch, value_start, value_end);
            parent_object.members.push(PatchMember { key: parent.key, value, object });
            parent_object.by_name.insert(decode(parent.key), index);
        }
    }
    Ok(objects)
}

/// Replace `current[start..end]` by `text`.
#[derive(Debug)]
struct Edit<'a> {
    start: usize,
    end: usize,
    text: Cow<'a, str>,
}

/// A member of the current object that the patch touches.
#[derive(Debug, Clone, Copy)]
struct Touched {
    start: usize,
    next_start: usize,
}

/// An object of the current value that the patch merges into.
#[derive(Debug)]
struct Target {
    patch_object: usize,
    touched: BTreeMap<usize, Touched>,
    /// The patch member that the current member matches.
    matched: Option<usize>,
    /// Where new members go: after the last value, or after the opening brace.
    insert_at: usize,
    empty: bool,
}

impl Target {
    fn new(patch_object: usize, start: Event) -> Self {
        Self { patch_object, touched: BTreeMap::new(), matched: None, insert_at: start.end, empty: true }
    }
}

fn merge(current: Option<&Json>, patch: &Json) -> Result<Reduced, ReduceError> {
    require(patch, JsonKind::Object, Operand::Patch)?;
    let Some(current) = current else {
        return Ok(Reduced { value: patch.clone(), changed: true, appended: None, dropped: 0 });
    };
    require(current, JsonKind::Object, Operand::Current)?;
    let objects = index_patch(patch.as_str())?;
    let edits = merge_edits(current.as_str(), &objects)?;
    if edits.is_empty() {
        return Ok(Reduced { value: current.clone(), changed: false, appended: None, dropped: 0 });
    }
    let value = Json::parse(apply(current.as_str(), edits))?;
    let changed = value != *current;
    Ok(Reduced { value, changed, appended: None, dropped: 0 })
}

/// One pass over the current text, with a stack of the objects that the patch merges into.
fn merge_edits<'a>(text: &str, objects: &[PatchObject<'a>]) -> Result<Vec<Edit<'a>>, JsonError> {
    let mut edits = Vec::new();
    let mut targets: Vec<Target> = Vec::new();
    let mut scanner = Scanner::new(text);
    while let Some(event) = scanner.next().transpose()? {
        let Some(target) = targets.last_mut() else {
            if event.token == Token::ObjectStart {
                targets.push(Target::new(0, event));
            }
            continue;
        };
        let Some(patch) = objects.get(target.patch_object) else { continue };
        match event.token {
            Token::Key => {
                if let Some(previous) = target.matched.take().and_then(|m| target.touched.get_mut(&m)) {
                    previous.next_start = event.start;
                }
                let name = decode(slice(text, event.start, event.end));
                target.matched = patch.by_name.get(&name).copied();
                if let Some(member) = target.matched {
                    let touched = Touched { start: event.start, next_start: event.start };
                    if let Some(earlier) = target.touched.insert(member, touched) {
                        edits.push(Edit { start: earlier.start, end: earlier.next_start, text: "".into() });
                    }
                }
            }
            Token::ObjectEnd => {
                let new = new_members(patch, target);
                if !new.is_empty() {
                    edits.push(Edit { start: target.insert_at, end: target.insert_at, text: new.into() });
                }
                targets.pop();
                if let Some(parent) = targets.last_mut() {
                    (parent.insert_at, parent.empty) = (event.end, false);
                }
            }
            _ => {
                let member = target.matched.and_then(|member| patch.members.get(member));
                let object = member.and_then(|member| member.object);
                if let (Token::ObjectStart, Some(object)) = (event.token, object) {
                    targets.push(Target::new(object, event));
                    continue;
                }
                let end = scanner.finish_value(event)?;
                (target.insert_at, target.empty) = (end, false);
                if let Some(member) = member
                    && member.value != slice(text, event.start, end)
                {
                    edits.push(Edit { start: event.start, end, text: member.value.into() });
                }
            }
        }
    }
    Ok(edits)
}

/// The text of the members that the target lacks, commas included.
fn new_members(patch: &PatchObject<'_>, target: &Target) -> String {
    let mut text = String::new();
    let mut comma = !target.empty;
    let mut indices: Vec<usize> = patch.by_name.values().copied().collect();
    indices.sort_unstable();
    for index in indices.into_iter().filter(|index| !target.touched.contains_key(index)) {
        let Some(member) = patch.members.get(index) else { continue };
        if comma {
            text.push(',');
        }
        comma = true;
        text.push_str(member.key);
        text.push(':');
        text.push_str(member.value);
    }
    text
}

/// Applies edits that either do not overlap or lie wholly inside a removed duplicate.
fn apply(text: &str, mut edits: Vec<Edit<'_>>) -> String {
    edits.sort_by_key(|edit| edit.start);
    let mut out = String::with_capacity(text.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut done = 0;
    for edit in edits {
        if edit.start < done {
            continue;
        }
        out.push_str(slice(text, done, edit.start));
        out.push_str(&edit.text);
        done = edit.end;
    }
    out.push_str(slice(text, done, text.len()));
    out
}
