//! Forms that would replace what a row is, although they may only tell how it stands: "issue ID: restarted", "plan: on hold".

use crate::bucket::Bucket;
use crate::columns::main_text;
use crate::projection::Row;
use crate::request::WriteRequest;
use crate::resolve::speech::{ends_in, tokens};
use crate::resolve::{folded, is_unturned, stems};

/// Words that begin the news of a plan, and no plan.
const NEWS: &str = "on see same as is was has unchanged ok okay none tbd ready approved active over ended expired obsolete stopped \
     paused suspended delayed late merged shipped waived paused changed updated";

/// Why a write may not replace what the row says it is. Another title has most words of the one before, or the note calls it so
/// (`issue ID: title: TEXT`); what has not may be news of the row.
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
    // Another number is the same text with another number.
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

/// Whether a text begins as news of something do.
pub(super) fn is_news(text: &str) -> bool {
    let Some(first) = &tokens(text).into_iter().next() else { return true };
    NEWS.split_whitespace().any(|word| word == first)
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
