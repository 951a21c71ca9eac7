//! Promotion: one note after another, by as many pipelines as there are.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Result, Timestamp};

use super::candidates::context;
use super::inputter::Inputter;
use super::outcome::{Held, Outcome, Promotion, Report, changed};
use super::queue::{Deferral, PendingMemoryQueue};
use super::settle::{Settled, Wanted, key_of, settle};
use crate::encoding::canonical;
use crate::interpret::{Interpretation, Interpreter, ModelRecord};
use crate::note::{Actor, Note};
use crate::request::{Decision, WriteRequest};
use crate::seams::Resolver;
use crate::store::{Cells, Session, Space, int, text};

/// Most requests of one note.
const MAX_REQUESTS: usize = 16;

/// What became of a note, stored with it.
#[derive(Default, serde::Serialize)]
struct Record<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    outcomes: Option<&'a [Outcome]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a ModelRecord>,
}

/// Takes notes, decides what they mean, and commits what is certain.
///
/// Each note is leased while it is being decided: a pipeline that dies loses its lease, and another takes the note. The
/// transaction that commits a note's events also marks it done, so it is never promoted twice and never lost.
#[derive(Clone)]
pub struct PromotionPipeline {
    space: Space,
    interpreter: Arc<dyn Interpreter>,
    resolver: Arc<dyn Resolver>,
    inputter: Inputter,
    queue: PendingMemoryQueue,
}

impl std::fmt::Debug for PromotionPipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromotionPipeline").field("space", &self.space).finish_non_exhaustive()
    }
}

impl PromotionPipeline {
    /// A pipeline of this space.
    #[must_use]
    pub fn new(space: &Space, interpreter: Arc<dyn Interpreter>, resolver: Arc<dyn Resolver>) -> Self {
        Self {
            inputter: Inputter::new(space),
            queue: PendingMemoryQueue::new(space, Arc::clone(&resolver)),
            space: space.clone(),
            interpreter,
            resolver,
        }
    }

    /// Promotes at most this many notes.
    ///
    /// # Errors
    /// The store's errors. What was promoted before stays; the current note is taken up again once its lease is over.
    pub async fn promote(&self, most: usize) -> Result<Report> {
        let (mut report, begun) = (Report::default(), self.now());
        while report.notes < most as u64 {
            match self.promote_due(begun).await? {
                Some(promotion) => report.add(&promotion),
                None => break,
            }
        }
        // Even without a new note, retry what is due.
        let freed = self.inputter.retry_failed().await?;
        for outcome in self.queue.replay(freed).await? {
            report.committed += u64::from(matches!(outcome, Outcome::Committed { .. }));
        }
        Ok(report)
    }

    /// Promotes the oldest note that nobody is working on, if any.
    ///
    /// # Errors
    /// As [`promote`](Self::promote).
    pub async fn promote_one(&self) -> Result<Option<Promotion>> {
        self.promote_due(self.now()).await
    }

    /// Like [`promote_one`](Self::promote_one), but only for notes due at that time, so that a run that puts notes back
    /// because the model does not answer tries each only once.
    ///
    /// # Errors
    /// As [`promote`](Self::promote).
    pub async fn promote_due(&self, then: Timestamp) -> Result<Option<Promotion>> {
        match self.lease(None, then).await? {
            Some((note, lease)) => self.decide(note, lease).await.map(Some),
            None => Ok(None),
        }
    }

    /// The notes that other pipelines are working on, if any. A pipeline that was killed holds its note until the lease
    /// ends.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn held(&self) -> Result<Option<Held>> {
        let sql = "SELECT count(*), coalesce(max(lease_until), 0) FROM notes WHERE state = 'leased' AND lease_until > ?";
        let found = self.space.plain().one(sql, &[int(self.now().as_millis())]).await?;
        let held =
            found.map(|mut cells| Ok::<_, Error>(Held { notes: cells.count()?, until: cells.time()? }));
        Ok(held.transpose()?.filter(|held| held.notes > 0))
    }

    /// The time of the space.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.space.now()
    }

    /// Promotes one note, whatever else waits; `None` if it is done, or another pipeline is working on it.
    ///
    /// # Errors
    /// As [`promote`](Self::promote).
    pub async fn promote_note(&self, note_id: &str) -> Result<Option<Promotion>> {
        match self.lease(Some(note_id), self.now()).await? {
            Some((note, lease)) => self.decide(note, lease).await.map(Some),
            None => Ok(None),
        }
    }

    /// What would become of a note given the current rows. Changes nothing: neither the note nor what it defers is
    /// stored.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn rehearse(&self, note: &Note) -> Result<Promotion> {
        let context = context(&self.space.plain(), note).await?;
        let mut promotion = Promotion::of(note);
        match self.interpreter.interpret(note, &context).await.decision {
            Decision::Retry(reason) => (promotion.reason, promotion.is_retried) = (Some(reason), true),
            Decision::Reject(reason) => promotion.reason = Some(reason),
            Decision::Accept(requests) if requests.len() > MAX_REQUESTS => {
                promotion.reason = Some(too_many());
            }
            Decision::Accept(requests) => {
                let tx = self.space.begin().await?;
                let done = self.settle_all(&tx, note, &requests).await;
                tx.undo().await?;
                promotion.outcomes = done?;
            }
        }
        Ok(promotion)
    }

    /// Decides a leased note, and commits what is certain.
    async fn decide(&self, note: Note, lease: String) -> Result<Promotion> {
        let context = context(&self.space.plain(), &note).await?;
        let interpreted = match self.space.rests() {
            None => self.interpreter.interpret(&note, &context).await,
            Some(left) => {
                let why = format!("the model asks to be left alone for {} s", left.as_secs() + 1);
                Interpretation { retry_after: Some(left), ..Interpretation::of(Decision::Retry(why)) }
            }
        };
        let record = interpreted.record.as_ref();
        let promotion = Promotion::of(&note);
        match interpreted.decision {
            Decision::Retry(reason) => {
                let after = interpreted.retry_after;
                after.into_iter().for_each(|asked| self.space.rest(asked));
                self.give_back(&note, &lease, &reason, (record, after)).await?;
                Ok(Promotion { reason: Some(reason), is_retried: true, ..promotion })
            }
            Decision::Reject(reason) => {
                self.commit(&note, &lease, &[], Some(&reason), record).await?;
                Ok(Promotion { reason: Some(reason), ..promotion })
            }
            Decision::Accept(requests) if requests.len() > MAX_REQUESTS => {
                let reason = too_many();
                self.commit(&note, &lease, &[], Some(&reason), record).await?;
                Ok(Promotion { reason: Some(reason), ..promotion })
            }
            Decision::Accept(requests) => {
                let outcomes = self.commit(&note, &lease, &requests, None, record).await?;
                let replayed = self.queue.replay_after(changed(&outcomes)).await;
                Ok(Promotion { outcomes, replayed, ..promotion })
            }
        }
    }

    /// Takes the oldest note that is new, or whose pipeline did not finish in time; or that one alone.
    async fn lease(&self, only: Option<&str>, due: Timestamp) -> Result<Option<(Note, String)>> {
        let lease = self.space.fresh();
        let until = self.space.after(self.space.options().lease);
        let mut free = "state <> 'done' AND lease_until <= ?".to_owned();
        let mut which = vec![int(due.as_millis())];
        if let Some(id) = only {
            free.push_str(" AND note_id = ?");
            which.push(text(id));
        }
        let peek = format!("SELECT 1 FROM notes WHERE {free} LIMIT 1");
        if self.space.plain().one(&peek, &which).await?.is_none() {
            return Ok(None);
        }
        let sql = format!(
            "UPDATE notes SET state = 'leased', lease = ?, lease_until = ?, attempts = attempts + 1 WHERE note_id = \
             (SELECT note_id FROM notes WHERE {free} ORDER BY seq LIMIT 1) \
             RETURNING note_id, agent, run, trust, source, observed_at, text"
        );
        let args = [vec![text(&lease), int(until.as_millis())], which].concat();
        let taken = self.space.plain().exec_returning(&sql, &args).await?;
        taken.into_iter().next().map(|cells| Ok((note_of(cells)?, lease))).transpose()
    }

    /// Commits what a note asks for and marks it done, in one transaction.
    async fn commit(
        &self,
        note: &Note,
        lease: &str,
        requests: &[WriteRequest],
        rejected: Option<&str>,
        record: Option<&ModelRecord>,
    ) -> Result<Vec<Outcome>> {
        let tx = self.space.begin().await?;
        let done = self.commit_in(&tx, note, lease, requests, rejected, record).await;
        tx.end(done).await
    }

    async fn commit_in(
        &self,
        tx: &Session<'_>,
        note: &Note,
        lease: &str,
        requests: &[WriteRequest],
        rejected: Option<&str>,
        record: Option<&ModelRecord>,
    ) -> Result<Vec<Outcome>> {
        let outcomes = self.settle_all(tx, note, requests).await?;
        let result = match rejected {
            Some(reason) => {
                canonical(&Record { rejected: Some(reason), model: record, ..Record::default() })?
            }
            None => canonical(&Record { outcomes: Some(&outcomes), model: record, ..Record::default() })?,
        };
        let marked = tx
            .exec(
                "UPDATE notes SET state = 'done', lease = NULL, result = ? WHERE note_id = ? AND state = 'leased' AND lease = ?",
                &[text(result), text(&note.id), text(lease)],
            )
            .await?;
        if marked == 1 {
            return Ok(outcomes);
        }
        Err(Error::new(
            ErrorKind::Conflict,
            "the note took longer than its lease, and another pipeline has it now; nothing was committed here",
        ))
    }

    /// Commits or defers each write of a note, in a transaction that is open.
    async fn settle_all(
        &self,
        tx: &Session<'_>,
        note: &Note,
        requests: &[WriteRequest],
    ) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::with_capacity(requests.len());
        let interpreter = self.interpreter.name();
        for (part, request) in requests.iter().enumerate() {
            let wanted = Wanted { note, request, key: key_of(note, part), interpreter, pending_id: None };
            outcomes.push(match settle(&self.space, tx, self.resolver.as_ref(), &wanted).await? {
                Settled::Done(outcome) => outcome,
                Settled::Waits { reason, candidates } => {
                    self.queue.defer(tx, Deferral { wanted: &wanted, reason, candidates }).await?
                }
            });
        }
        Ok(outcomes)
    }

    /// Leaves a note for a later attempt.
    async fn give_back(
        &self,
        note: &Note,
        lease: &str,
        reason: &str,
        said: (Option<&ModelRecord>, Option<Duration>),
    ) -> Result<()> {
        let tx = self.space.begin().await?;
        let done = self.give_back_in(&tx, note, lease, reason, said).await;
        tx.end(done).await
    }

    async fn give_back_in(
        &self,
        tx: &Session<'_>,
        note: &Note,
        lease: &str,
        reason: &str,
        (record, after): (Option<&ModelRecord>, Option<Duration>),
    ) -> Result<()> {
        let sql = "SELECT attempts FROM notes WHERE note_id = ?";
        let attempts = tx.one(sql, &[text(&note.id)]).await?.map(|mut cells| cells.count()).transpose()?;
        let tried = u32::try_from(attempts.unwrap_or_default()).unwrap_or(u32::MAX);
        let next = self.space.next_attempt(tried.saturating_sub(1));
        let next = after.map_or(next, |after| next.max(self.space.after(after)));
        tx.exec(
            "UPDATE notes SET state = 'new', lease = NULL, lease_until = ?, result = ? WHERE note_id = ? AND lease = ?",
            &[
                int(next.as_millis()),
                text(canonical(&Record { retry: Some(reason), model: record, ..Record::default() })?),
                text(&note.id),
                text(lease),
            ],
        )
        .await
        .map(drop)
    }
}

fn too_many() -> String {
    format!("it asks for more than {MAX_REQUESTS} writes")
}

fn note_of(mut cells: Cells) -> Result<Note> {
    Ok(Note {
        id: cells.text()?,
        actor: Actor { agent: cells.text()?, run: cells.text()?, trust: cells.word()? },
        source: cells.word()?,
        observed_at: cells.time()?,
        text: cells.text()?,
    })
}
