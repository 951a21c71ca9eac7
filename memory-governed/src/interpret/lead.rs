//! The text before and after an explicit form, which may show that the form is not meant.

use super::rules::{MAX_LINES, bare, form, is_fence, prefixed, tells_a_task};
use crate::bucket::Bucket;
use crate::resolve::speech::{Mood, ends_in, states_an_end, tokens, turned, without_quotes};
use crate::resolve::{is_understood, is_unturned};

/// Words of a heading that introduces facts ("Status of today:").
const HEADINGS: [&str; 17] = [
    "status", "update", "updates", "summary", "progress", "today", "standup", "daily", "weekly", "of", "for",
    "the", "my", "our", "this", "run", "done",
];
/// Words of a line between two forms that is read as a heading.
const HEADING_WORDS: usize = 3;

/// Why a note with explicit forms is not taken literally: the text before the first form is not understood, and may be
/// someone else's words, an example, a denial, a condition or a promise; or a later line takes a form back.
pub(crate) fn doubtful_lead(text: &str) -> Option<&'static str> {
    let (mut before, mut in_block, mut forms) = (Vec::new(), false, 0);
    let mut said = Vec::new();
    for line in text.trim().lines().take(MAX_LINES) {
        let fence = is_fence(line);
        in_block ^= fence;
        if in_block || fence || !(prefixed(line).is_some() || tells_a_task(line)) {
            before.push(line);
            continue;
        }
        if let Some(reason) = if forms == 0 { lead(&before) } else { between(&before) } {
            return Some(reason);
        }
        if let Some(request) = form(line).filter(|request| STATES.contains(&request.bucket)) {
            let is_of = |(bucket, id, _): &(Bucket, Option<String>, _)| {
                *bucket == request.bucket && (*bucket == Bucket::Plan || *id == request.target_id)
            };
            match said.iter().find(|one| is_of(one)) {
                Some((.., payload)) if *payload != request.payload => return Some(CONTRADICTED),
                Some(_) => {}
                None => said.push((request.bucket, request.target_id, request.payload)),
            }
        }
        before.clear();
        forms += 1;
    }
    retraction(text)
}

/// Buckets in which a note gives a row a single state.
const STATES: [Bucket; 2] = [Bucket::Plan, Bucket::TaskState];

const INTRODUCED: &str =
    "what stands before it introduces it, and may be somebody else's words or an example";
const NOT_UNDERSTOOD: &str =
    "what stands before it is not understood, and may turn it; the form alone says it";
const CONTRADICTED: &str = "the note says two things of one row; the one that holds says it alone";
const RETRACTED: &str = "a line below may take it back";

/// What is wrong with the text before the first form.
fn lead(lines: &[&str]) -> Option<&'static str> {
    let spoken = without_quotes(&lines.join("\n"));
    let is_rule = |line: &str| line.chars().all(|c| c.is_whitespace() || "-=_*#".contains(c));
    let is_known = |line: &str| is_rule(line) || is_heading(line) || is_understood(bare(line));
    let unknown = spoken.lines().find(|line| !is_known(line))?;
    Some(turns(unknown).unwrap_or(NOT_UNDERSTOOD))
}

/// Words that take back what was said.
const RETRACTS: [&str; 9] =
    ["sorry", "oops", "scratch", "correction", "disregard", "ignore", "forget", "wait", "retract"];

/// A line after a form that takes back one of the note's forms, or denies what another of them says, by its id.
fn retraction(text: &str) -> Option<&'static str> {
    let (mut ids, mut below, mut in_block): (Vec<String>, Vec<&str>, bool) = (Vec::new(), Vec::new(), false);
    let mut form = None;
    for line in text.trim().lines().take(MAX_LINES) {
        in_block ^= is_fence(line);
        let is_form = !in_block && (prefixed(line).is_some() || tells_a_task(line));
        if !is_form && has_words(line) && form.is_some_and(|bucket| may_turn(bucket, line)) {
            return Some(RETRACTED);
        }
        if is_form {
            form = match prefixed(line) {
                Some(request) => request.ok().map(|request| request.bucket),
                None => Some(Bucket::TaskState),
            };
            ids.extend(tokens(line).into_iter().nth(1));
        } else if !ids.is_empty() && !in_block && bare(line).len() == line.trim().len() {
            below.push(line);
        }
    }
    let takes_back = |line: &&str| {
        let words = tokens(line);
        let first =
            words.iter().find(|word| *word != "no").is_some_and(|word| RETRACTS.contains(&word.as_str()));
        first || (turned(line).is_some() && words.iter().any(|word| ids.contains(word)))
    };
    below.iter().any(takes_back).then_some(RETRACTED)
}

/// Whether a line below the state of a task, or a number, may say that it is not so.
fn may_turn(form: Bucket, line: &str) -> bool {
    let is_own = || {
        !ends_in(&tokens(line)).is_empty()
            || line.contains(" also called ")
            || line.contains(" also known as ")
    };
    match form {
        Bucket::TaskState if is_own() => turned(line).is_some(),
        Bucket::TaskState => !is_understood(bare(line)) && !is_heading(line),
        Bucket::Results => turned(line).is_some() || !is_unturned(line),
        _ => false,
    }
}

/// What is wrong with the text between two forms. It belongs to the first, so only its end affects the second.
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
    has_words(line) && tokens(line).iter().all(|word| HEADINGS.contains(&word.as_str()))
}

/// How a sentence changes the meaning of what follows.
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
