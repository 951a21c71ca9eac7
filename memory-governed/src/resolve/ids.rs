//! Ids in the text of a note: whole tokens, in any case and composition, never look-alikes.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;

use crate::request::is_id;

/// What a note says about one id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mention<'a> {
    /// It is named.
    Named(&'a str),
    /// It is named as something else: "unrelated to …", "blocked by …".
    Aside(&'a str),
    /// A token looks like it and is not it.
    LookAlike(&'a str),
}

/// Words before an id that make it something other than the note's subject.
const ASIDES: [&str; 36] = [
    "unrelated",
    "not",
    "except",
    "besides",
    "blocked",
    "blocks",
    "blocking",
    "depends",
    "dependent",
    "duplicate",
    "like",
    "unlike",
    "similar",
    "after",
    "before",
    "see",
    "follow-up",
    "than",
    "instead",
    "caused",
    "without",
    "still",
    "related",
    "overlaps",
    "superseded",
    "supersedes",
    "unblocks",
    "despite",
    "from",
    "under",
    "per",
    "cf",
    "vs",
    "versus",
    "isn't",
    "mentioned",
];
/// Words directly before an id that make it the place of something else: "a typo in db_outage".
const PLACES: [&str; 14] = [
    "in",
    "of",
    "on",
    "for",
    "about",
    "to",
    "at",
    "into",
    "within",
    "around",
    "regarding",
    "concerning",
    "through",
    "over",
];
/// Words that may come in between.
const ARTICLES: [&str; 4] = ["the", "this", "our", "that"];
/// How many words before an id are read.
const REACH: usize = 4;
/// Nouns that make a plain word an id: "issue outage".
const NOUNS: [&str; 8] = ["issue", "constraint", "decision", "task", "blocker", "id", "plan", "learning"];

/// Letters of other scripts, and of Latin, that look like a plain one.
const LOOKS: [(&str, char); 30] = [
    ("аɑα", 'a'),
    ("вβ", 'b'),
    ("сϲ", 'c'),
    ("ԁ", 'd'),
    ("еєεҽ", 'e'),
    ("ɡց", 'g'),
    ("һհ", 'h'),
    ("іıιї", 'i'),
    ("јϳ", 'j'),
    ("кκ", 'k'),
    ("ӏ|ⅼ", 'l'),
    ("мϻ", 'm'),
    ("пηո", 'n'),
    ("оοօ", 'o'),
    ("рρ", 'p'),
    ("ԛզ", 'q'),
    ("гⲅ", 'r'),
    ("ѕ", 's'),
    ("тτ", 't'),
    ("υս", 'u'),
    ("νѵ", 'v'),
    ("ԝω", 'w'),
    ("хχ", 'x'),
    ("уγ", 'y'),
    ("ᴢ", 'z'),
    ("‐‑‒−﹣", '-'),
    ("‿⁀", '_'),
    ("٠۰०", '0'),
    ("١۱१", '1'),
    ("٢۲२", '2'),
];

/// A token as ids are compared: compatibility-composed, lower case.
pub(super) fn normal(token: &str) -> String {
    token.nfkc().flat_map(char::to_lowercase).collect()
}

/// What a token looks like: marks and invisible characters gone, look-alikes replaced.
fn skeleton(normal: &str) -> String {
    normal
        .nfd()
        .filter(|c| !unicode_normalization::char::is_combining_mark(*c) && !is_invisible(*c))
        .map(|c| LOOKS.iter().find(|(looks, _)| looks.contains(c)).map_or(c, |(_, plain)| *plain))
        .collect()
}

fn is_invisible(c: char) -> bool {
    matches!(
        u32::from(c),
        0x00AD | 0x034F | 0x061C | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x2069 | 0xFE00..=0xFE0F | 0xFEFF
    )
}

/// One token of a note.
struct Token {
    normal: String,
    skeleton: String,
    /// Written as a name: `` `x` `` or `#x`.
    marked: bool,
}

fn tokens(text: &str) -> Vec<Token> {
    let is_part = |c: char| {
        c.is_alphanumeric()
            || "_-.".contains(c)
            || is_invisible(c)
            || unicode_normalization::char::is_combining_mark(c)
            || LOOKS.iter().any(|(looks, _)| looks.contains(c) && c != '|')
    };
    let text: String = text.nfkc().collect();
    let mut found = Vec::new();
    let mut before = ' ';
    for piece in text.split_inclusive(|c: char| !is_part(c)) {
        let token = piece.trim_end_matches(|c: char| !is_part(c));
        let bare = token.trim_matches(['.', '-']);
        if !bare.is_empty() {
            let normal = normal(bare);
            found.push(Token { skeleton: skeleton(&normal), normal, marked: before == '`' || before == '#' });
        }
        before = piece.chars().next_back().unwrap_or(' ');
    }
    found
}

/// Whether the text contains the id as a whole token.
pub(crate) fn occurs(text: &str, id: &str) -> bool {
    let id = normal(id);
    tokens(text).iter().any(|token| token.normal == id)
}

/// Tokens of a text that may be ids of rows, each once, up to `most`; ordinary words come last.
pub(crate) fn possible_ids(text: &str, most: usize) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let ids = tokens(text).into_iter().map(|token| token.normal);
    let mut ids: Vec<String> = ids.filter(|id| is_id(id) && seen.insert(id.clone())).collect();
    ids.sort_by_key(|id| id.bytes().all(|byte| byte.is_ascii_lowercase()));
    ids.truncate(most);
    ids
}

/// What the text says about `ids`, each once; asides only for ids that are not also named.
///
/// An id that is a single plain word counts only if it is marked as a name or `wanted` says that it is meant.
pub(super) fn mentions<'a>(
    text: &str,
    ids: impl IntoIterator<Item = &'a str>,
    wanted: Option<&str>,
) -> Vec<Mention<'a>> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for id in ids {
        let folded = normal(id);
        let plain = folded.chars().all(char::is_alphabetic);
        let (mut named, mut aside, mut alike) = (false, false, false);
        for (at, token) in tokens.iter().enumerate() {
            if token.normal == folded {
                let previous: Vec<&str> =
                    tokens.iter().take(at).rev().take(REACH).map(|token| token.normal.as_str()).collect();
                let introduced = previous.first().is_some_and(|word| NOUNS.contains(word));
                if plain && !token.marked && !introduced && wanted != Some(id) {
                    continue;
                }
                let filler = |word: &&&str| NOUNS.contains(*word) || ARTICLES.contains(*word);
                let is_place =
                    previous.iter().find(|word| !filler(word)).is_some_and(|word| PLACES.contains(word));
                if is_place || previous.iter().any(|word| ASIDES.contains(word)) {
                    aside = true;
                } else {
                    named = true;
                }
            } else if token.skeleton == folded {
                alike = true;
            }
        }
        if named {
            found.push(Mention::Named(id));
        }
        if aside {
            found.push(Mention::Aside(id));
        }
        if alike {
            found.push(Mention::LookAlike(id));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_whole_tokens_in_any_case() {
        let ids = ["issue_1", "issue_10", "auth"];
        assert_eq!(mentions("Fixed issue_10.", ids, None), [Mention::Named("issue_10")]);
        assert_eq!(mentions("ISSUE_1 is done", ids, None), [Mention::Named("issue_1")]);
        assert_eq!(mentions("ｉｓｓｕｅ＿１ is done", ids, None), [Mention::Named("issue_1")]);
        assert_eq!(mentions("my_issue_1 and issue_1x", ids, None), []);
        assert_eq!(mentions("the auth works", ids, None), []);
        assert_eq!(mentions("issue auth works, `auth` too", ids, None), [Mention::Named("auth")]);
        assert_eq!(mentions("the auth works", ids, Some("auth")), [Mention::Named("auth")]);
    }

    #[test]
    fn possible_ids_come_before_ordinary_words() {
        let ids = possible_ids("The (`ISSUE_1`) and issue-2: the end, 3rd, é_1", 4);
        assert_eq!(ids, ["issue_1", "issue-2", "the", "and"]);
    }

    #[test]
    fn look_alikes_and_asides_are_not_names() {
        let ids = ["issue_1"];
        for text in ["Fixed issuе_1", "Fixed is\u{200b}sue_1", "Fixed issué_1", "Fixed issue‿1"] {
            assert_eq!(mentions(text, ids, None), [Mention::LookAlike("issue_1")], "{text}");
        }
        assert_eq!(mentions("unrelated to issue_1", ids, None), [Mention::Aside("issue_1")]);
    }
}
