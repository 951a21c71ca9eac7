//! What a note says about the row it ends.

use super::words::{Word, acts, folded, grams, labels, names, neighbours, set, words};

/// A later sentence with one of these is about something else.
const ELSEWHERE: [&str; 22] = [
    "follow-up",
    "follow up",
    "followup",
    "filed",
    "remaining",
    "deferred",
    "future",
    "out of scope",
    "next step",
    "later",
    "todo",
    "not yet",
    "still open",
    "separate issue",
    "separate bead",
    "separately",
    "blocked by",
    "unblocks",
    "unblocked",
    "tracked",
    "remains open",
    "left for",
];
/// How many words belong to the part that says what was done.
const HEAD: usize = 25;
/// A first part with fewer words is a mere "Fixed:".
const SHORT_HEAD: usize = 3;
/// How many words may say what was done.
const ACT: usize = 3;

/// The words of a note.
#[derive(Clone, Debug)]
pub(super) struct NoteWords {
    /// In order, without sentences about something else.
    pub(super) words: Vec<Word>,
    /// Each once, sorted.
    pub(super) set: Vec<Word>,
    /// Of the first part, which says what was done. Each once, sorted.
    pub(super) head: Vec<Word>,
    /// The first part in order.
    pub(super) head_words: Vec<Word>,
    pub(super) head_grams: Vec<u64>,
    /// What was done, according to the first part.
    pub(super) acts: u16,
    /// Stems' first five characters, sorted.
    pub(super) prefixes: Vec<u64>,
    /// Neighbouring words, sorted.
    pub(super) pairs: Vec<(u64, u64)>,
    pub(super) names: Vec<String>,
    pub(super) labels: Vec<(u64, u64)>,
    pub(super) grams: Vec<u64>,
    pub(super) folded: String,
    /// Whether it speaks of parts of a larger piece of work.
    pub(super) children: bool,
    /// Sentences left out.
    pub(super) left_out: usize,
}

impl NoteWords {
    pub(super) fn new(text: &str) -> Self {
        let (mut kept, mut left_out) = (String::new(), 0);
        for (at, sentence) in sentences(text).into_iter().enumerate() {
            let lower = sentence.to_lowercase();
            if at > 0 && ELSEWHERE.iter().any(|word| lower.contains(word)) {
                left_out += 1;
            } else {
                kept.push_str(sentence);
                kept.push(' ');
            }
        }
        let all = words(&kept);
        let mut prefixes: Vec<u64> = all.iter().map(|word| word.prefix).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut pairs: Vec<(u64, u64)> = neighbours(&all).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let folded_note = folded(&kept);
        let (head_text, head_words) = head(&kept);
        Self {
            set: set(&all),
            head: set(&head_words),
            head_grams: grams(&folded(&head_text)),
            acts: acts(&head_text, ACT),
            head_words,
            words: all,
            prefixes,
            pairs,
            names: names(&kept),
            labels: labels(&folded_note),
            grams: grams(&folded_note),
            children: ["child", "subtask", "sub-task", "sub-issue", "all tasks"]
                .iter()
                .any(|word| folded_note.contains(word)),
            folded: folded_note,
            left_out,
        }
    }
}

/// The sentences of a text: up to `.`, `!`, `?` or `;` before white space, or the end of a line.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    split(text, |c, next| c == '\n' || (".!?;".contains(c) && next.is_none_or(char::is_whitespace)))
}

fn split(text: &str, ends: impl Fn(char, Option<char>) -> bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if ends(c, rest.peek().map(|(_, next)| *next)) {
            let end = at + c.len_utf8();
            parts.extend(text.get(start..end).map(str::trim).filter(|part| !part.is_empty()));
            start = end;
        }
    }
    parts.extend(text.get(start..).map(str::trim).filter(|part| !part.is_empty()));
    parts
}

/// The text up to the first pause after enough words, and its words.
fn head(text: &str) -> (String, Vec<Word>) {
    let parts = split(text, |c, next| {
        "\n—–".contains(c) || (".!?;:".contains(c) && next.is_none_or(char::is_whitespace))
    });
    let (mut text, mut head) = (String::new(), Vec::new());
    for part in parts.iter().flat_map(|part| part.split(" - ")) {
        head.extend(words(part));
        text.push_str(part);
        text.push(' ');
        if head.len() >= SHORT_HEAD {
            break;
        }
    }
    head.truncate(HEAD);
    (text, head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sentences_about_something_else_are_left_out() {
        let note = NoteWords::new("Parser is fast. Follow-up filed for the lexer. Version 1.2 shipped.");
        assert_eq!(note.left_out, 1);
        assert!(!note.folded.contains("lexer") && note.folded.contains("version 1.2 shipped"));
    }

    #[test]
    fn the_head_is_what_comes_before_the_first_pause() {
        assert_eq!(NoteWords::new("Fixed: the parser drops commas. Also docs").head.len(), 4);
        assert_eq!(NoteWords::new("Rewrote parser in main.rs: now it is fast").head, {
            set(&words("rewrote parser main.rs"))
        });
    }
}
