//! The operations on shared state. An agent's notes have the trust that the operator's policy gives them, never one
//! named in the call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use memory_core::{Error, Result, Timestamp};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{Budget, raw, text};
use super::memory_tool::MemoryTool;
use super::ops::{BucketWord, ForgetShared, Note, Pending, Shared, ToolOp, Why};
use crate::governed::{
    self, Actor, AsOf, Bucket, Eraser, NoteSource, Offered, Operation, Outcome, Pending as Deferred,
    PendingStatus, Promotion, PromotionPipeline, Review, Row, Scored, SharedMemory, Space, Trust, WhyEvent,
    WorkingMemory, is_id,
};
use crate::policy::SharedAccess;

type Opened = (Space, PromotionPipeline);

impl From<BucketWord> for Bucket {
    fn from(word: BucketWord) -> Self {
        match word {
            BucketWord::Plan => Self::Plan,
            BucketWord::Constraints => Self::Constraints,
            BucketWord::Issues => Self::Issues,
            BucketWord::Decisions => Self::Decisions,
            BucketWord::Results => Self::Results,
            BucketWord::TaskState => Self::TaskState,
            BucketWord::Learnings => Self::Learnings,
        }
    }
}

/// A row as the tool shows it.
#[derive(Serialize)]
struct RowAnswer<'a> {
    id: &'a str,
    status: &'a str,
    fields: &'a BTreeMap<String, Value>,
    rev: u64,
    created_by: &'a str,
    observed_at: Timestamp,
    valid_from: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_to: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<&'a str>,
}

/// An item too large for an answer on its own, without its large parts.
#[derive(Serialize)]
struct Large<'a> {
    id: &'a str,
    omitted_bytes: usize,
}

/// An event of a row as the tool shows it.
#[derive(Serialize)]
struct EventAnswer<'a> {
    seq: u64,
    operation: Operation,
    by: &'a Actor,
    observed_at: Timestamp,
    recorded_at: Timestamp,
    /// The note's text; `null` if erased.
    note: Option<&'a str>,
    payload: &'a BTreeMap<String, Value>,
    reason: &'a str,
    #[serde(skip_serializing_if = "<[Scored]>::is_empty")]
    candidates: &'a [Scored],
    interpreter: &'a str,
    resolver: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reviewed_by: Option<&'a Actor>,
    projection: &'a str,
}

/// A deferred write as the tool shows it.
#[derive(Serialize)]
struct DeferredAnswer<'a> {
    id: &'a str,
    status: PendingStatus,
    agent: &'a str,
    /// The note's text; `null` if erased.
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<Bucket>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<Operation>,
    reason: &'a str,
    candidates: Vec<Offered>,
    observed_at: Timestamp,
    expires_at: Timestamp,
}

/// A row that another belongs to, or that was forgotten.
#[derive(Serialize)]
struct Named<'a> {
    bucket: Bucket,
    id: &'a str,
}

/// The outcome of a request, with the rows that it may mean.
#[derive(Serialize)]
struct Became {
    #[serde(flatten)]
    outcome: Outcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<Offered>,
}

impl MemoryTool {
    /// The space that the operator names, in this run's tenant, and its pipeline.
    pub(super) async fn shared_space(&self, op: ToolOp) -> Result<Opened> {
        self.granted(op)?;
        if !self.serves(op, &self.memory.capabilities()) {
            return Err(self.unsupported(op));
        }
        let known = self.opened().clone();
        if let Some(opened) = known {
            return Ok(opened);
        }
        let space = governed::open(&self.memory, &self.run.tenant, self.policy.shared_space_name()).await?;
        let opened = (space.clone(), governed::pipeline_with(&space, self.interpreter.clone()));
        *self.opened() = Some(opened.clone());
        Ok(opened)
    }

    fn opened(&self) -> MutexGuard<'_, Option<Opened>> {
        self.shared_space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This run as a writer.
    pub(super) fn writer(&self) -> Actor {
        let trust = match self.policy.shared_state {
            access if access >= Some(SharedAccess::Authority) => Trust::Authority,
            _ => Trust::Agent,
        };
        Actor { agent: self.run.agent.as_str().to_owned(), run: self.run.run.as_str().to_owned(), trust }
    }

    pub(super) async fn note(&self, op: Note) -> Result<String> {
        #[derive(Serialize)]
        struct Answer<'a> {
            note_id: &'a str,
            status: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            reason: Option<String>,
            outcomes: Vec<Became>,
        }
        let (space, pipeline) = self.shared_space(ToolOp::Note).await?;
        let notes = WorkingMemory::new(&space);
        let note = notes.note(&self.writer(), NoteSource::Agent, &op.note, None).await?;
        let (status, reason, outcomes) = if op.promote == Some(false) {
            ("kept", None, Vec::new())
        } else {
            match promoted(&space, &pipeline, &note.id).await {
                Ok(Some((promotion, outcomes))) => match promotion.reason {
                    None => ("done", None, outcomes),
                    reason if promotion.is_retried => ("later", reason, outcomes),
                    reason => ("rejected", reason, outcomes),
                },
                Ok(None) => ("later", Some("another process promotes it now".to_owned()), Vec::new()),
                // The note is stored; an error would make the caller send it again.
                Err(error) => {
                    tracing::warn!(%error, "a note is stored, and could not be promoted");
                    let reason = format!(
                        "{}: the note is stored, do not send it again; `shared` and `pending` show what became of it",
                        error.kind().code()
                    );
                    ("unknown", Some(reason), Vec::new())
                }
            }
        };
        text(&Answer { note_id: &note.id, status, reason, outcomes })
    }

    pub(super) async fn shared(&self, op: Shared) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            rows: Vec<Box<RawValue>>,
            truncated: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            next: Option<String>,
        }
        check_row_id("id", op.id.as_deref())?;
        // The bucket, and the id that the page starts after.
        let (bucket, foreign) =
            (Bucket::from(op.bucket), "`cursor` is none of this listing; begin without one");
        let after = op.cursor.as_deref().map(|cursor| match cursor.split_once(':') {
            Some((of, id)) if of == bucket.as_str() && is_id(id) => Ok(id),
            _ => Err(Error::invalid(foreign).with_detail("field", "cursor")),
        });
        let after = after.transpose()?;
        let (space, _) = self.shared_space(ToolOp::Shared).await?;
        let state = SharedMemory::new(&space);
        let mut rows = match (op.as_of, &op.id) {
            (Some(at), _) => state.as_of(bucket, AsOf { valid: Some(at), recorded: None }).await?,
            (None, Some(id)) => state.row(bucket, id).await?.into_iter().collect(),
            (None, None) => state.bucket(bucket, false).await?,
        };
        rows.retain(|row| {
            op.id.as_ref().is_none_or(|id| row.id == *id) && after.is_none_or(|after| row.id.as_str() > after)
        });
        // By bytes, whatever the store's collation, because cursors rely on this order.
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        let mut shown = Vec::new();
        for row in rows.iter().take(self.policy.max_rows) {
            let row = row_within(row, &budget)?;
            if !budget.take(&row) {
                break;
            }
            shown.push(row);
        }
        let next = if shown.len() < rows.len() {
            shown
                .len()
                .checked_sub(1)
                .and_then(|last| rows.get(last))
                .map(|row| format!("{bucket}:{}", row.id))
        } else {
            None
        };
        text(&Answer { truncated: shown.len() < rows.len(), rows: shown, next })
    }

    pub(super) async fn why(&self, op: Why) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            row: Option<Box<RawValue>>,
            events: Vec<Box<RawValue>>,
            dependents: Vec<Box<RawValue>>,
            truncated: bool,
        }
        check_row_id("id", Some(&op.id))?;
        let (space, _) = self.shared_space(ToolOp::Why).await?;
        let bucket = Bucket::from(op.bucket);
        let why = SharedMemory::new(&space).why(bucket, &op.id).await?;
        if why.row.is_none() && why.events.is_empty() {
            return Err(Error::not_found(format!(
                "no event is about a row of that id in `{bucket}`; `shared` lists the rows"
            )));
        }
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        let row = why.row.as_ref().map(|row| row_within(row, &budget)).transpose()?;
        let mut all = row.as_ref().is_none_or(|row| budget.take(row));
        let (mut events, mut dependents) = (Vec::new(), Vec::new());
        // The latest events say most about the row's current state.
        for one in why.events.iter().rev() {
            let event = event_within(one, &budget)?;
            all = events.len() < self.policy.max_rows && budget.take(&event);
            if !all {
                break;
            }
            events.push(event);
        }
        events.reverse();
        for (bucket, id) in &why.dependents {
            let dependent = raw(&Named { bucket: *bucket, id })?;
            if dependents.len() >= self.policy.max_rows || !budget.take(&dependent) {
                all = false;
                break;
            }
            dependents.push(dependent);
        }
        text(&Answer { row, events, dependents, truncated: !all })
    }

    pub(super) async fn pending(&self, op: Pending) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            pending: Vec<Box<RawValue>>,
            truncated: bool,
        }
        check_row_id("target", op.target.as_deref())?;
        let (space, _) = self.shared_space(ToolOp::Pending).await?;
        let (queue, writer) = (governed::queue(&space), self.writer());
        match (op.bind, op.target) {
            (None, None) => {}
            (Some(id), Some(_)) if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                return Err(Error::invalid("`bind` is no pending write's id: 32 hexadecimal digits")
                    .with_detail("field", "bind"));
            }
            (Some(id), Some(target)) => return text(&Review::new(queue).bind(&id, &target, &writer).await?),
            _ => {
                return Err(Error::invalid(
                    "`bind` and `target` go together: a pending write, and the id of the row that it means",
                ));
            }
        }
        // Notes are private: only those who decide see what others wrote.
        let of = (writer.trust < Trust::Authority).then_some(writer.agent.as_str());
        let found = queue.undecided(of, self.policy.max_rows.saturating_add(1)).await?;
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        let mut pending = Vec::new();
        let listed = found.get(..self.policy.max_rows).unwrap_or(&found);
        let offered = SharedMemory::new(&space).offered(listed).await?;
        for (one, offered) in listed.iter().zip(offered) {
            let shown = deferred_within(one, offered, &budget)?;
            if !budget.take(&shown) {
                break;
            }
            pending.push(shown);
        }
        text(&Answer { truncated: pending.len() < found.len(), pending })
    }
}

impl MemoryTool {
    pub(super) async fn forget_shared(&self, op: ForgetShared) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            dry_run: bool,
            rows: Vec<Box<RawValue>>,
            changed: Vec<Box<RawValue>>,
            notes: usize,
            events: usize,
            pending: usize,
            truncated: bool,
        }
        check_row_id("id", op.id.as_deref())?;
        let (space, _) = self.shared_space(ToolOp::ForgetShared).await?;
        let (eraser, writer, is_trial) = (Eraser::new(&space), self.writer(), op.dry_run == Some(true));
        let forgotten = match (&op.note_id, op.bucket, &op.id) {
            (Some(note), None, None) => eraser.note(note, &writer, is_trial).await?,
            (None, Some(bucket), Some(id)) => eraser.row(bucket.into(), id, &writer, is_trial).await?,
            _ => return Err(Error::invalid("name a note by `note_id`, or a row by `bucket` and `id`")),
        };
        if forgotten.is_nothing() {
            return Err(Error::not_found(
                "there is no such note or row in this space, or it was forgotten before",
            ));
        }
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        let mut shown = |rows: &BTreeSet<(Bucket, String)>| {
            let named: Vec<Named<'_>> = rows
                .iter()
                .take(self.policy.max_rows)
                .map(|(bucket, id)| Named { bucket: *bucket, id })
                .collect();
            budget.fit(&named)
        };
        let (rows, changed) = (shown(&forgotten.rows)?, shown(&forgotten.changed)?);
        text(&Answer {
            dry_run: is_trial,
            truncated: rows.len() < forgotten.rows.len() || changed.len() < forgotten.changed.len(),
            rows,
            changed,
            notes: forgotten.notes.len(),
            events: forgotten.events.len(),
            pending: forgotten.pending.len(),
        })
    }
}

/// Promotes a note; `None` if another pipeline is working on it.
async fn promoted(
    space: &Space,
    pipeline: &PromotionPipeline,
    note_id: &str,
) -> Result<Option<(Promotion, Vec<Became>)>> {
    let Some(mut promotion) = pipeline.promote_note(note_id).await? else { return Ok(None) };
    let mut outcomes = Vec::new();
    for outcome in std::mem::take(&mut promotion.outcomes) {
        let mut candidates = Vec::new();
        if let Outcome::Deferred { pending_id, .. } = &outcome
            && let Some(deferred) = governed::queue(space).show(pending_id).await?
        {
            let offered = SharedMemory::new(space).offered(std::slice::from_ref(&deferred)).await?;
            candidates = offered.into_iter().flatten().collect();
        }
        outcomes.push(Became { outcome, candidates });
    }
    Ok(Some((promotion, outcomes)))
}

fn check_row_id(field: &str, id: Option<&str>) -> Result<()> {
    if id.is_none_or(is_id) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{field}` is no row's id: a lower-case letter, then up to 63 lower-case letters, digits, `_` and `-`"
    ))
    .with_detail("field", field))
}

/// The whole text, or if it alone exceeds `budget`, the id and how much is left out.
fn within(whole: Box<RawValue>, id: &str, budget: &Budget) -> Result<Box<RawValue>> {
    if budget.could_ever_take(&whole) {
        return Ok(whole);
    }
    raw(&Large { id, omitted_bytes: whole.get().len() })
}

fn row_within(row: &Row, budget: &Budget) -> Result<Box<RawValue>> {
    let whole = raw(&RowAnswer {
        id: &row.id,
        status: &row.status,
        fields: &row.fields,
        rev: row.rev,
        created_by: &row.created_by,
        observed_at: row.observed_at,
        valid_from: row.valid_from,
        valid_to: row.valid_to,
        superseded_by: row.superseded_by.as_deref(),
        aliases: row.aliases.iter().map(|alias| alias.alias.as_str()).collect(),
    })?;
    within(whole, &row.id, budget)
}

fn event_within(one: &WhyEvent, budget: &Budget) -> Result<Box<RawValue>> {
    let event = &one.event;
    let source = &event.source_ref;
    let whole = raw(&EventAnswer {
        seq: event.seq,
        operation: event.operation,
        by: &event.actor,
        observed_at: event.observed_at,
        recorded_at: event.recorded_at,
        note: one.words.as_deref(),
        payload: &event.payload,
        reason: &source.reason,
        candidates: &source.candidates,
        interpreter: &source.interpreter,
        resolver: &source.resolver,
        reviewed_by: source.reviewed_by.as_ref(),
        projection: &one.projection,
    })?;
    within(whole, &event.event_id, budget)
}

fn deferred_within(one: &Deferred, candidates: Vec<Offered>, budget: &Budget) -> Result<Box<RawValue>> {
    let request = one.request.as_ref();
    let whole = raw(&DeferredAnswer {
        id: &one.id,
        status: one.status,
        agent: &one.actor.agent,
        note: one.text.as_deref(),
        bucket: request.map(|request| request.bucket),
        operation: request.map(|request| request.operation),
        reason: &one.reason,
        candidates,
        observed_at: one.observed_at,
        expires_at: one.expires_at,
    })?;
    within(whole, &one.id, budget)
}
