//! What stands before an explicit form: it may say that the form is not meant.

use super::rules::{MAX_LINES, is_fence, prefixed, tells_a_task};
use crate::resolve::speech::{Mood, ends_in, sentences, states_an_end, tokens, turned};

/// Words of a heading that introduces what is so ("Status of today:").
const HEADINGS: [&str; 17] = [
    "status", "update", "updates", "summary", "progress", "today", "standup", "daily", "weekly", "of", "for",
    "the", "my", "our", "this", "run", "done",
];
/// Before these a line goes on in the next one.
const OPEN: [char; 9] = [':', '：', ',', ';', '—', '–', '-', '…', '='];
/// Words of a line between two forms that is read as a heading.
const HEADING_WORDS: usize = 3;

/// Why a note with explicit forms is not taken at its word: what stands before one of them introduces it as another's words,
/// an example or a list, or denies, supposes, asks or promises it.
pub(crate) fn doubtful_lead(text: &str) -> Option<&'static str> {
    let (mut before, mut in_block, mut is_first) = (Vec::new(), false, true);
    for line in text.trim().lines().take(MAX_LINES) {
        let fence = is_fence(line);
        in_block ^= fence;
        if in_block || fence || !(prefixed(line).is_some() || tells_a_task(line)) {
            before.push(line);
            continue;
        }
        if let Some(reason) = if is_first { lead(&before) } else { between(&before) } {
            return Some(reason);
        }
        before.clear();
        is_first = false;
    }
    None
}

const INTRODUCED: &str =
    "what stands before it introduces it, and may be somebody else's words or an example";
const QUOTED: &str = "what stands before it quotes";

/// What is wrong with all that stands before the first form.
fn lead(lines: &[&str]) -> Option<&'static str> {
    let said: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| has_words(line)).collect();
    if said.iter().any(|line| introduces(line)) || said.last().is_some_and(|line| line.ends_with(OPEN)) {
        let is_heading = said.iter().all(|line| !line.ends_with(OPEN) || is_heading(line));
        if !is_heading {
            return Some(INTRODUCED);
        }
    }
    let text = lines.join("\n");
    let is_open = |open: char, close: char| text.matches(open).count() > text.matches(close).count();
    if lines.iter().any(|line| line.trim_start().starts_with(['>', '<']) || is_fence(line))
        || text.matches('"').count() % 2 == 1
        || is_open('“', '”')
        || is_open('«', '»')
    {
        return Some(QUOTED);
    }
    sentences(&text).into_iter().find_map(turns)
}

/// What is wrong with what stands between two forms. It belongs to the one before, so only its end is about the next one.
fn between(lines: &[&str]) -> Option<&'static str> {
    let last = lines.iter().rev().map(|line| line.trim()).find(|line| has_words(line))?;
    if introduces(last) && !is_heading(last) {
        return Some(INTRODUCED);
    }
    if tokens(last).len() <= HEADING_WORDS { turns(last) } else { None }
}

fn has_words(line: &str) -> bool {
    line.contains(char::is_alphanumeric)
}

fn introduces(line: &str) -> bool {
    line.trim_end_matches(['*', '_', '`', ' ']).ends_with([':', '：'])
}

fn is_heading(line: &str) -> bool {
    tokens(line).iter().all(|word| HEADINGS.contains(&word.as_str()))
}

/// How a sentence turns what follows it.
fn turns(sentence: &str) -> Option<&'static str> {
    if !ends_in(&tokens(sentence)).is_empty() && states_an_end(sentence).is_none() {
        return None;
    }
    Some(match turned(sentence)? {
        Mood::Negated => "what stands before it denies something",
        Mood::Conditional => "what stands before it supposes something",
        Mood::Question => "what stands before it asks",
        Mood::Quoted => "what stands before it reports the words of others, or gives an example",
        Mood::Future => "what stands before it promises or demands something",
    })
}
