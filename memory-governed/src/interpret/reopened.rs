//! The command that opens an issue again.

use crate::request::is_id;
use crate::resolve::speech::{Mood, asks, ends_in, tokens, turned};

/// The issue that a note opens again: `reopen ID`, `reopen issue ID: REASON`. The note is the command and its reason, and nothing
/// else; words that tell of a row ("ID was reopened") open none.
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

/// Whether the reason of a reopening turns it: "only if it fails again", "not yet", "should we?".
pub(crate) fn is_turned(text: &str) -> bool {
    let Some((_, reason)) = text.split_once(':') else { return false };
    let words = tokens(reason);
    let Some(first) = words.first() else { return asks(reason) };
    let denies_an_end = || first != "no" && !ends_in(&words).is_empty();
    asks(reason)
        || first == "only"
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
        ] {
            assert!(!is_turned(text), "{text}");
        }
    }
}
