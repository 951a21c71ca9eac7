//! The front matter of a note: the block of YAML that a Markdown text may start with. Reads top-level members that are
//! a scalar or a list of scalars, as PyYAML writes them for basic-memory: long ones continue on the next lines.

use std::iter::Peekable;
use std::str::{Chars, Lines};

/// A member of the front matter.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    Scalar(String),
    List(Vec<String>),
}

/// The front matter, if there is one, and the rest.
pub(super) fn split(text: &str) -> (&str, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut at = 0;
    for (line, number) in text.split_inclusive('\n').zip(0..) {
        let is_mark = line.trim_end() == "---";
        if number == 0 && !is_mark {
            break;
        }
        let begin = at;
        at += line.len();
        if number > 0 && is_mark {
            let begun = text.find('\n').map_or(0, |end| end + 1);
            return (text.get(begun..begin).unwrap_or_default(), text.get(at..).unwrap_or_default());
        }
    }
    ("", text)
}

/// The top-level members. `null`, objects and block scalars are ignored; the text still has them.
pub(super) fn members(front: &str) -> Vec<(&str, Value)> {
    let mut members = Vec::new();
    let mut lines = front.lines().peekable();
    while let Some(line) = lines.next() {
        let below = below(&mut lines);
        let Some((name, value)) =
            line.split_once(':').filter(|(name, _)| !name.trim().is_empty() && !name.starts_with('#'))
        else {
            continue;
        };
        let value = without_comment(value.trim());
        let is_item = |line: &&str| line.trim_start().starts_with("- ") || line.trim() == "-";
        let value = match value.chars().next() {
            Some('|' | '>' | '{' | '&' | '*' | '!') => None,
            Some('[') => {
                let all = below.iter().fold(value.to_owned(), |all, line| all + " " + line.trim());
                let inner = all.trim_start_matches('[').trim_end_matches(']').split(',');
                Some(Value::List(inner.filter_map(|item| scalar(item, &[])).collect()))
            }
            Some(_) => scalar(value, &below).map(Value::Scalar),
            None if below.first().is_some_and(is_item) => {
                let mut items: Vec<(&str, Vec<&str>)> = Vec::new();
                for line in &below {
                    match (line.trim_start().strip_prefix("- "), items.last_mut()) {
                        (Some(item), _) => items.push((item, Vec::new())),
                        (None, Some((_, below))) => below.push(line),
                        (None, None) => {}
                    }
                }
                Some(Value::List(items.iter().filter_map(|(item, below)| scalar(item, below)).collect()))
            }
            None => None,
        };
        members.extend(value.map(|value| (name.trim(), value)));
    }
    members
}

/// The continuation lines of the member above them.
fn below<'a>(lines: &mut Peekable<Lines<'a>>) -> Vec<&'a str> {
    let mut below = Vec::new();
    while let Some(line) = lines
        .next_if(|line| line.trim().is_empty() || line.starts_with([' ', '\t']) || line.starts_with("- "))
    {
        below.push(line);
    }
    while below.last().is_some_and(|line| line.trim().is_empty()) {
        below.pop();
    }
    below
}

/// An unquoted value without its trailing comment.
fn without_comment(value: &str) -> &str {
    match value.chars().next() {
        Some('"' | '\'') => value,
        Some('#') => "",
        _ => value.split_once(" #").map_or(value, |(value, _)| value.trim_end()),
    }
}

/// A scalar that starts with `first` and continues `below`. `None` if it is empty or `null`.
fn scalar(first: &str, below: &[&str]) -> Option<String> {
    let first = first.trim();
    let quote = first.chars().next().filter(|first| matches!(first, '"' | '\''));
    let mut folded = if quote.is_some() { first } else { without_comment(first) }.to_owned();
    for line in below {
        let line = line.trim();
        // A line ending in `\` continues without a space; an empty line is a line break.
        if quote == Some('"') && folded.ends_with('\\') {
            folded.pop();
        } else if !line.is_empty() && !folded.ends_with('\n') {
            folded.push(' ');
        }
        folded.push_str(if line.is_empty() { "\n" } else { line });
    }
    let text = match quote {
        Some(quote) => unquoted(folded.get(1..)?, quote),
        None if folded == "null" || folded == "~" => String::new(),
        None => folded,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// A quoted text, up to its end.
fn unquoted(text: &str, quote: char) -> String {
    let mut said = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' if quote == '\'' && chars.as_str().starts_with('\'') => {
                said.push('\'');
                chars.next();
            }
            c if c == quote => break,
            '\\' if quote == '"' => said.extend(escaped(&mut chars)),
            c => said.push(c),
        }
    }
    said
}

fn escaped(chars: &mut Chars<'_>) -> Option<char> {
    let digits = match chars.next()? {
        'n' => return Some('\n'),
        't' => return Some('\t'),
        'r' => return Some('\r'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Some(other),
    };
    let text = chars.as_str().get(..digits)?;
    *chars = chars.as_str().get(digits..)?.chars();
    char::from_u32(u32::from_str_radix(text, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(front: &str) -> Vec<(&str, String)> {
        let text = |value| match value {
            Value::Scalar(text) => text,
            Value::List(items) => items.join("|"),
        };
        members(front).into_iter().map(|(name, value)| (name, text(value))).collect()
    }

    /// Regression: of a title that basic-memory wrote on two lines, only the first was kept, so links did not find the
    /// note.
    #[test]
    fn a_long_scalar_goes_on_in_the_lines_below() {
        let front = "title: many words of a title that goes\n  on below\nquoted: 'it''s: long, and\n  goes on\n\n  after a break'\n\
            double: \"a \\\"b\\\" \\u00e9 goes\\\n  \\ on\"\ntags:\n- a long tag\n  of two lines\n- short\n";
        assert_eq!(
            texts(front),
            [
                ("title", "many words of a title that goes on below".to_owned()),
                ("quoted", "it's: long, and goes on\nafter a break".to_owned()),
                ("double", "a \"b\" é goes on".to_owned()),
                ("tags", "a long tag of two lines|short".to_owned()),
            ]
        );
    }

    /// Regression: the title of a book under `source:` became the note's, and a `null` tag was kept.
    #[test]
    fn inner_members_and_nulls_are_not_members_of_the_note() {
        let front = "title: Note # mine\nsource:\n  title: Book\n  tags: inner\ntags: null\ntype: ~\nempty: ''\nblock: >\n  title: no\n\
            lines: [a,\n  'b']\nnone: # nothing\n- stray\n";
        assert_eq!(
            texts(front),
            [("title", "Note".to_owned()), ("lines", "a|b".to_owned()), ("none", "stray".to_owned())]
        );
    }

    #[test]
    fn front_matter_is_what_stands_between_two_lines_of_dashes() {
        assert_eq!(split("---\na: b\n---\nrest\n---\n"), ("a: b\n", "rest\n---\n"));
        assert_eq!(split("\u{feff}---\r\na: b\r\n---"), ("a: b\r\n", ""));
        for none in ["---\na: b\n----\n", "a\n---\n---\n", "----\na: b\n---\n"] {
            assert_eq!(split(none), ("", none));
        }
    }
}
