//! Forms that would replace a row's content although they may only report its state: "issue ID: restarted", "plan: on
//! hold".

use crate::bucket::Bucket;
use crate::columns::main_text;
use crate::projection::Row;
use crate::request::WriteRequest;
use crate::resolve::speech::{Mood, asks, ends_in, tokens, turned};
use crate::resolve::{folded, is_unturned, stems};

/// Words that start news about a plan rather than a plan.
const NEWS: &str = "on see same as is was has unchanged ok okay none tbd ready approved active over ended expired obsolete stopped \
     paused suspended delayed late merged shipped waived paused changed updated scrapped dead agreed yes lgtm";
/// Phrases that do.
const NEWS_PHRASES: [&str; 5] = ["the plan is ", "we have no ", "there is no ", "to be ", "no plan"];

/// Words that may report an end, but in no known form.
pub(super) const MAY_END: &str = "patched repaired mitigated remedied corrected addressed eliminated removed cured disappeared vanished stopped ended ends over expired cancelled \
     canceled obsolete works working passes recovered restored merged shipped cleared settled abandoned reversed repealed abolished waived";

/// Why a write may not replace a row's content. A new title must share most words with the old one, or the note must
/// call it a title (`issue ID: title: TEXT`); anything else may be news about the row.
pub(crate) fn replaced(note: &str, row: &Row, request: &WriteRequest) -> Option<&'static str> {
    if row.bucket == Bucket::Plan {
        let plan = request.payload.get("plan_json")?.as_str()?;
        return (!calls(note, "plan_json") && is_news(plan))
            .then_some("it may tell how the plan stands, and is none: a plan says what will be done");
    }
    let member = main_text(row.bucket)?;
    let (said, before) = (request.payload.get(member)?.as_str()?, row.text(member)?);
    if folded(said) == folded(before) || calls(note, member) {
        return None;
    }
    if turns(said, before) {
        return Some(
            "it may say that the row has ended or is wrong, and no new text: `ID is resolved` or `constraint ID is lifted` ends it",
        );
    }
    // Digits do not matter: "5 GB" and "8 GB" are the same words.
    let stems = |text: &str| stems(&text.replace(|c: char| c.is_ascii_digit(), "0"));
    let (said, before) = (stems(said), stems(before));
    let shared = before.iter().filter(|stem| said.contains(stem)).count();
    if 2 * shared >= before.len() {
        return None;
    }
    match row.bucket {
        Bucket::Issues => {
            Some("it may be news of the issue: another title is written `issue ID: title: TEXT`")
        }
        Bucket::Constraints => {
            Some("it may be news of the constraint: another text is written `constraint ID: text: TEXT`")
        }
        _ => None,
    }
}

/// Whether a decision repeats the id of a current one and may take it back: "we no longer send events over Kafka".
pub(crate) fn takes_back(row: &Row, request: &WriteRequest) -> bool {
    let text = main_text(row.bucket)
        .and_then(|member| Some((request.payload.get(member)?.as_str()?, row.text(member)?)));
    row.is_live() && text.is_some_and(|(said, before)| folded(said) != folded(before) && turns(said, before))
}

/// First words of text that only asks, or is not decided yet; the others ask if a pronoun follows ("should we move").
const SUPPOSES: [&str; 11] = [
    "if",
    "unless",
    "whether",
    "tbd",
    "tba",
    "proposal",
    "proposed",
    "draft",
    "suggestion",
    "idea",
    "pending",
];
const ASKING: [&str; 12] =
    ["should", "shall", "is", "are", "was", "do", "does", "did", "can", "could", "would", "will"];
const ASKED: [&str; 9] = ["we", "i", "you", "they", "it", "the", "this", "that", "anybody"];
/// Expressions of the writer's doubt, if among the first words.
const DOUBTS: [&str; 13] = [
    "maybe",
    "perhaps",
    "possibly",
    "probably",
    "presumably",
    "apparently",
    "hopefully",
    "tentatively",
    "think",
    "believe",
    "guess",
    "suppose",
    "might",
];
const DOUBTS_WITHIN: usize = 4;

/// Whether the writer of a text expresses doubt.
pub(super) fn doubts(text: &str) -> bool {
    tokens(text).iter().any(|word| DOUBTS.contains(&word.as_str()))
}

/// Whether a rule or decision only asks or supposes: it has a question mark, starts with "if", "proposal" or "should
/// we", or has a doubt among its first words ("we might …").
pub(crate) fn supposes(request: &WriteRequest) -> bool {
    let said = main_text(request.bucket).and_then(|member| request.payload.get(member)?.as_str());
    said.is_some_and(|said| {
        let words = tokens(said);
        let is = |at: usize, list: &[&str]| words.get(at).is_some_and(|word| list.contains(&word.as_str()));
        asks(said)
            || is(0, &SUPPOSES)
            || (is(0, &ASKING) && is(1, &ASKED))
            || (is(0, &["to"]) && is(1, &["be"]))
            || (0..DOUBTS_WITHIN).any(|at| is(at, &DOUBTS))
    })
}

/// Words after a verb of ending that make it the news of something: "fixed the importer", not "fixed IP addresses only".
const AFTER_AN_END: &str = "the a an our my this that it them all both by in on with via using through since because as so for now today \
     yesterday already";

/// Whether the words of a new row may say that something has ended: "resolved", "fixed the importer", "solved by Ida".
/// A title may also start with such a word ("Done button missing").
pub(crate) fn may_be_an_end(said: &str) -> bool {
    let words = tokens(said);
    let Some(first) = words.first() else { return false };
    let is_end = first == "gone" || first == "done" || first == "unblocked" || first.ends_with("ed");
    let known = !ends_in(std::slice::from_ref(first)).is_empty()
        || MAY_END.split_whitespace().any(|word| word == first)
        || ["solved", "unblocked"].contains(&first.as_str());
    let next = words.get(1);
    is_end && known && next.is_none_or(|next| AFTER_AN_END.split_whitespace().any(|word| word == next))
}

/// Words that a condition in a text may have.
const CONDITIONS: &str = "if when once until till unless whether pending provided";
/// More words that change the meaning of a text.
const WRONG: &str = "wrong false untrue incorrect invalid mistaken outdated nonsense anymore solved";

/// Whether words missing from the earlier text end, deny or doubt what it says.
fn turns(said: &str, before: &str) -> bool {
    let is = |list: &str, word: &str| list.split_whitespace().any(|one| one == word);
    let known = tokens(before);
    let turns_one = |word: &String| {
        !ends_in(std::slice::from_ref(word)).is_empty()
            || is(MAY_END, word)
            || is(WRONG, word)
            || match turned(word) {
                Some(Mood::Negated) => true,
                Some(Mood::Conditional) => !is(CONDITIONS, word),
                _ => false,
            }
    };
    let words = tokens(said);
    let denies = |words: &[String]| {
        words.iter().any(|word| word.ends_with("n't") || DENIES.split_whitespace().any(|one| one == word))
    };
    (asks(said) && !asks(before))
        || words.iter().any(|word| !known.contains(word) && turns_one(word))
        || (denies(&known) && !denies(&words))
}

/// Without these a text may say the contrary: "deploys on Fridays" for "no deploys on Fridays".
const DENIES: &str = "no not never cannot none without nobody nothing neither";

/// Whether a text starts the way news does.
pub(crate) fn is_news(text: &str) -> bool {
    let words = tokens(text);
    let Some(first) = words.first() else { return true };
    let lower = text.trim_start().to_lowercase();
    // "Scrap it", "+1".
    let is_remark = words.len() <= 3 && words.last().is_some_and(|last| last == "it")
        || words.iter().all(|word| word.parse::<u32>().is_ok());
    is_remark
        || NEWS_PHRASES.iter().any(|phrase| lower.starts_with(phrase))
        || NEWS.split_whitespace().any(|word| word == first)
        || ((first.ends_with("ed") || first == "done" || first == "gone")
            && !ends_in(std::slice::from_ref(first)).is_empty())
        || !is_unturned(first)
}

/// Whether a note calls something by the name of a member: `title: …`.
fn calls(note: &str, member: &str) -> bool {
    let lower = note.to_lowercase();
    lower.match_indices(member).any(|(at, _)| {
        let after = lower.get(at + member.len()..).unwrap_or_default();
        after.trim_start_matches(['"', '*', '`']).starts_with(':')
    })
}
