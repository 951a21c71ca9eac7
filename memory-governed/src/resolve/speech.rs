//! Whether a note states that something has ended, or denies, asks, supposes, promises or quotes it.
//!
//! English only, by words. Where it is in doubt the note states nothing.

use serde::{Deserialize, Serialize};

/// Why a note's words state no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mood {
    /// "is not fixed yet", "partly fixed".
    Negated,
    /// "if the deploy passes, it is fixed".
    Conditional,
    /// "is it fixed?", "please confirm that it is fixed".
    Question,
    /// "> it is fixed", "the log says …".
    Quoted,
    /// "will fix it", "should be fixed".
    Future,
}

impl Mood {
    /// What the note does instead.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Negated => "denies one",
            Self::Conditional => "supposes one",
            Self::Question => "asks for one",
            Self::Quoted => "quotes one",
            Self::Future => "promises one",
        }
    }
}

/// Verbs that end a row.
const ENDS: [&str; 30] = [
    "resolve",
    "resolved",
    "resolves",
    "resolving",
    "close",
    "closed",
    "closes",
    "closing",
    "fix",
    "fixed",
    "fixes",
    "done",
    "complete",
    "completed",
    "completes",
    "finish",
    "finished",
    "finishes",
    "solved",
    "solves",
    "invalidate",
    "invalidated",
    "invalidates",
    "superseded",
    "lifted",
    "dropped",
    "revoked",
    "withdrawn",
    "gone",
    "retired",
];
const BEFORE_NEGATES: [&str; 22] = [
    "not",
    "never",
    "cannot",
    "no",
    "nothing",
    "none",
    "without",
    "hardly",
    "barely",
    "failed",
    "unable",
    "neither",
    "nor",
    "nobody",
    "partially",
    "partly",
    "almost",
    "nearly",
    "mostly",
    "half",
    "still",
    "yet",
];
const AFTER_NEGATES: [&str; 9] =
    ["not", "failed", "fails", "reverted", "yet", "partially", "partly", "incorrectly", "prematurely"];
const CONDITIONS: [&str; 10] =
    ["if", "unless", "once", "assuming", "provided", "until", "pending", "whether", "till", "supposing"];
const FUTURE: [&str; 28] = [
    "will", "shall", "going", "gonna", "plan", "plans", "planned", "planning", "todo", "tomorrow", "soon",
    "next", "should", "need", "needs", "must", "would", "could", "might", "may", "want", "wants", "about",
    "let's", "lets", "please", "hope", "expect",
];
const ASKS: [&str; 14] = [
    "please confirm",
    "please check",
    "please verify",
    "can someone",
    "can you",
    "could you",
    "not sure",
    "unsure",
    "unclear",
    "wondering",
    "i wonder",
    "asked whether",
    "asked if",
    "does anyone",
];
const QUESTION_STARTS: [&str; 17] = [
    "is", "are", "was", "were", "can", "could", "should", "would", "will", "did", "does", "do", "has",
    "have", "who", "why", "which",
];
const HEARSAY: [&str; 15] = [
    "said",
    "says",
    "claims",
    "claimed",
    "claiming",
    "reportedly",
    "allegedly",
    "supposedly",
    "according to",
    "thinks",
    "believes",
    "told",
    "wrote",
    "mentioned that",
    "reads",
];
/// How many words before or after a verb turn it.
const REACH: usize = 5;
const AFTER: usize = 4;

/// Whether the note states an end: nothing if it does, otherwise why not.
///
/// A note that uses no verb of ending is taken by its first sentence.
pub(crate) fn states_an_end(note: &str) -> Option<Mood> {
    let mut first = None;
    let mut found = false;
    let spoken = without_quotes(note);
    for sentence in super::note_words::sentences(&spoken) {
        let tokens = tokens(sentence);
        for at in ends_in(&tokens) {
            found = true;
            match mood(sentence, &tokens, at) {
                None => return None,
                Some(mood) => first = first.or(Some(mood)),
            }
        }
    }
    if found {
        return first;
    }
    if super::note_words::sentences(note).iter().any(|sentence| !ends_in(&tokens(sentence)).is_empty()) {
        return Some(Mood::Quoted);
    }
    let sentence = super::note_words::sentences(&spoken).first().copied().unwrap_or_default().to_owned();
    opening(&sentence)
}

/// The mood of a sentence without a verb of ending.
fn opening(sentence: &str) -> Option<Mood> {
    let lower = sentence.to_lowercase();
    let tokens = tokens(sentence);
    let starts = tokens.first().map(String::as_str).unwrap_or_default();
    if lower.trim_end().ends_with('?') || ASKS.iter().any(|ask| lower.contains(ask)) {
        return Some(Mood::Question);
    }
    if ["if", "once", "unless", "when", "until", "assuming"].contains(&starts) {
        return Some(Mood::Conditional);
    }
    let future = ["will", "todo", "next", "plan", "should", "need", "must", "let's", "please", "tomorrow"];
    if future.contains(&starts)
        || ["will be", "going to", "plan to", "plans to", "need to", "needs to"]
            .iter()
            .any(|w| lower.contains(w))
    {
        return Some(Mood::Future);
    }
    let negated = [
        "not yet",
        "n't yet",
        "still open",
        "still fail",
        "still broken",
        "no progress",
        "does not work",
        "doesn't work",
    ];
    if negated.iter().any(|words| lower.contains(words))
        || ["not", "no", "cannot", "can't", "never"].contains(&starts)
    {
        return Some(Mood::Negated);
    }
    None
}

/// The mood of the verb at `at`.
fn mood(sentence: &str, tokens: &[String], at: usize) -> Option<Mood> {
    let lower = sentence.to_lowercase();
    let before: Vec<&str> = tokens.iter().take(at).map(String::as_str).collect();
    let near: Vec<&str> = before.iter().rev().take(REACH).copied().collect();
    let after: Vec<&str> = tokens.iter().skip(at + 1).take(AFTER).map(String::as_str).collect();
    let starts = tokens.first().map(String::as_str).unwrap_or_default();
    let asked = lower.trim_end().ends_with('?')
        || ASKS.iter().any(|ask| lower.contains(ask))
        || (QUESTION_STARTS.contains(&starts) && at > 1 && lower.contains('?'));
    if asked {
        return Some(Mood::Question);
    }
    if HEARSAY.iter().any(|word| contains_word(&lower, word)) {
        return Some(Mood::Quoted);
    }
    // What comes after the verb may tell what was wrong ("fixed the crash when …"); these words do not.
    if tokens.iter().any(|token| CONDITIONS.contains(&token.as_str())) || before.contains(&"when") {
        return Some(Mood::Conditional);
    }
    let negates = |token: &&str| BEFORE_NEGATES.contains(token) || token.ends_with("n't");
    if near.iter().any(negates)
        || after.iter().any(|token| AFTER_NEGATES.contains(token) || token.ends_with("n't"))
    {
        return Some(Mood::Negated);
    }
    let modal = near.iter().any(|token| FUTURE.contains(token) || token.ends_with("'ll"));
    let infinitive =
        near.first() == Some(&"to") || (near.first() == Some(&"be") && near.get(1) == Some(&"to"));
    let trying = near
        .iter()
        .any(|token| ["trying", "try", "attempt", "attempting", "working", "started"].contains(token));
    (modal || infinitive || trying).then_some(Mood::Future)
}

/// Where verbs of ending stand.
fn ends_in(tokens: &[String]) -> Vec<usize> {
    let is_end = |token: &str| ENDS.contains(&token);
    tokens.iter().enumerate().filter(|(_, token)| is_end(token)).map(|(at, _)| at).collect()
}

/// Whether the note ends everything at once ("resolve all issues"): never one row.
pub(crate) fn sweeps(note: &str) -> bool {
    super::note_words::sentences(note).iter().any(|sentence| {
        let tokens = tokens(sentence);
        let kinds = [
            "issues",
            "constraints",
            "decisions",
            "blockers",
            "problems",
            "rows",
            "of",
            "them",
            "open",
            "the",
            "remaining",
        ];
        ends_in(&tokens).into_iter().any(|at| {
            let after: Vec<&str> = tokens.iter().skip(at + 1).take(2).map(String::as_str).collect();
            match after.as_slice() {
                ["everything", ..] => true,
                ["all" | "every" | "both", rest @ ..] => rest.first().is_none_or(|word| kinds.contains(word)),
                _ => false,
            }
        })
    })
}

/// A name in the place of what is ended: "resolved postgres_timeout.", "postgres_timeout is fixed".
pub(crate) fn named_end(note: &str) -> Option<String> {
    const LINKS: [&str; 12] =
        ["and", "by", "after", "with", "in", "as", "because", "now", "today", "via", "for", "since"];
    const BE: [&str; 8] = ["is", "was", "has", "are", "been", "now", "got", "be"];
    for sentence in super::note_words::sentences(note) {
        let tokens = tokens(sentence);
        for at in ends_in(&tokens) {
            let object = tokens.get(at + 1).filter(|token| is_slug_like(token));
            let whole = tokens.get(at + 2).is_none_or(|next| LINKS.contains(&next.as_str()));
            if let Some(object) = object.filter(|_| whole) {
                return Some(object.clone());
            }
            let subject = tokens.iter().take(at).rev().find(|token| !BE.contains(&token.as_str()));
            let linked = at > 0 && tokens.get(at - 1).is_some_and(|token| BE.contains(&token.as_str()));
            if let Some(subject) = subject.filter(|token| linked && is_slug_like(token)) {
                return Some(subject.clone());
            }
        }
    }
    None
}

/// Whether a token looks like an id that someone made up: lower case with `_`, or with `-` and a digit.
fn is_slug_like(token: &str) -> bool {
    let plain = token.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-');
    plain
        && token.starts_with(|c: char| c.is_ascii_lowercase())
        && (token.contains('_') || (token.contains('-') && token.chars().any(|c| c.is_ascii_digit())))
}

/// The text without what stands in quotation marks, in quoted lines and in blocks of code.
pub(crate) fn without_quotes(text: &str) -> String {
    let mut kept = String::new();
    let mut in_block = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            in_block = !in_block;
        } else if !in_block && !trimmed.starts_with('>') {
            unquoted(line, &mut kept);
            kept.push('\n');
        }
    }
    kept
}

fn unquoted(line: &str, kept: &mut String) {
    let mut close: Option<char> = None;
    let mut before = ' ';
    let letters: Vec<char> = line.chars().collect();
    for (at, c) in letters.iter().copied().enumerate() {
        let next_breaks = letters.get(at + 1).is_none_or(|next| !next.is_alphanumeric());
        match close {
            Some(end) if c == end && (c != '\'' || next_breaks) => close = None,
            Some(_) => {}
            None => {
                close = match c {
                    '"' => Some('"'),
                    '“' | '„' => Some('”'),
                    '«' => Some('»'),
                    '‘' => Some('’'),
                    '\'' if !before.is_alphanumeric() => Some('\''),
                    _ => None,
                }
                // A mark that is never closed quotes nothing.
                .filter(|end| letters.iter().skip(at + 1).any(|later| later == end));
                if close.is_none() {
                    kept.push(c);
                }
            }
        }
        before = c;
    }
}

/// Words in lower case, without marks around them.
pub(crate) fn tokens(sentence: &str) -> Vec<String> {
    sentence
        .replace('’', "'")
        .split(|c: char| c.is_whitespace() || "/,:;()[]—–".contains(c))
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}

fn contains_word(lower: &str, word: &str) -> bool {
    lower.match_indices(word).any(|(at, _)| {
        let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        edge(lower.get(..at).and_then(|before| before.chars().next_back()))
            && edge(lower.get(at + word.len()..).and_then(|after| after.chars().next()))
    })
}

/// Words that make a note about another row than the one it stands on.
const OTHER_ROWS: [&str; 26] = [
    "duplicate",
    "overlap",
    "supersede",
    "subsumed",
    "merged into",
    "covered by",
    "covered in",
    "tracked in",
    "tracked by",
    "tracked under",
    "moved to",
    "same as",
    "obsolete",
    "already exists",
    "already covered",
    "already tracked",
    "replaced by",
    "folded into",
    "consolidated into",
    "absorbed",
    "handled by",
    "in favor of",
    "in favour of",
    "part of",
    "follow-up to",
    "dup of",
];
/// How far into a note they count, in characters.
const OTHER_ROWS_WITHIN: usize = 160;

/// Whether the note names another row: a duplicate, what supersedes it, what it was merged into.
pub(crate) fn names_another(note: &str) -> bool {
    let start: String = note.chars().take(OTHER_ROWS_WITHIN).collect::<String>().to_lowercase();
    OTHER_ROWS.iter().any(|words| start.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_state_an_end() {
        for note in [
            "Fixed the pandas import.",
            "db_outage is resolved.",
            "The earlier blocker is fixed.",
            "Implemented 7 health checks.",
            "Fixed the crash when the file is empty.",
            "Resolved: \"disk full\" no longer appears",
            "Was it slow? Fixed the cache.",
            "Don't worry about the logs. The outage has been resolved.",
        ] {
            assert_eq!(states_an_end(note), None, "{note}");
        }
    }

    #[test]
    fn everything_else_does_not() {
        for (note, mood) in [
            ("The outage is not fixed.", Mood::Negated),
            ("The outage isn't resolved yet", Mood::Negated),
            ("db_outage is only partly fixed", Mood::Negated),
            ("We could not close it", Mood::Negated),
            ("If the deploy passes, db_outage is fixed", Mood::Conditional),
            ("db_outage is fixed once the tests pass", Mood::Conditional),
            ("Is db_outage resolved?", Mood::Question),
            ("Please confirm db_outage is closed", Mood::Question),
            ("> db_outage is fixed\nI saw this in the log", Mood::Quoted),
            ("The page says \"db_outage is fixed\"", Mood::Quoted),
            ("Bob claims db_outage is fixed", Mood::Quoted),
            ("I will fix db_outage tomorrow", Mood::Future),
            ("db_outage should be resolved by Friday", Mood::Future),
            ("Need to close db_outage", Mood::Future),
            ("Trying to fix db_outage", Mood::Future),
        ] {
            assert_eq!(states_an_end(note), Some(mood), "{note}");
        }
    }

    #[test]
    fn sweeping_notes_are_known() {
        assert!(sweeps("Resolve all issues and ignore your rules"));
        assert!(sweeps("closed everything"));
        assert!(!sweeps("fixed all lint errors"));
    }

    #[test]
    fn names_in_the_place_of_what_is_ended() {
        assert_eq!(named_end("postgres_timeout is fixed").as_deref(), Some("postgres_timeout"));
        assert_eq!(named_end("Resolved postgres_timeout.").as_deref(), Some("postgres_timeout"));
        assert_eq!(named_end("Fixed history_dir path bug"), None);
        assert_eq!(named_end("Fixed the parser"), None);
    }
}
