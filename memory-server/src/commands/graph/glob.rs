//! Patterns of names.

/// A part of a pattern.
enum Part {
    /// `*`: any characters, or none.
    Star,
    /// One character, inside these ranges or outside all of them.
    One { is_outside: bool, ranges: Vec<(char, char)> },
}

impl Part {
    /// A part that matches itself.
    fn only(character: char) -> Self {
        Self::One { is_outside: false, ranges: vec![(character, character)] }
    }
}

/// `*`, `?`, and `[…]` with ranges; a leading `!` or `^` negates them. `[*]` is a literal star.
pub(super) struct Glob(Vec<Part>);

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let (mut parts, mut rest) = (Vec::new(), pattern);
        while let Some(character) = rest.chars().next() {
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
            parts.push(match character {
                '*' => Part::Star,
                '?' => Part::One { is_outside: true, ranges: Vec::new() },
                '[' => match class(rest) {
                    Some((part, after)) => {
                        rest = after;
                        part
                    }
                    None => Part::only('['),
                },
                other => Part::only(other),
            });
        }
        Self(parts)
    }

    /// Whether the pattern matches the whole text. A star first matches as little as possible; only the last one needs
    /// to be retried.
    pub(super) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut part, mut star) = (0, 0, None);
        while let Some(character) = text.get(at) {
            match self.0.get(part) {
                Some(Part::Star) => {
                    part += 1;
                    star = Some((part, at));
                }
                Some(Part::One { is_outside, ranges })
                    if ranges.iter().any(|(from, to)| (from..=to).contains(&character)) != *is_outside =>
                {
                    (at, part) = (at + 1, part + 1);
                }
                _ => match &mut star {
                    Some((after, from)) => {
                        *from += 1;
                        (at, part) = (*from, *after);
                    }
                    None => return false,
                },
            }
        }
        self.0.iter().skip(part).all(|part| matches!(part, Part::Star))
    }
}

/// What comes after `[`, and the rest of the pattern; `None` if nothing closes it. A leading `]` closes nothing.
fn class(pattern: &str) -> Option<(Part, &str)> {
    let members = pattern.strip_prefix(['!', '^']);
    let is_outside = members.is_some();
    let members = members.unwrap_or(pattern);
    let first = members.chars().next()?.len_utf8();
    let end = first + members.get(first..)?.find(']')?;
    let (members, after) = (members.get(..end)?, members.get(end + 1..)?);
    let mut ranges = Vec::new();
    let mut characters = members.chars();
    while let Some(from) = characters.next() {
        let mut ahead = characters.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) => {
                ranges.push((from, to));
                characters = ahead;
            }
            _ => ranges.push((from, from)),
        }
    }
    Some((Part::One { is_outside, ranges }, after))
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn a_pattern_names_whole_texts() {
        for (pattern, text, is) in [
            ("test_*", "test_1", true),
            ("test_*", "a test_1", false),
            ("*", "", true),
            ("", "a", false),
            ("s?ss-*a", "sess-alpha", true),
            ("s?ss-*a", "sess-beta-", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*ab", "aab", true),
            ("?", "記", true),
            ("[a]", "a", true),
            ("s-[0-9a]", "s-7", true),
            ("s-[0-9a]", "s-a", true),
            ("s-[0-9a]", "s-b", false),
            ("s-[!0-9]*", "s-1", false),
            ("s-[^0-9]*", "s-x1", true),
            ("[*]", "x", false),
            ("[*]", "*", true),
            ("[]a]", "]", true),
            ("[!]]", "]", false),
            ("[a-]", "-", true),
            ("[é-ü]x", "ñx", true),
            ("[ab", "[ab", true),
            ("[ab", "a", false),
            ("[]", "[]", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_a_product() {
        assert!(!Glob::new(&"*a".repeat(200)).matches(&"a".repeat(199)));
        assert!(Glob::new(&"*a".repeat(200)).matches(&"a".repeat(10_000)));
        assert!(!Glob::new(&format!("{}b", "*a".repeat(200))).matches(&"a".repeat(10_000)));
    }
}
