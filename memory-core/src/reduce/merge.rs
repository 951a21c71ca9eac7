//! The merge reducer: an index of the patch, one pass over the current text, a list of edits.

use super::{Operand, ReduceError, Reduced, require, slice};
use crate::json::scan::{Event, Scanner, Token};
use crate::json::string::decode;
use crate::json::{Json, JsonError, JsonKind};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An object of the patch, reached from its root through objects only.
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

pub(super) fn merge(current: Option<&Json>, patch: &Json) -> Result<Reduced, ReduceError> {
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
