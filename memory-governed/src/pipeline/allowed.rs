//! What a note may start or change without review, however it is interpreted.

use crate::bucket::{Bucket, Operation};
use crate::columns::{OWNER, main_text};
use crate::interpret::{has_form, is_news, may_be_an_end, replaced, supposes};
use crate::note::{Note, NoteSource, Trust};
use crate::projection::Row;
use crate::request::WriteRequest;
use crate::resolve::speech::{sentences, tokens, turned, without_quotes};
use crate::resolve::{has_phrase, names};

/// Why an upsert may not change an existing row: the id comes only from the interpreter, the note does not say what it
/// is taken to mean, or the writer may only add.
pub(super) fn may_not_change(row: &Row, note: &Note, request: &WriteRequest) -> Option<&'static str> {
    if request.operation != Operation::Upsert {
        return None;
    }
    let agent = note.actor.agent.as_str();
    let is_own = row.created_by == agent
        || row.fields.get(OWNER).and_then(serde_json::Value::as_str).is_some_and(|owner| owner == agent);
    let refused = match row.bucket {
        Bucket::TaskState if is_foreign(note) && !is_own => {
            Some("what a tool or text from outside says changes no task of somebody else")
        }
        Bucket::TaskState => None,
        _ if is_foreign(note) => Some("what a tool or text from outside says changes no row by itself"),
        // What binds others.
        Bucket::Plan | Bucket::Constraints if note.actor.trust < row.trust => {
            Some("its writer may not change this row")
        }
        _ => None,
    };
    refused.or_else(|| is_unsaid(note, request)).or_else(|| replaced(&note.text, row, request))
}

/// Why a request may not start a row: untrusted writers may only propose what binds others, and tools never decide.
pub(super) fn may_not_create(note: &Note, request: &WriteRequest) -> Option<&'static str> {
    let is_refused = match request.bucket {
        Bucket::Plan | Bucket::Constraints => note.actor.trust == Trust::Untrusted,
        Bucket::Decisions => is_foreign(note),
        _ => false,
    };
    let said = main_text(request.bucket).and_then(|member| request.payload.get(member)?.as_str());
    let is_said = || match request.bucket {
        Bucket::Plan
            if request.payload.get("plan_json").and_then(|plan| plan.as_str()).is_some_and(is_news) =>
        {
            Some("it may tell how the plan stands, and is none: a plan says what will be done")
        }
        Bucket::Plan | Bucket::TaskState => is_unsaid(note, request),
        Bucket::Issues | Bucket::Constraints | Bucket::Decisions
            if request.target_id.is_none() && said.is_some_and(may_be_an_end) =>
        {
            Some(
                "it may say that something has ended, and not what is new: `ID is resolved` ends a row, `issue ID: TEXT` begins one",
            )
        }
        Bucket::Constraints | Bucket::Decisions if supposes(request) => {
            Some("it may only ask or suppose: what holds is written without `?`, `if` and `maybe` before it")
        }
        _ => None,
    };
    is_refused
        .then_some("what a tool or text from outside says only proposes what binds others")
        .or_else(is_said)
}

/// Whether the words come from a tool or an untrusted writer.
pub(super) fn is_foreign(note: &Note) -> bool {
    note.source == NoteSource::ToolResult || note.actor.trust == Trust::Untrusted
}

/// Why a note does not say what it is interpreted as: the row is not named, or only in passing or in a quotation; or
/// something that binds others, a binding name or a task's state is denied, supposed, asked, reported or promised. The
/// explicit form does say it.
fn is_unsaid(note: &Note, request: &WriteRequest) -> Option<&'static str> {
    let id = request.target_id.as_deref();
    if has_form(&note.text, request.bucket, id) {
        return None;
    }
    let spoken = without_quotes(&note.text);
    let is_named = match request.bucket {
        Bucket::Plan => {
            let plan = request.payload.get("plan_json").and_then(serde_json::Value::as_str);
            tokens(&spoken).iter().any(|word| word == "plan")
                || plan.is_some_and(|plan| has_phrase(&spoken, plan))
        }
        _ => id.is_none_or(|id| names(&spoken, id)),
    };
    if !is_named {
        return Some("the id is not in the note, or only in passing");
    }
    let binds = matches!(request.bucket, Bucket::Plan | Bucket::Constraints | Bucket::TaskState)
        || (note.actor.trust >= Trust::Authority && !request.candidate_aliases.is_empty());
    // What it is meant to say may itself deny or demand: "no deploys on friday".
    let said = main_text(request.bucket).and_then(|member| request.payload.get(member)?.as_str());
    let around = said.filter(|said| !said.is_empty()).map_or(spoken.clone(), |said| spoken.replace(said, ""));
    (binds && sentences(&around).into_iter().any(|sentence| turned(sentence).is_some()))
        .then_some("the note may deny, suppose, ask, report or promise it; the explicit form says it")
}
