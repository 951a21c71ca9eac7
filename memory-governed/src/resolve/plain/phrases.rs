//! Phrases that are known on their own: by what means, and that somebody keeps watching.

use super::tokens::{Token, change, is, is_calm_token, is_word, is_word_of, skip, take, word};
use super::words::{GERUNDS, GONE, IT, KNOWN_MEANS, PEOPLE, REPORTED, WATCHES, WORKED};

/// Whether a phrase says only by what means, not when, what is left open, or who says so: "by restarting it", "with PR
/// 12", "by the new parser".
pub(super) fn is_means(by: &str, phrase: &[Token]) -> bool {
    let end = phrase.iter().position(|token| is_word(token, "in on")).unwrap_or(phrase.len());
    !["by", "with"].contains(&by)
        || change(phrase).is_some()
        || (by == "by" && is_work_in_hand(phrase))
        || phrase.get(..end).and_then(<[Token]>::last).is_some_and(|token| is_word(token, KNOWN_MEANS))
}

/// "Restarting it", "bumping the driver", and not "moving it", "pretending".
fn is_work_in_hand(phrase: &[Token]) -> bool {
    let Some(stem) = word(phrase).strip_suffix("ing") else { return false };
    let rest = phrase.get(1..).unwrap_or_default();
    let of = |list: &str| {
        let forms = list.split_whitespace().filter_map(|word| word.strip_suffix("ed"));
        forms.into_iter().any(|form| form == stem)
    };
    let is_gone = is(word(phrase), GONE.split_whitespace()) && is_word_of(rest, IT);
    !is_gone && ([WORKED, REPORTED].into_iter().any(of) || is(word(phrase), GERUNDS.split_whitespace()))
}

/// "Will watch it tomorrow".
pub(super) fn is_watch(tokens: &[Token]) -> bool {
    let rest = take(tokens, "i'll we'll").or_else(|| take(skip(tokens, PEOPLE), "will"));
    rest.and_then(|rest| take(rest, WATCHES))
        .is_some_and(|rest| rest.iter().all(is_calm_token) || is_soon(rest))
}

fn is_soon(tokens: &[Token]) -> bool {
    let rest = skip(tokens, IT);
    take(rest, "tomorrow").is_some_and(<[Token]>::is_empty)
}
