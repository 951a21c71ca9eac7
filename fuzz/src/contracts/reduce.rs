//! Reducers, compared with a simple implementation over whole lists of members and elements.
//!
//! Text form: `merge`, `append` or `bounded N` on the first line, the current value on the second (empty: none), the
//! reducer's value on the third.

use std::collections::BTreeMap;

use memory_core::json::{Json, JsonKind, MAX_DEPTH, semantic_eq};
use memory_core::reduce::{MAX_LIST_LIMIT, Operand, ReduceError, Reduced, Reducer, reduce};

use crate::generate::{self, Choices};
use crate::oracle::{depth, elements, members};
use crate::support::{one_in, quickly, text};

/// Tries one reduction.
pub fn run(data: &[u8]) {
    if let Some(choices) = Choices::of(data) {
        return generated(choices);
    }
    let Some(text) = text(data) else { return };
    let mut lines = text.splitn(3, '\n');
    let (Some(reducer), Some(current), Some(operand)) = (lines.next(), lines.next(), lines.next()) else {
        return;
    };
    let Ok(operand) = Json::parse(operand) else { return };
    let current = if current.is_empty() {
        None
    } else {
        let Ok(current) = Json::parse(current) else { return };
        Some(current)
    };
    let reducer = match reducer.split_once(' ') {
        None if reducer == "merge" => Reducer::Merge(operand),
        None if reducer == "append" => Reducer::AppendDedupe(operand),
        Some(("bounded", limit)) => {
            let Ok(limit) = limit.parse() else { return };
            Reducer::BoundedList { item: operand, limit }
        }
        _ => return,
    };
    check(current.as_ref(), &reducer);
    if one_in(256, data) {
        large(&reducer);
    }
}

fn generated(mut choices: Choices<'_>) {
    let kind = choices.below(16);
    let current = match kind {
        0 => None,
        1 => Some(generate::json(&mut choices)),
        2..=9 => Some(generate::json_object(&mut choices)),
        _ => Some(generate::json_array(&mut choices)),
    };
    let current = match current.map(Json::parse) {
        None => None,
        Some(Ok(current)) => Some(current),
        Some(Err(_)) => return,
    };
    let operand =
        if kind % 8 < 7 && kind < 10 { generate::json_object(&mut choices) } else { generate::json(&mut choices) };
    let Ok(operand) = Json::parse(operand) else { return };
    let limit = choices.below(7);
    check(current.as_ref(), &Reducer::Merge(operand.clone()));
    check(current.as_ref(), &Reducer::AppendDedupe(operand.clone()));
    check(current.as_ref(), &Reducer::BoundedList { item: operand, limit });
}

fn check(current: Option<&Json>, reducer: &Reducer) {
    let expected = expected(current, reducer);
    match reduce(current, reducer) {
        Ok(reduced) => {
            assert_eq!(reduced.changed, current.is_none_or(|current| *current != reduced.value));
            assert_eq!(Json::parse(reduced.value.as_str()).expect("JSON"), reduced.value);
            match expected {
                Ok(Expected::Object(members)) => compare(reduced.value.as_str(), &members),
                Ok(Expected::Array { elements: wanted, appended, dropped }) => {
                    assert_eq!(elements(reduced.value.as_str()), wanted);
                    let Reduced { appended: did, dropped: gone, .. } = reduced;
                    assert_eq!((did, gone), (Some(appended), dropped));
                }
                Err(why) => panic!("{reduced:?} where it should say {why}"),
            }
        }
        Err(ReduceError::TooDeep { .. }) => match expected {
            Ok(Expected::Object(members)) => assert!(1 + deepest(&members) > MAX_DEPTH),
            Ok(Expected::Array { elements, .. }) => {
                assert!(1 + elements.iter().map(|text| depth(text)).max().unwrap_or(0) > MAX_DEPTH);
            }
            Err(why) => panic!("too deep, where it should say {why}"),
        },
        Err(ReduceError::Defect(error)) => panic!("a defect: {error}"),
        Err(error) => {
            let Err(why) = expected else { panic!("{error}, but it applies") };
            let said = match error {
                ReduceError::WrongType { operand: Operand::Current, .. } => "current",
                ReduceError::WrongType { operand: Operand::Patch, .. } => "patch",
                ReduceError::LimitOutOfRange { .. } => "limit",
                other => panic!("{other}"),
            };
            assert_eq!(said, why);
        }
    }
}

enum Expected<'a> {
    Object(Vec<Member<'a>>),
    Array { elements: Vec<&'a str>, appended: bool, dropped: usize },
}

struct Member<'a> {
    name: String,
    value: Node<'a>,
}

enum Node<'a> {
    /// Exactly this text.
    Text(&'a str),
    Merged(Vec<Member<'a>>),
}

fn expected<'a>(current: Option<&'a Json>, reducer: &'a Reducer) -> Result<Expected<'a>, &'static str> {
    let of_kind = |kind| current.is_none_or(|current| current.kind() == kind);
    match reducer {
        Reducer::Merge(patch) if patch.kind() != JsonKind::Object => Err("patch"),
        Reducer::Merge(_) if !of_kind(JsonKind::Object) => Err("current"),
        Reducer::Merge(patch) => Ok(Expected::Object(match current {
            Some(current) => merged(current.as_str(), patch.as_str()),
            None => members(patch.as_str())
                .into_iter()
                .map(|(name, text)| Member { name, value: Node::Text(text) })
                .collect(),
        })),
        Reducer::BoundedList { limit, .. } if !(1..=MAX_LIST_LIMIT).contains(limit) => Err("limit"),
        Reducer::AppendDedupe(_) | Reducer::BoundedList { .. } if !of_kind(JsonKind::Array) => Err("current"),
        Reducer::AppendDedupe(item) => {
            let mut elements = current.map(|current| elements(current.as_str())).unwrap_or_default();
            let same = |text: &&str| semantic_eq(&Json::parse(*text).expect("an element"), item);
            let appended = !elements.iter().any(same);
            if appended {
                elements.push(item.as_str());
            }
            Ok(Expected::Array { elements, appended, dropped: 0 })
        }
        Reducer::BoundedList { item, limit } => {
            let mut elements = current.map(|current| elements(current.as_str())).unwrap_or_default();
            elements.push(item.as_str());
            let dropped = elements.len().saturating_sub(*limit);
            elements.drain(..dropped);
            Ok(Expected::Array { elements, appended: true, dropped })
        }
        other => panic!("no expectation for {other:?}"),
    }
}

fn is_object(text: &str) -> bool {
    text.starts_with('{')
}

fn merged<'a>(current: &'a str, patch: &'a str) -> Vec<Member<'a>> {
    let (current, patch) = (members(current), members(patch));
    let last = |all: &[(String, &str)]| -> BTreeMap<String, usize> {
        all.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect()
    };
    let (last_current, last_patch) = (last(&current), last(&patch));
    let mut result = Vec::new();
    for (at, (name, text)) in current.iter().enumerate() {
        let value = match last_patch.get(name).map(|at| patch[*at].1) {
            None => Node::Text(text),
            Some(_) if last_current[name] != at => continue,
            Some(new) if is_object(new) && is_object(text) => Node::Merged(merged(text, new)),
            Some(new) => Node::Text(new),
        };
        result.push(Member { name: name.clone(), value });
    }
    for (at, (name, text)) in patch.iter().enumerate() {
        if last_patch[name] == at && !last_current.contains_key(name) {
            result.push(Member { name: name.clone(), value: Node::Text(text) });
        }
    }
    result
}

fn compare(object: &str, wanted: &[Member<'_>]) {
    let found = members(object);
    assert_eq!(found.len(), wanted.len(), "{object}");
    for ((name, text), member) in found.iter().zip(wanted) {
        assert_eq!(*name, member.name);
        match &member.value {
            Node::Text(wanted) => assert_eq!(text, wanted),
            Node::Merged(wanted) => compare(text, wanted),
        }
    }
}

fn deepest(members: &[Member<'_>]) -> usize {
    let depths = members.iter().map(|member| match &member.value {
        Node::Text(text) => depth(text),
        Node::Merged(members) => 1 + deepest(members),
    });
    depths.max().unwrap_or(0)
}

/// The same reducer on many members and elements.
fn large(reducer: &Reducer) {
    let (Reducer::Merge(json) | Reducer::AppendDedupe(json) | Reducer::BoundedList { item: json, .. }) = reducer
    else {
        return;
    };
    if json.len_bytes() > 64 {
        return;
    }
    let names = |step: usize| -> String {
        let all: Vec<String> = (0..10_000).map(|n| format!("\"{}\":{json}", n * step % 10_007)).collect();
        format!("{{{}}}", all.join(","))
    };
    let elements: Vec<String> = (0..10_000).map(|n| format!("[{n},{json}]")).collect();
    let cases = [
        (Json::parse(names(1)), Json::parse(names(3)).map(Reducer::Merge)),
        (Json::parse(format!("[{}]", elements.join(","))), Ok(reducer.clone())),
    ];
    for (current, reducer) in cases {
        let (Ok(current), Ok(reducer)) = (current, reducer) else { continue };
        drop(quickly("reducing", || reduce(Some(&current), &reducer)));
    }
}
