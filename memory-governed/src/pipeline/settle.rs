//! Decides one request inside the transaction that commits it, and carries out the decision.

use memory_core::Result;

use super::allowed::{is_foreign, may_not_change, may_not_create};
use super::candidates::{REFERRED, candidates, shares_its_id, spoken_of};
use super::inputter::{Appended, Entry, Inputter};
use super::outcome::Outcome;
use super::target::{Target, target};
use crate::bucket::{Bucket, Operation};
use crate::columns::main_text;
use crate::encoding::digest;
use crate::interpret::{doubtful_lead, is_turned, reopened, takes_back};
use crate::ledger::{Event, SourceRef};
use crate::note::{Actor, Note, NoteSource, Trust};
use crate::projection::{Row, Step, read, step};
use crate::request::WriteRequest;
use crate::resolve::{folded, has_phrase, occurs};
use crate::seams::{Resolution, Resolver, Scored};
use crate::store::{Session, Space, text};

/// A request, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) note: &'a Note,
    pub(super) request: &'a WriteRequest,
    /// Always the same for the same request of the same note.
    pub(super) key: String,
    pub(super) interpreter: &'a str,
    /// The deferred write this is, if any.
    pub(super) pending_id: Option<&'a str>,
}

/// What was decided; only `Committed` has changed anything.
#[derive(Debug)]
pub(super) enum Settled {
    Done(Outcome),
    /// It must wait.
    Waits {
        reason: String,
        candidates: Vec<Scored>,
    },
}

/// A row to which the request is bound.
struct Bound {
    target: String,
    expected_rev: Option<u64>,
    candidates: Vec<Scored>,
    reason: String,
}

/// The key of a note's nth request.
pub(super) fn key_of(note: &Note, part: usize) -> String {
    digest(["memory.request.v1", &note.id, &part.to_string()])
}

fn waits(reason: impl Into<String>, candidates: Vec<Scored>) -> Settled {
    Settled::Waits { reason: reason.into(), candidates }
}

/// Resolves a request against the current rows, and commits it if it is certain.
pub(super) async fn settle(
    space: &Space,
    tx: &Session<'_>,
    resolver: &dyn Resolver,
    wanted: &Wanted<'_>,
) -> Result<Settled> {
    if let Err(error) = wanted.request.check_form() {
        return Ok(Settled::Done(Outcome::Rejected { reason: error.message().to_owned() }));
    }
    if let Some(known) = known(tx, wanted).await? {
        return Ok(Settled::Done(known));
    }
    let request = wanted.request;
    let refers =
        request.operation.is_lifecycle() || (request.reference_text.is_some() && request.target_id.is_none());
    let bound = if request.operation == Operation::Reopen {
        match reopening(tx, wanted).await? {
            Ok(bound) => bound,
            Err(settled) => return Ok(settled),
        }
    } else if refers {
        match bind(tx, resolver, wanted).await? {
            Ok(bound) => bound,
            Err(settled) => return Ok(settled),
        }
    } else {
        match target(tx, request, wanted.note, &wanted.key).await? {
            Target::Row(target) => {
                Bound { target, expected_rev: None, candidates: Vec::new(), reason: "named".to_owned() }
            }
            Target::Known(reason) => return Ok(Settled::Done(Outcome::NoOp { reason: reason.to_owned() })),
        }
    };
    commit(space, tx, wanted, &resolver.version(), bound, None).await
}

/// Commits a request to the row that a person named.
pub(super) async fn settle_as(
    space: &Space,
    tx: &Session<'_>,
    wanted: &Wanted<'_>,
    target: &str,
    by: &Actor,
) -> Result<Settled> {
    if let Some(known) = known(tx, wanted).await? {
        return Ok(Settled::Done(known));
    }
    let rev = read(tx, wanted.request.bucket, target).await?.map(|row| row.rev);
    let bound = Bound {
        target: target.to_owned(),
        expected_rev: rev,
        candidates: Vec::new(),
        reason: "reviewed".to_owned(),
    };
    commit(space, tx, wanted, "review", bound, Some(by)).await
}

/// What became of this request before, if it is a repetition.
async fn known(tx: &Session<'_>, wanted: &Wanted<'_>) -> Result<Option<Outcome>> {
    let key = text(&wanted.key);
    let sql = "SELECT seq, target_id, NULL FROM events_memory WHERE idempotency_key = ? UNION ALL \
               SELECT 0, pending_id, reason FROM pending_memory_events WHERE idempotency_key = ? AND pending_id <> ?";
    let own = text(wanted.pending_id.unwrap_or_default());
    let Some(mut cells) = tx.one(sql, &[key.clone(), key, own]).await? else { return Ok(None) };
    let (seq, id, reason) = (cells.count()?, cells.text()?, cells.maybe_text()?);
    Ok(Some(match reason {
        Some(reason) => Outcome::Deferred { pending_id: id, reason },
        None => {
            Outcome::Committed { seq, bucket: wanted.request.bucket, target_id: id, projection: "recorded" }
        }
    }))
}

/// The issue that a note reopens. No resolver is asked: the note must be the command, from a writer with authority.
async fn reopening(tx: &Session<'_>, wanted: &Wanted<'_>) -> Result<std::result::Result<Bound, Settled>> {
    let (note, request) = (wanted.note, wanted.request);
    let Some(target) = request.target_id.as_deref().filter(|id| reopened(&note.text) == Some(id)) else {
        return Ok(Err(waits(
            "only a note that is `reopen ID`, with or without a reason, opens an issue again",
            Vec::new(),
        )));
    };
    if is_turned(&note.text) {
        return Ok(Err(waits("its reason may mean that it is not to be opened again", Vec::new())));
    }
    let Some(row) = read(tx, request.bucket, target).await? else {
        return Ok(Err(waits("no such row", Vec::new())));
    };
    let (rev, trust) = (row.rev, row.trust);
    if is_foreign(note) || note.actor.trust < Trust::Authority.max(trust) {
        return Ok(Err(waits("its writer may not reopen this row", frozen(Vec::new(), Some(row)))));
    }
    let (target, reason) = (target.to_owned(), "the note reopens it by its id".to_owned());
    Ok(Ok(Bound { target, expected_rev: Some(rev), candidates: Vec::new(), reason }))
}

/// Asks the resolver, and enforces what no resolver may do.
async fn bind(
    tx: &Session<'_>,
    resolver: &dyn Resolver,
    wanted: &Wanted<'_>,
) -> Result<std::result::Result<Bound, Settled>> {
    let rows = candidates(tx, wanted.request).await?;
    let (target, candidates, reason) = match resolver.resolve(wanted.request, wanted.note, &rows) {
        Resolution::Bind { target, candidates, reason } => (target, candidates, reason),
        Resolution::Defer { candidates, reason } => return Ok(Err(waits(reason, candidates))),
        Resolution::NoOp(reason) => return Ok(Err(Settled::Done(Outcome::NoOp { reason }))),
    };
    let Some(row) = rows.iter().find(|row| row.id == target) else {
        return Ok(Err(waits("bound to a row that is no candidate", candidates)));
    };
    if wanted.request.operation.is_lifecycle() && wanted.note.source == NoteSource::ToolResult {
        return Ok(Err(waits("what a tool says ends no row by itself", candidates)));
    }
    if row.opened_at > wanted.note.observed_at {
        return Ok(Err(waits("the row was opened after this was observed", candidates)));
    }
    if occurs(&wanted.note.text, &target) && shares_its_id(tx, row, &wanted.note.text).await? {
        return Ok(Err(waits(
            "rows of several kinds have this id, and the note does not say which is meant, as in `issue ID is resolved`",
            candidates,
        )));
    }
    Ok(Ok(Bound { target, expected_rev: Some(row.rev), candidates, reason }))
}

/// The candidates, and the row that was meant.
fn frozen(mut candidates: Vec<Scored>, meant: Option<Row>) -> Vec<Scored> {
    if let Some(row) = meant.filter(|row| candidates.iter().all(|one| one.id != row.id)) {
        candidates.push(Scored { id: row.id, rev: row.rev, score: 1.0 });
    }
    candidates
}

/// Why the row that should replace another cannot. It must be live itself, so that no cycle can arise: an ended row is
/// never revived.
async fn no_successor(tx: &Session<'_>, wanted: &Wanted<'_>, target: &str) -> Result<Option<&'static str>> {
    let Some(successor) = wanted.request.successor() else { return Ok(None) };
    if successor == target {
        return Ok(Some("no row takes its own place"));
    }
    if !occurs(&wanted.note.text, successor) {
        return Ok(Some("the note does not name what takes the row's place"));
    }
    let row = read(tx, wanted.request.bucket, successor).await?;
    Ok((!row.is_some_and(|row| row.is_live())).then_some("what is to take the row's place does not hold"))
}

/// The names that a row gets. Names from a writer with authority are confirmed, so the note itself must contain them:
/// those that only a model gave are not the writer's.
fn given(names: &[String], note: &Note) -> Vec<String> {
    let is_given = |name: &&String| note.actor.trust < Trust::Authority || has_phrase(&note.text, name);
    names.iter().filter(is_given).cloned().collect()
}

async fn commit(
    space: &Space,
    tx: &Session<'_>,
    wanted: &Wanted<'_>,
    resolver: &str,
    bound: Bound,
    reviewed_by: Option<&Actor>,
) -> Result<Settled> {
    let (note, request) = (wanted.note, wanted.request);
    if let Some(reason) = no_successor(tx, wanted, &bound.target).await? {
        return Ok(waits(reason, bound.candidates));
    }
    let aliases =
        if request.operation.is_lifecycle() { Vec::new() } else { given(&request.candidate_aliases, note) };
    // A name that only the model gave does not count.
    let said = aliases.iter().filter(|name| has_phrase(&note.text, name));
    for name in said.map(|name| folded(name)).filter(|name| *name != bound.target) {
        if read(tx, request.bucket, &name).await?.is_some() {
            return Ok(waits("a name that it gives is the id of another row", bound.candidates));
        }
    }
    let event = Event {
        seq: 0,
        event_id: space.fresh(),
        idempotency_key: wanted.key.clone(),
        observed_at: note.observed_at,
        recorded_at: space.now(),
        actor: note.actor.clone(),
        note_id: note.id.clone(),
        causation_pending_id: wanted.pending_id.map(str::to_owned),
        bucket: request.bucket,
        target_id: bound.target.clone(),
        operation: request.operation,
        expected_rev: bound.expected_rev,
        payload: request.payload.clone().into_iter().collect(),
        source_ref: SourceRef {
            candidates: bound.candidates.clone(),
            reason: bound.reason,
            aliases,
            interpreter: wanted.interpreter.to_owned(),
            resolver: resolver.to_owned(),
            confidence: request.confidence,
            reviewed_by: reviewed_by.cloned(),
        },
        raw_digest: String::new(),
        target_digest: String::new(),
        content_digest: String::new(),
        prev_hash: String::new(),
        hash: String::new(),
    };
    let is_blocked = Inputter::is_blocked(tx, request.bucket, &bound.target).await?;
    let prior = read(tx, request.bucket, &bound.target).await?;
    // After an event that could not be projected, the row does not match the ledger, so this one waits its turn.
    if !is_blocked {
        match step(prior.as_ref(), &event) {
            Step::Write(_) | Step::Record(_) => {}
            Step::NoOp(reason) => return Ok(Settled::Done(Outcome::NoOp { reason: reason.to_owned() })),
            Step::Reject(reason) => return Ok(Settled::Done(Outcome::Rejected { reason })),
            Step::Defer(reason) => return Ok(waits(reason, frozen(bound.candidates, prior))),
        }
    }
    // A different decision under an existing id becomes another row.
    let repeated = match request.target_id.as_deref() {
        Some(id) if request.bucket == Bucket::Decisions && id != bound.target => {
            read(tx, request.bucket, id).await?
        }
        _ => None,
    };
    if let Some(row) = repeated.filter(|row| reviewed_by.is_none() && takes_back(row, request)) {
        return Ok(waits(
            "it may take back the decision of that id, as `decision ID is revoked` does",
            frozen(bound.candidates, Some(row)),
        ));
    }
    let said = main_text(request.bucket).and_then(|member| request.payload.get(member)?.as_str());
    let begins = prior.is_none() && request.target_id.is_none() && reviewed_by.is_none();
    if let Some(said) = said.filter(|_| begins && REFERRED.contains(&request.bucket))
        && let Some(row) = spoken_of(tx, said).await?
    {
        let meant = Some(row).filter(|row| row.bucket == request.bucket);
        return Ok(waits(
            "it may be news of the row that it names, and not a new one: `ID is resolved` ends a row, `issue ID: TEXT` begins one",
            frozen(bound.candidates, meant),
        ));
    }
    let refused = || {
        let refused = match &prior {
            Some(row) => may_not_change(row, note, request),
            None => may_not_create(note, request),
        };
        refused.or_else(|| doubtful_lead(&note.text))
    };
    if let Some(reason) = reviewed_by.is_none().then(refused).flatten() {
        return Ok(waits(reason, frozen(bound.candidates, prior)));
    }
    let reference = request.reference_text.as_deref();
    let entry = Entry { event, raw: &note.text, reference, prior, is_blocked };
    let Appended { seq, projection } = Inputter::append(space, tx, entry).await?;
    Ok(Settled::Done(Outcome::Committed { seq, bucket: request.bucket, target_id: bound.target, projection }))
}
