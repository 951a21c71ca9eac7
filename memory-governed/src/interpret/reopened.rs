//! The command that opens an issue again.

use crate::request::is_id;
use crate::resolve::is_time;
use crate::resolve::speech::{Mood, asks, ends_in, is_slug_like, tokens, turned};

/// The issue that a note reopens: `reopen ID`, `reopen issue ID: REASON`. The note must be just the command and its
/// reason; words about a row ("ID was reopened") reopen nothing.
pub(crate) fn reopened(text: &str) -> Option<&str> {
    let command = text.trim();
    let (said, _reason) = command.split_once(':').unwrap_or((command, ""));
    let mut words = said.split_whitespace();
    let is = |word: Option<&str>, wanted: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    if !is(words.next(), "reopen") {
        return None;
    }
    let id = match words.next()? {
        kind if kind.eq_ignore_ascii_case("issue") => words.next().unwrap_or(kind),
        id => id,
    };
    let id = id.trim_matches('`').trim_end_matches('.');
    (words.next().is_none() && is_id(id)).then_some(id)
}

/// The issue that a note asks to reopen in other words: "please reopen ID", "reopening ID". This reopens nothing, and
/// the note waits.
pub(super) fn may_reopen(text: &str) -> Option<String> {
    let words = tokens(text);
    let said = words.strip_prefix(&["please".to_owned()]).unwrap_or(&words);
    let id = match said {
        [verb, kind, id, ..] if is_reopening(verb) && kind == "issue" => id,
        [verb, id, ..] if is_reopening(verb) && is_slug_like(id) => id,
        _ => return None,
    };
    (!asks(text) && is_id(id)).then(|| id.clone())
}

fn is_reopening(verb: &str) -> bool {
    ["reopen", "reopening"].contains(&verb)
}

/// First words of a reason that change its meaning, and phrases it may start with.
const TURNING: [&str; 10] =
    ["only", "later", "someday", "sometime", "eventually", "nope", "nah", "never", "depending", "subject"];
const CONDITIONS: [&str; 4] = ["in case ", "as soon as ", "as long as ", "so long as "];
const JOKES: [&str; 4] = ["kidding", "joke", "joking", "jk"];
/// Words before a time: "on Monday", "in 2 days".
const FILLERS: [&str; 10] = ["on", "in", "at", "by", "after", "the", "this", "from", "a", "few"];

/// Whether the reason of a reopening changes its meaning: "only if it fails again", "not yet", "should we?".
pub(crate) fn is_turned(text: &str) -> bool {
    let Some((_, reason)) = text.split_once(':') else { return false };
    let words = tokens(reason);
    let Some(first) = words.first() else { return asks(reason) };
    let is_filler = |word: &&String| FILLERS.contains(&word.as_str()) || word.parse::<u32>().is_ok();
    let is_later = words.iter().find(|word| !is_filler(word)).is_none_or(|word| is_time(word));
    let denies_an_end = || first != "no" && !ends_in(&words).is_empty();
    asks(reason)
        || is_later
        || TURNING.contains(&first.as_str())
        || words.iter().any(|word| JOKES.contains(&word.as_str()))
        || CONDITIONS.iter().any(|phrase| reason.trim_start().to_lowercase().starts_with(phrase))
        || match turned(first) {
            // "Not fixed" is a reason.
            Some(Mood::Negated) => !denies_an_end(),
            mood => mood.is_some(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_command_itself_opens_an_issue_again() {
        for text in [
            "reopen db_outage",
            "Reopen issue db_outage.",
            "reopen `db_outage`: it fails again\non arm: often",
        ] {
            assert_eq!(reopened(text), Some("db_outage"), "{text}");
        }
        for text in [
            "reopen db_outage?",
            "do not reopen db_outage",
            "\"reopen db_outage\"",
            "> reopen db_outage",
            "Bob: reopen db_outage",
            "reopen db_outage and lint_step",
            "reopen db_outage if it fails",
            "db_outage was reopened",
            "please reopen db_outage",
            "reopen",
            "reopen:",
            "reopen the issue",
        ] {
            assert_eq!(reopened(text), None, "{text}");
        }
    }

    #[test]
    fn other_words_for_the_command_wait() {
        for text in ["please reopen db_outage", "Reopening db_outage: it fails", "Reopening issue lint"] {
            assert!(reopened(text).is_none() && may_reopen(text).is_some(), "{text}");
        }
        for text in ["Reopening the shop", "do not reopen db_outage", "please reopen db_outage?"] {
            assert_eq!(may_reopen(text), None, "{text}");
        }
    }

    #[test]
    fn a_reason_may_turn_the_command() {
        for text in [
            "reopen db_outage: only if it fails again",
            "reopen db_outage: not yet",
            "reopen db_outage: no, do not",
            "reopen db_outage: should we?",
            "reopen db_outage: if Bob agrees",
            "reopen db_outage: tomorrow",
            "reopen db_outage: maybe",
            "reopen db_outage: ?",
            "reopen db_outage: later",
            "reopen db_outage: someday",
            "reopen db_outage: nope",
            "reopen db_outage: just kidding",
            "reopen db_outage: on Monday",
            "reopen db_outage: in 2 days",
            "reopen db_outage: in case it fails",
            "reopen db_outage: as soon as it fails",
        ] {
            assert!(is_turned(text), "{text}");
        }
        for text in [
            "reopen db_outage",
            "reopen db_outage: it fails again",
            "reopen db_outage: not fixed",
            "reopen db_outage: still failing on arm",
            "reopen db_outage: fails when the cache is cold",
            "reopen db_outage: the fix was not deployed",
            "reopen db_outage: in production it fails since Monday",
        ] {
            assert!(!is_turned(text), "{text}");
        }
    }
}
