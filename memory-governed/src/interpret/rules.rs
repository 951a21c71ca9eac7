//! Rules: explicit prefixes, and explicit verbs of ending.

use async_trait::async_trait;
use memory_core::Json;
use serde_json::{Map, Value};

use super::reopened::{may_reopen, reopened};
use super::replaced::{MAY_END, doubts, is_news};
use super::restated::restated;
use super::{Context, Interpretation, Interpreter};
use crate::bucket::{Bucket, Operation};
use crate::columns::{SUPERSEDED_BY, TASK_STATUSES};
use crate::note::Note;
use crate::request::{Decision, WriteRequest, is_id};
use crate::resolve::speech::{
    Mood, QUOTATION, asks, ends_in, is_slug_like, states_an_end, tokens, turned, without_quotes,
};
use crate::resolve::{ends_plainly, named_in, states_no_end};

/// Verbs that end an issue.
const RESOLVES: [&str; 17] = [
    "resolve",
    "resolved",
    "resolves",
    "close",
    "closed",
    "closes",
    "closing",
    "fix",
    "fixed",
    "fixes",
    "solved",
    "solves",
    "done",
    "complete",
    "completed",
    "finished",
    "gone",
];
/// Verbs that end a constraint or a decision.
const INVALIDATES: [&str; 10] = [
    "invalidate",
    "invalidated",
    "invalidates",
    "superseded",
    "lifted",
    "revoked",
    "withdrawn",
    "dropped",
    "retired",
    "rescinded",
];

/// Interprets notes by their form, without a model.
///
/// `KIND [ID]: TEXT` adds or changes a row, where `KIND` is `plan`, `constraint`, `issue` (`problem`, `blocker`,
/// `bug`), `decision`, `result` (`METRIC = VALUE`), `task` (`task ID: STATUS`) or `learning` (`lesson`). A sentence
/// with a verb of ending (`resolved`, `fixed`, `invalidated`, …) ends a row, unless it denies, supposes, asks, quotes
/// or promises that. `reopen ID` or `reopen ID: REASON`, alone, reopens an issue. `KIND ID: resolved` ends a row like
/// `ID is resolved`, and `KIND: none` writes nothing. `ID is also called NAME` names a row. Each line that starts with
/// a prefix, or ends a row by its id, is a separate write; other lines, and the items of a list after a prefix, belong
/// to the previous write. Anything else is rejected. Text before a form is examined when the form is committed: if it
/// introduces, denies, supposes, asks or promises, the whole note is deferred.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules;

#[async_trait]
impl Interpreter for Rules {
    fn name(&self) -> &'static str {
        "rules-1"
    }

    async fn interpret(&self, note: &Note, context: &Context) -> Interpretation {
        Interpretation::of(Self::decide(&note.text, context))
    }
}

impl Rules {
    /// What the text asks for.
    #[must_use]
    pub fn decide(text: &str, context: &Context) -> Decision {
        let reopening =
            |id| Decision::Accept(vec![WriteRequest::new(Bucket::Issues, Operation::Reopen).with_target(id)]);
        if let Some(id) = reopened(text) {
            return reopening(id.to_owned());
        }
        let parts = statements(text, context);
        let mut requests = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let refused = |reason: String| match parts.len() {
                1 => Decision::Reject(reason),
                _ => Decision::Reject(format!("nothing of it is written: statement {}: {reason}", at + 1)),
            };
            let request = match prefixed(part) {
                Some(Err(reason)) => return refused(reason),
                Some(Ok(request)) => request,
                None => match naming(part, context).map_or_else(|| ending(part, context), Ok) {
                    Ok(request) if request.candidate_aliases.iter().any(|name| is_doubtful_name(name)) => {
                        return refused(NO_NAME.to_owned());
                    }
                    Ok(request) => request,
                    Err(reason) if parts.len() == 1 => {
                        if let Some(id) = may_reopen(text) {
                            return reopening(id);
                        }
                        let unread = unread(text, context).filter(|_| reason == NO_FORM || reason == WHICH);
                        let read = unread.or_else(|| restated(text, context).filter(|_| reason == NO_FORM));
                        return read.map_or(Decision::Reject(reason), |one| Decision::Accept(vec![one]));
                    }
                    // Text next to a statement need not be a statement.
                    Err(_) => continue,
                },
            };
            if let Err(error) = request.check() {
                return refused(error.message().to_owned());
            }
            requests.push(request);
        }
        match unread(text, context).filter(|_| requests.is_empty()) {
            Some(request) => Decision::Accept(vec![request]),
            None if requests.is_empty() => Decision::Reject(NO_FORM.to_owned()),
            None => Decision::Accept(requests),
        }
    }
}

/// Why a note without any form is rejected.
const NO_FORM: &str = "no rule applies: shared state is what is written as `issue ID: TEXT`, `task ID: done`, `ID is resolved`, \
     `decision: TEXT`, `constraint ID: TEXT`, `learning: TEXT`, `result: NAME = 0.7` or `plan: TEXT`";

/// Why a note that names a row in doubt is rejected.
const NO_NAME: &str = "a name is given alone, in words that neither ask nor deny: `ID is also called NAME`";

/// Why a note that ends something other than an issue is rejected.
const WHICH: &str = "it is not said whether a constraint or a decision has ended";

/// Words that may report the end of a known row.
const MAY_END_KNOWN: &str = "replaced replaces supersedes superseding void voided nullified overturned overruled handled sorted rolled \
     moot remediated undone scrapped";

/// Phrases that may state an end, although one of their words alone promises or supposes it.
const STATES: [&str; 10] = [
    "managed to",
    "was able to",
    "were able to",
    "to resolved",
    "to fixed",
    "to closed",
    "to done",
    "please close",
    "please resolve",
    "once and for all",
];

/// The write for a note that mentions a row, or what looks like one, next to a word of ending, but in no known form. It
/// binds nothing, because the resolver cannot read such a note any better, and waits for a person.
fn unread(text: &str, context: &Context) -> Option<WriteRequest> {
    let spoken = without_quotes(text);
    let words = tokens(&spoken);
    let no_longer =
        words.windows(2).any(|pair| matches!(pair, [no, than] if (no == "no" && than == "longer") || (no == "any" && than == "more")));
    let ends = words.iter().any(|word| MAY_END.split_whitespace().any(|one| one == word))
        || !ends_in(&words).is_empty();
    let known_ends = words.iter().any(|word| MAY_END_KNOWN.split_whitespace().any(|one| one == word));
    if !(ends || no_longer || known_ends) || states_an_end(text).is_some() {
        return None;
    }
    let mut named = [Bucket::Issues, Bucket::Constraints, Bucket::Decisions].into_iter().flat_map(|bucket| {
        let ids = context.rows(bucket).iter().map(|row| row.id.as_str());
        named_in(&spoken, ids).into_iter().map(move |id| (bucket, id.to_owned()))
    });
    let slug_like = |word: &String| (ends || no_longer) && is_slug_like(word);
    let known = |word: &String| slug_like(word).then(|| (Bucket::Issues, word.clone()));
    let (bucket, id) = named.next().or_else(|| words.iter().find_map(known)).filter(|(_, id)| is_id(id))?;
    let operation = if bucket == Bucket::Issues { Operation::Resolve } else { Operation::Invalidate };
    let mut request = WriteRequest::new(bucket, operation).with_target(id);
    request.rationale = "it may say that something has ended, in no form that is known".to_owned();
    Some(request)
}

/// How many lines of a note may start a statement, to limit the time spent.
pub(super) const MAX_LINES: usize = 400;

/// Whether a line starts or ends a block of code.
pub(super) fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

/// Whether a line states a task's status in a sentence: `task ID is done`.
pub(super) fn tells_a_task(line: &str) -> bool {
    let spoken = without_quotes(line);
    let words = tokens(&spoken);
    !spoken.contains(QUOTATION)
        && matches!(words.as_slice(), [kind, id, verb, ..] if kind == "task" && is_id(id) && IS.contains(&verb.as_str()))
}

/// Whether a note has the explicit form of a bucket, and of a row if one is given.
pub(crate) fn has_form(text: &str, bucket: Bucket, id: Option<&str>) -> bool {
    text.lines().take(MAX_LINES).any(|line| match prefixed(line) {
        Some(Ok(request)) => {
            request.bucket == bucket
                && (id.is_none() || bucket == Bucket::Plan || request.target_id.as_deref() == id)
        }
        _ => {
            bucket == Bucket::TaskState
                && tells_a_task(line)
                && tokens(line).into_iter().nth(1).as_deref() == id
        }
    })
}

/// The write of a line that has a form, alone.
pub(super) fn form(line: &str) -> Option<WriteRequest> {
    match prefixed(line) {
        Some(request) => request.ok(),
        None if tells_a_task(line) => match tokens(line).as_slice() {
            [_, id, rest @ ..] => task(id, rest).ok(),
            _ => None,
        },
        None => None,
    }
}

/// Verbs between a task and its state.
const IS: [&str; 3] = ["is", "now", "was"];

/// The statements of a text.
fn statements(text: &str, context: &Context) -> Vec<String> {
    let (mut parts, mut in_block): (Vec<String>, bool) = (Vec::new(), false);
    for (at, line) in text.trim().lines().enumerate() {
        let is_fence = is_fence(line);
        in_block ^= is_fence;
        let in_list = || {
            bare(line).len() < line.trim().len() && parts.last().is_some_and(|part| prefixed(part).is_some())
        };
        let begins = at < MAX_LINES
            && !in_block
            && !is_fence
            && (prefixed(line).is_some()
                || (!in_list() && ending(line, context).is_ok_and(|request| request.target_id.is_some())));
        match parts.last_mut().filter(|_| !begins) {
            Some(part) => {
                part.push('\n');
                part.push_str(line);
            }
            None => parts.push(line.to_owned()),
        }
    }
    parts
}

/// A line without the mark of a list or a heading before it.
pub(super) fn bare(line: &str) -> &str {
    let line = line.trim();
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    match numbered.strip_prefix(['.', ')']).filter(|_| numbered.len() < line.len()) {
        Some(rest) => rest.trim_start(),
        None => line.trim_start_matches(['-', '*', '+', '#', '•']).trim_start(),
    }
}

/// After a kind, these are not ids: "issue found: …", "lesson learned: …".
const TOLD: [&str; 11] = [
    "found",
    "seen",
    "reported",
    "made",
    "taken",
    "learned",
    "learnt",
    "noted",
    "noticed",
    "detected",
    "identified",
];
/// Neither are these, and what follows is not a new row: "issue reopened: …", "task status: …".
const NO_IDS: [&str; 16] = [
    "reopened", "reopens", "reopen", "open", "still", "not", "no", "update", "updated", "updates", "changed",
    "status", "is", "was", "again", "recurred",
];

/// The write of a note with a prefix.
pub(super) fn prefixed(text: &str) -> Option<Result<WriteRequest, String>> {
    let (head, body) = bare(text).split_once(':')?;
    if head.contains('\n') {
        return None;
    }
    // "**task import**: done".
    let (head, body) = (head.replace(['*', '`'], ""), body.trim_start_matches('*'));
    let mut words = head.split_whitespace();
    let kind = words.next()?.to_lowercase();
    let id = words.next();
    if words.next().is_some() {
        return None;
    }
    let (bucket, operation, member) = match kind.as_str() {
        "plan" => (Bucket::Plan, Operation::Upsert, "plan_json"),
        "constraint" => (Bucket::Constraints, Operation::Upsert, "text"),
        "issue" | "problem" | "blocker" | "bug" => (Bucket::Issues, Operation::Upsert, "title"),
        "decision" | "decided" => (Bucket::Decisions, Operation::Append, "statement"),
        "result" => (Bucket::Results, Operation::Append, "metric_name"),
        "task" => (Bucket::TaskState, Operation::Upsert, "status"),
        "learning" | "lesson" => (Bucket::Learnings, Operation::Append, "statement"),
        _ => return None,
    };
    let body = body.trim();
    let mut request = WriteRequest::new(bucket, operation);
    match id.map(str::to_lowercase) {
        Some(id) if TOLD.contains(&id.as_str()) => {}
        Some(id)
            if is_id(&id)
                && !NO_IDS.contains(&id.as_str())
                && ends_in(std::slice::from_ref(&id)).is_empty() =>
        {
            request.target_id = Some(id);
        }
        Some(_) => return None,
        None => {}
    }
    if body.is_empty() {
        return Some(Err("the note has a prefix and nothing after it".to_owned()));
    }
    if body.ends_with('?') || (bucket == Bucket::TaskState && asks(body)) {
        return Some(Err("a question changes nothing".to_owned()));
    }
    if says_nothing(body) {
        return Some(Err(format!("`{kind}: {body}` says that there is none, and none is written")));
    }
    if let Some(end) = request.target_id.as_deref().and_then(|id| ended(bucket, id, body)) {
        return Some(Ok(end));
    }
    if bucket == Bucket::Decisions && is_news(body) && tokens(body).len() == 1 {
        return Some(Err(
            "it does not say what was decided; a decision ends by `decision ID is revoked`".to_owned()
        ));
    }
    // Text below a state or number is prose; `doubtful_lead` examines it.
    let first = body.lines().next().unwrap_or_default().trim();
    let payload = match bucket {
        Bucket::Plan => {
            let plan = body.parse::<Json>().and_then(|plan| plan.to_value());
            let plan = plan.unwrap_or_else(|_| Value::from(body));
            Ok(Map::from_iter([(member.to_owned(), plan)]))
        }
        Bucket::Results => measured(first),
        Bucket::TaskState => status(first),
        Bucket::Issues => Ok(titled(called(body, member))),
        _ => Ok(Map::from_iter([(member.to_owned(), Value::from(called(body, member)))])),
    };
    Some(payload.map(|payload| WriteRequest { payload, ..request }))
}

/// The end of a row whose form says what became of it: "issue ID: fixed in PR 12".
fn ended(bucket: Bucket, id: &str, body: &str) -> Option<WriteRequest> {
    let operation = match bucket {
        Bucket::Issues => Operation::Resolve,
        Bucket::Constraints | Bucket::Decisions => Operation::Invalidate,
        _ => return None,
    };
    let line = body.lines().next()?;
    let successor = successor(line).filter(|_| operation == Operation::Invalidate);
    if !ends_plainly(line, successor.as_deref(), operation) {
        return None;
    }
    let mut request = WriteRequest::new(bucket, operation).with_target(id);
    if let Some(successor) = successor {
        request.payload.insert(SUPERSEDED_BY.to_owned(), Value::from(successor));
    }
    Some(request)
}

/// A body without the name of the member before it: "title: …".
fn called<'a>(body: &'a str, member: &str) -> &'a str {
    let named = body.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case(member));
    named.map_or(body, |(_, said)| said.trim_start())
}

/// Whether a body means "nothing": "none so far", "n/a", "TBD".
fn says_nothing(body: &str) -> bool {
    const NOTHING: &str = "none no not nothing n/a na nope nil tbd tba unknown - see";
    const SO_FAR: &str = "so far yet today that i we know of known at the moment right now currently here from me this week above \
         below really new a an issue issues problem problems blocker blockers bug bugs decision decisions made taken decided";
    let is = |list: &str, word: &str| list.split_whitespace().any(|one| one == word);
    let body = body.to_lowercase();
    let mut words = body.split_whitespace().map(|word| word.trim_matches(['.', ',', '!', ';', '(', ')']));
    words.next().is_some_and(|first| is(NOTHING, first)) && words.all(|word| is(SO_FAR, word))
}

/// An issue's first line is its title, the rest its description.
fn titled(body: &str) -> Map<String, Value> {
    let (title, rest) = body.split_once('\n').unwrap_or((body, ""));
    let mut payload = Map::from_iter([("title".to_owned(), Value::from(title.trim()))]);
    if !rest.trim().is_empty() {
        payload.insert("description".to_owned(), Value::from(rest.trim()));
    }
    payload
}

/// `METRIC = VALUE`.
fn measured(body: &str) -> Result<Map<String, Value>, String> {
    let (name, value) = body.split_once('=').ok_or("a result is written `result: METRIC = VALUE`")?;
    if doubts(name) {
        return Err("a result is what was measured, in no doubt: `result: METRIC = VALUE`".to_owned());
    }
    let value = value.trim();
    let value =
        serde_json::from_str::<serde_json::Number>(value).map_or_else(|_| Value::from(value), Value::Number);
    Ok(Map::from_iter([
        ("metric_name".to_owned(), Value::from(name.trim())),
        ("metric_value".to_owned(), value),
    ]))
}

/// A status and nothing else; "not done yet" is not one.
fn status(body: &str) -> Result<Map<String, Value>, String> {
    let written = body.trim_end_matches('.').to_lowercase().replace([' ', '-'], "_");
    if TASK_STATUSES.contains(&written.as_str()) {
        Ok(Map::from_iter([("status".to_owned(), Value::from(written))]))
    } else {
        Err(format!("a task is one of {}, and nothing else: `task ID: done`", TASK_STATUSES.join(", ")))
    }
}

/// `ID is also called NAME`: a name for an open issue or an active constraint.
fn naming(text: &str, context: &Context) -> Option<WriteRequest> {
    let said = text.trim().trim_end_matches('.');
    let (id, name) = said.split_once(" is also called ").or_else(|| said.split_once(" is also known as "))?;
    let known = |bucket: &Bucket| context.rows(*bucket).iter().any(|row| row.id == id);
    let bucket = [Bucket::Issues, Bucket::Constraints].into_iter().find(known)?;
    let mut request = WriteRequest::new(bucket, Operation::Upsert).with_target(id);
    request.candidate_aliases.push(name.trim_matches(['"', '`', '\'']).to_owned());
    Some(request)
}

/// Whether the text in place of a name may ask, change the meaning of the sentence, or be more than a name.
fn is_doubtful_name(name: &str) -> bool {
    asks(name) || turned(name).is_some() || name.contains([',', ';', '(', '\n'])
}

/// `superseded by ID`. What a note names here need not be a row; then nothing is recorded as the replacement.
fn successor(text: &str) -> Option<String> {
    let text = text.to_lowercase();
    let (_, after) = text.split_once("superseded by ")?;
    let after = after.trim_start_matches("decision ").trim_start_matches("constraint ");
    let id = after.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).next()?;
    is_id(id).then(|| id.to_owned())
}

/// `task ID is STATUS`.
fn task(id: &str, rest: &[String]) -> Result<WriteRequest, String> {
    let said: Vec<&str> = rest.iter().map(String::as_str).skip_while(|word| IS.contains(word)).collect();
    let payload = status(&said.join(" "))?;
    // "It was blocked" need not be so any more.
    if rest.first().is_some_and(|word| word == "was")
        && !said.iter().all(|word| ["done", "failed"].contains(word))
    {
        return Err(
            "it was so, and may be so no more; the state of a task is written `task ID: blocked`".to_owned()
        );
    }
    let request = WriteRequest::new(Bucket::TaskState, Operation::Upsert).with_target(id);
    Ok(WriteRequest { payload, ..request })
}

fn unstated(mood: Mood) -> String {
    format!("the note does not state that something has ended: {mood:?}").to_lowercase()
}

/// The write for a note that says something has ended.
fn ending(text: &str, context: &Context) -> Result<WriteRequest, String> {
    let first = text.lines().next().filter(|line| tells_a_task(line));
    let spoken = without_quotes(first.unwrap_or(text));
    let words = tokens(&spoken);
    if words.first().is_some_and(|word| word == "task") && asks(text) {
        return Err("a question changes nothing".to_owned());
    }
    if let [kind, id, rest @ ..] = words.as_slice()
        && kind == "task"
        && !spoken.contains(QUOTATION)
        && is_id(id)
        && rest.first().is_some_and(|word| IS.contains(&word.as_str()))
    {
        return task(id, rest);
    }
    if words.first().is_some_and(|word| word == "task") {
        return Err("the state of a task is written `task ID: done`".to_owned());
    }
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let verbs = ends_in(&words);
    let ends = |list: &[&str]| {
        verbs.iter().filter_map(|at| words.get(*at)).any(|word| list.contains(&word.as_str()))
    };
    let (resolves, invalidates) = (ends(&RESOLVES), ends(&INVALIDATES));
    if !resolves && !invalidates {
        return Err(NO_FORM.to_owned());
    }
    let issues = context.issues.iter().map(|row| (row.id.as_str(), row.title.as_str()));
    let mood = states_no_end(text, issues);
    let may_state = || {
        matches!(mood, Some(Mood::Future | Mood::Conditional)) && {
            let said = format!(" {} ", words.join(" "));
            STATES.iter().any(|phrase| said.contains(&format!(" {phrase} ")))
        }
    };
    if let Some(mood) = mood.filter(|_| !may_state()) {
        return Err(unstated(mood));
    }
    let buckets = [Bucket::Issues, Bucket::Constraints, Bucket::Decisions];
    let mut named: Vec<(Bucket, &str)> = Vec::new();
    for bucket in buckets {
        let ids = context.rows(bucket).iter().map(|row| row.id.as_str());
        named.extend(named_in(&spoken, ids).into_iter().map(|id| (bucket, id)));
    }
    // If it names a row, the resolver will defer it.
    if let Some(mood) = mood.filter(|_| named.len() != 1) {
        return Err(unstated(mood));
    }
    let bucket = match named.as_slice() {
        // An issue may have been given up: "ID was dropped".
        [(Bucket::Issues, _)] if !resolves => {
            return Err("it does not say that the issue is resolved, as in `ID is resolved`".to_owned());
        }
        [(bucket, _)] => *bucket,
        _ if has(&["constraint", "restriction", "constraints"]) => Bucket::Constraints,
        _ if has(&["decision", "decisions"]) => Bucket::Decisions,
        _ if resolves => Bucket::Issues,
        _ => return Err(WHICH.to_owned()),
    };
    let operation = if bucket == Bucket::Issues { Operation::Resolve } else { Operation::Invalidate };
    let mut request = WriteRequest::new(bucket, operation);
    request.target_id = match named.as_slice() {
        [(_, id)] if is_id(id) => Some((*id).to_owned()),
        _ => None,
    };
    if let Some(successor) = successor(&spoken).filter(|_| operation == Operation::Invalidate) {
        request.payload.insert(SUPERSEDED_BY.to_owned(), Value::from(successor));
    }
    request.rationale = "a verb of ending in a plain statement".to_owned();
    Ok(request)
}
