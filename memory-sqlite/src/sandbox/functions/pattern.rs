//! LIKE and GLOB, in time proportional to the text's length and a 64th of the pattern's.
//!
//! A pattern is split at its `%` (`*`) into segments. The first and the last are anchored at the ends of the text;
//! every other one matches at its first occurrence after the segment before it. Literal segments are searched in
//! linear time. For others, all possible starts are followed at once, one bit each, and the clock is checked.

use std::collections::HashMap;
use std::sync::Arc;

use memchr::memmem;

use super::call::{Call, Function, Outcome};
use crate::sandbox::limits::heap;
use crate::sandbox::limits::settings::PATTERN_BYTES;

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "like", arguments: 2, run: like },
    Function { name: "like", arguments: 3, run: like },
    Function { name: "glob", arguments: 2, run: glob },
];

fn like(call: &Call<'_>) -> Outcome {
    let escape = match call.len() {
        3 => match call.text(2).map(std::str::from_utf8) {
            None => return Outcome::Null,
            Some(Ok(text)) if text.chars().count() == 1 => text.chars().next(),
            Some(_) => return Outcome::Error("ESCAPE expression must be a single character".to_owned()),
        },
        _ => None,
    };
    run(call, escape, |pattern| Pattern::like(pattern, escape))
}

fn glob(call: &Call<'_>) -> Outcome {
    run(call, None, Pattern::glob)
}

fn run(call: &Call<'_>, escape: Option<char>, compile: impl Fn(&str) -> Pattern) -> Outcome {
    let (Some(pattern), Some(text)) = (call.text(0), call.text(1)) else { return Outcome::Null };
    if pattern.len() > usize::try_from(PATTERN_BYTES).unwrap_or(0) {
        return Outcome::Error("LIKE or GLOB pattern too complex".to_owned());
    }
    let compile = || Ok((escape, compile(&String::from_utf8_lossy(until_nul(pattern)))));
    let kept: Result<Arc<(Option<char>, Pattern)>, String> = match call.kept(0, compile) {
        // The pattern is the same in every row, the escape may not be.
        Ok(kept) if kept.0 != escape => compile().map(Arc::new),
        kept => kept,
    };
    match kept.map(|kept| kept.1.matches(&String::from_utf8_lossy(until_nul(text)))) {
        Ok(Ok(matches)) => Outcome::Integer(i64::from(matches)),
        Ok(Err(Ended)) => Outcome::Ended,
        Err(message) => Outcome::Error(message),
    }
}

/// SQLite's own functions stop at a NUL too.
fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// How many non-ASCII characters' masks are cached while searching for a segment.
const CACHED_CHARACTERS: usize = 1_024;

/// Characters between two clock checks.
const CHECK_EVERY: usize = 1 << 14;

/// The statement must end before the answer is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// What one character of the text must be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    Is(char),
    Any,
    OneOf {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
    /// Matches nothing: an escape without a character, or a set without an end.
    Never,
}

/// The pattern between two `%`.
#[derive(Debug)]
struct Segment {
    elements: Vec<Element>,
    /// Set if the segment is literal text.
    plain: Option<Plain>,
    /// For each ASCII character, one bit for each element that it matches.
    ascii: Vec<Vec<u64>>,
    /// The elements that match every character not in `known`.
    other: Vec<u64>,
    /// Whether elements other than `Any` may match a non-ASCII character.
    wide: bool,
}

/// A literal to search for.
#[derive(Debug)]
enum Plain {
    Exact(String),
    /// In lower case, with the Knuth–Morris–Pratt failure function.
    Folded(Vec<u8>, Vec<usize>),
}

impl Plain {
    fn new(text: String, folds: bool) -> Self {
        if !folds {
            return Self::Exact(text);
        }
        let bytes = text.into_bytes();
        let mut again = vec![0; bytes.len()];
        let mut matched = 0;
        for (at, byte) in bytes.iter().enumerate().skip(1) {
            matched = step(&bytes, &again, matched, *byte);
            if let Some(place) = again.get_mut(at) {
                *place = matched;
            }
        }
        Self::Folded(bytes, again)
    }

    /// The end of its first occurrence in a text.
    fn find(&self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Exact(plain) => memmem::find(text, plain.as_bytes()).map(|at| at + plain.len()),
            Self::Folded(plain, again) => {
                let mut matched = 0;
                let ends = |byte: &u8| {
                    matched = step(plain, again, matched, byte.to_ascii_lowercase());
                    matched == plain.len()
                };
                text.iter().position(ends).map(|at| at + 1)
            }
        }
    }
}

/// The number of bytes matched after one more byte, by Knuth, Morris and Pratt.
fn step(plain: &[u8], again: &[usize], mut matched: usize, byte: u8) -> usize {
    while matched > 0 && plain.get(matched) != Some(&byte) {
        matched = again.get(matched - 1).copied().unwrap_or(0);
    }
    matched + usize::from(plain.get(matched) == Some(&byte))
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    fold: bool,
    /// Never empty. The first is anchored at the beginning, the last at the end.
    segments: Vec<Segment>,
}

impl Pattern {
    fn like(pattern: &str, escape: Option<char>) -> Self {
        let mut cut = vec![Vec::new()];
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let element = match character {
                found if Some(found) == escape => {
                    characters.next().map_or(Element::Never, |c| Element::Is(fold(c)))
                }
                '%' => {
                    cut.push(Vec::new());
                    continue;
                }
                '_' => Element::Any,
                other => Element::Is(fold(other)),
            };
            if let Some(last) = cut.last_mut() {
                last.push(element);
            }
        }
        Self::new(cut, true)
    }

    fn glob(pattern: &str) -> Self {
        let mut cut = vec![Vec::new()];
        let mut characters = pattern.chars().peekable();
        while let Some(character) = characters.next() {
            let element = match character {
                '*' => {
                    cut.push(Vec::new());
                    continue;
                }
                '?' => Element::Any,
                '[' => set(&mut characters),
                other => Element::Is(other),
            };
            if let Some(last) = cut.last_mut() {
                last.push(element);
            }
        }
        Self::new(cut, false)
    }

    fn new(cut: Vec<Vec<Element>>, fold: bool) -> Self {
        let last = cut.len() - 1;
        let segments = cut
            .into_iter()
            .enumerate()
            // Anchored segments are not searched for; empty ones match anywhere.
            .filter(|(at, elements)| *at == 0 || *at == last || !elements.is_empty())
            .map(|(at, elements)| Segment::new(elements, fold, at != 0 && at != last))
            .collect();
        Self { fold, segments }
    }

    pub(super) fn matches(&self, text: &str) -> Result<bool, Ended> {
        let [first, middle @ .., last] = self.segments.as_slice() else {
            // Without `%`, the only segment is the whole text.
            let whole = self.segments.first();
            return Ok(whole.is_some_and(|whole| whole.begins(text, self.fold) == Some(text.len())));
        };
        let Some(mut rest) = first.begins(text, self.fold).and_then(|at| text.get(at..)) else {
            return Ok(false);
        };
        let Some(end) = last.ends(rest, self.fold) else { return Ok(false) };
        rest = rest.get(..end).unwrap_or_default();
        for segment in middle {
            let Some(found) = segment.find(rest)?.and_then(|at| rest.get(at..)) else {
                return Ok(false);
            };
            rest = found;
        }
        Ok(true)
    }
}

/// Parses a set of characters, after its `[`.
fn set(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Element {
    let negated = characters.next_if_eq(&'^').is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    // A `]` in first place is a member of the set.
    if characters.next_if_eq(&']').is_some() {
        ranges.push((']', ']'));
    }
    let mut before = None;
    while let Some(character) = characters.next() {
        match (character, before) {
            (']', _) => return Element::OneOf { ranges, negated },
            ('-', Some(low)) if characters.peek().is_some_and(|next| *next != ']') => {
                if let Some(high) = characters.next() {
                    ranges.push((low, high));
                }
                before = None;
            }
            (other, _) => {
                ranges.push((other, other));
                before = Some(other);
            }
        }
    }
    Element::Never
}

fn fold(character: char) -> char {
    character.to_ascii_lowercase()
}

impl Element {
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Is(wanted) => *wanted == character,
            Self::Any => true,
            Self::OneOf { ranges, negated } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
            Self::Never => false,
        }
    }
}

impl Segment {
    fn new(elements: Vec<Element>, folds: bool, searched: bool) -> Self {
        let plain: Option<String> = searched
            .then(|| {
                elements
                    .iter()
                    .map(|element| if let Element::Is(wanted) = element { Some(*wanted) } else { None })
                    .collect()
            })
            .flatten();
        let plain = plain.map(|text| Plain::new(text, folds));
        let wide = elements.iter().any(|element| match element {
            Element::Is(wanted) => !wanted.is_ascii(),
            Element::OneOf { .. } => true,
            Element::Any | Element::Never => false,
        });
        let (mut ascii, mut other) = (Vec::new(), Vec::new());
        if searched && plain.is_none() {
            ascii = (0..128_u8)
                .map(|byte| mask(&elements, char::from(if folds { byte.to_ascii_lowercase() } else { byte })))
                .collect();
            other = elements
                .chunks(64)
                .map(|chunk| bits(chunk.iter().map(|element| *element == Element::Any)))
                .collect();
        }
        Self { elements, plain, ascii, other, wide }
    }

    /// The end of the segment if the text begins with it.
    fn begins(&self, text: &str, folds: bool) -> Option<usize> {
        let mut characters = text.chars();
        for element in &self.elements {
            let character = characters.next()?;
            if !element.matches(if folds { fold(character) } else { character }) {
                return None;
            }
        }
        Some(text.len() - characters.as_str().len())
    }

    /// The start of the segment if the text ends with it.
    fn ends(&self, text: &str, folds: bool) -> Option<usize> {
        let mut characters = text.chars();
        for element in self.elements.iter().rev() {
            let character = characters.next_back()?;
            if !element.matches(if folds { fold(character) } else { character }) {
                return None;
            }
        }
        Some(characters.as_str().len())
    }

    /// The end of the segment's first occurrence in the text.
    fn find(&self, text: &str) -> Result<Option<usize>, Ended> {
        if let Some(plain) = &self.plain {
            return Ok(plain.find(text.as_bytes()));
        }
        let Some(last) = self.elements.len().checked_sub(1) else { return Ok(None) };
        let (last_word, last_bit) = (last / 64, 1_u64 << (last % 64));
        let mut begun = vec![0_u64; self.elements.len().div_ceil(64)];
        let mut others: HashMap<char, Vec<u64>> = HashMap::new();
        for (count, (at, character)) in text.char_indices().enumerate() {
            if count % CHECK_EVERY == CHECK_EVERY - 1 && heap::must_end() {
                return Err(Ended);
            }
            let matching =
                match u8::try_from(character).ok().and_then(|byte| self.ascii.get(usize::from(byte))) {
                    Some(mask) => mask,
                    None if !self.wide => &self.other,
                    None => {
                        if others.len() >= CACHED_CHARACTERS {
                            others.clear();
                        }
                        others.entry(character).or_insert_with(|| mask(&self.elements, character))
                    }
                };
            let mut carry = 1;
            for (word, matching) in begun.iter_mut().zip(matching) {
                let next = *word >> 63;
                *word = (*word << 1 | carry) & matching;
                carry = next;
            }
            if begun.get(last_word).is_some_and(|word| word & last_bit != 0) {
                return Ok(Some(at + character.len_utf8()));
            }
        }
        Ok(None)
    }
}

fn mask(elements: &[Element], character: char) -> Vec<u64> {
    elements.chunks(64).map(|chunk| bits(chunk.iter().map(|element| element.matches(character)))).collect()
}

fn bits(set: impl Iterator<Item = bool>) -> u64 {
    set.enumerate().fold(0, |word, (at, set)| word | u64::from(set) << at)
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn like_is_sqlites() {
        let cases = [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("a", "A", true),
            ("Ä", "ä", false),
            ("_", "ä", true),
            ("__", "ä", false),
            ("a%", "abc", true),
            ("%c", "abc", true),
            ("%b%", "abc", true),
            ("a%a", "a", false),
            ("a%a", "aa", true),
            ("%a%a%", "a", false),
            ("a_c%", "abcd", true),
            ("%_b_%", "abc", true),
            ("%_b_%", "ab", false),
            ("%%", "x", true),
            ("%ab%bc%", "abc", false),
            ("%AB%C", "xxabxxc", true),
            ("%ö_x%", "abÖöyx", true),
            ("%ababac%", "abABabac", true),
            ("%aab%", "aaaab", true),
            ("%aabaaa%", "aabaabaaa", true),
            ("%abcabd%abc%", "abcabcabdab", false),
            ("%éé%", "aéÉéé", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Pattern::like(pattern, None).matches(text), Ok(expected), "{text:?} LIKE {pattern:?}");
        }
        assert_eq!(Pattern::like("10!%", Some('!')).matches("10%"), Ok(true));
        assert_eq!(Pattern::like("10!%", Some('!')).matches("100"), Ok(false));
        assert_eq!(Pattern::like("10!", Some('!')).matches("10"), Ok(false));
    }

    #[test]
    fn glob_is_sqlites() {
        let cases = [
            ("a*", "abc", true),
            ("A*", "abc", false),
            ("?", "ä", true),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[^]]", "]", false),
            ("[a-]", "-", true),
            ("[a", "a", false),
            ("*[0-9]*", "ab1c", true),
            ("*ab*", "xxab", true),
            ("*[ä-ü]?", "xöy", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Pattern::glob(pattern).matches(text), Ok(expected), "{text:?} GLOB {pattern:?}");
        }
    }

    #[test]
    fn segments_of_more_than_64_characters_are_found() {
        let needle = "abcdefghij".repeat(13);
        let text = format!("{}{needle}x", "abcdefghij".repeat(12));
        assert_eq!(Pattern::like(&format!("%{needle}x"), None).matches(&text), Ok(true));
        assert_eq!(Pattern::like(&format!("%_{}%", &needle[1..]), None).matches(&text), Ok(true));
        assert_eq!(Pattern::like(&format!("%{}%", needle.to_uppercase()), None).matches(&text), Ok(true));
        assert_eq!(Pattern::like(&format!("%{needle}y%"), None).matches(&text), Ok(false));
    }
}
