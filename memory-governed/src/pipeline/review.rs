//! What people decide about deferred writes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use memory_core::{Error, ErrorKind, Result, Retry};
use serde_json::Value;

use super::inputter::{Entry, Inputter};
use super::outcome::{Outcome, changed};
use super::queue::{Pending, PendingMemoryQueue, PendingStatus, find, finish};
use super::settle::{Settled, Wanted, settle_as};
use crate::bucket::{Bucket, Operation};
use crate::encoding::{digest, word};
use crate::ledger::{Event, SourceRef};
use crate::note::{Actor, Trust};
use crate::projection::{Row, read};
use crate::request::{self, is_id};
use crate::store::{FORGOTTEN, Session, int, maybe, text};

/// Decides deferred writes by hand. Each decision is recorded with who made it; rows of that record never change.
#[derive(Clone, Debug)]
pub struct Review(PendingMemoryQueue);

impl Review {
    /// Reviews this queue.
    #[must_use]
    pub fn new(queue: PendingMemoryQueue) -> Self {
        Self(queue)
    }

    /// Binds a deferred write to a row. The event keeps the note's own writer, and names who decided.
    ///
    /// # Errors
    /// `forbidden` without authority; `not_found` if there is no such write or row; `conflict` if it has been decided
    /// already, or the row does not allow it; the store's errors.
    pub async fn bind(&self, id: &str, target: &str, by: &Actor) -> Result<Outcome> {
        authorised(by)?;
        let tx = self.0.space.begin().await?;
        let done = self.bind_in(&tx, id, target, by).await;
        let outcome = tx.end(done).await?;
        self.0.replay_after(changed(std::slice::from_ref(&outcome))).await;
        Ok(outcome)
    }

    async fn bind_in(&self, tx: &Session<'_>, id: &str, target: &str, by: &Actor) -> Result<Outcome> {
        let pending = undecided(tx, id).await?;
        let request = pending.request.as_ref().ok_or_else(|| not_found("deferred write"))?;
        let row = if is_id(target) { read(tx, request.bucket, target).await? } else { None };
        // The write may be for a row that does not exist yet; that starts under the name that the note gave it.
        let begins = !request.operation.is_lifecycle()
            && request.reference_text.is_none()
            && is_id(target)
            && request.target_id.as_deref().is_none_or(|id| id == target)
            && (request.bucket != Bucket::Plan || target == "main")
            && request.check().is_ok();
        if row.is_none() && !begins {
            return Err(not_found("row"));
        }
        // Someone who may not end or change a row must not do so by deciding what their own note meant. Its creator may
        // end it.
        let is_own = |row: &Row| row.created_by == by.agent && request.operation.is_lifecycle();
        if row.is_some_and(|row| by.trust < row.trust && !is_own(&row)) {
            return Err(Error::forbidden(
                "whoever began this row is trusted further: only a writer of that trust decides about it",
            ));
        }
        let wanted = Wanted {
            note: &pending.note,
            request,
            key: pending.key.clone(),
            interpreter: &pending.interpreter,
            pending_id: Some(&pending.id),
        };
        match settle_as(&self.0.space, tx, &wanted, target, by).await? {
            Settled::Done(outcome) => {
                if !matches!(outcome, Outcome::Committed { .. }) {
                    self.append(tx, &pending, BTreeMap::from([decision("bind")]), by).await?;
                }
                self.record(tx, id, "bind", Some(target), by).await?;
                finish(tx, &pending, outcome).await
            }
            Settled::Waits { reason, .. } => Err(refused(reason)),
        }
    }

    /// Rejects a deferred write, for a reason of at most 4,000 bytes. The ledger keeps it until the note is forgotten.
    ///
    /// # Errors
    /// `invalid_argument` for a missing or longer reason; otherwise as [`bind`](Self::bind).
    pub async fn reject(&self, id: &str, reason: &str, by: &Actor) -> Result<Outcome> {
        authorised(by)?;
        request::text("reason", reason, request::MAX_RATIONALE_BYTES)?;
        let tx = self.0.space.begin().await?;
        let done = async {
            let pending = undecided(&tx, id).await?;
            self.append(
                &tx,
                &pending,
                BTreeMap::from([decision("reject"), ("reason".to_owned(), reason.into())]),
                by,
            )
            .await?;
            self.record(&tx, id, "reject", None, by).await?;
            finish(&tx, &pending, Outcome::Rejected { reason: reason.to_owned() }).await
        }
        .await;
        tx.end(done).await
    }

    /// Appends a decision that changed no row to the ledger, so that its chain proves the decision. An event that
    /// resulted from a decision names who made it.
    async fn append(
        &self,
        tx: &Session<'_>,
        pending: &Pending,
        payload: BTreeMap<String, Value>,
        by: &Actor,
    ) -> Result<()> {
        let space = &self.0.space;
        let event = Event {
            seq: 0,
            event_id: space.fresh(),
            idempotency_key: digest(["memory.review.v1", &pending.id]),
            observed_at: space.now(),
            recorded_at: space.now(),
            actor: by.clone(),
            note_id: pending.note.id.clone(),
            causation_pending_id: Some(pending.id.clone()),
            bucket: pending.request.as_ref().map_or(Bucket::Issues, |request| request.bucket),
            // The name of no row.
            target_id: format!("{FORGOTTEN}{}", pending.id),
            operation: Operation::Review,
            expected_rev: None,
            payload,
            source_ref: SourceRef { reviewed_by: Some(by.clone()), ..SourceRef::default() },
            raw_digest: String::new(),
            target_digest: String::new(),
            content_digest: String::new(),
            prev_hash: String::new(),
            hash: String::new(),
        };
        let entry = Entry { event, raw: "", reference: None, prior: None, is_blocked: false };
        Inputter::append(space, tx, entry).await.map(drop)
    }

    async fn record(
        &self,
        tx: &Session<'_>,
        id: &str,
        action: &str,
        target: Option<&str>,
        by: &Actor,
    ) -> Result<()> {
        tx.exec(
            "INSERT INTO reviews (seq, pending_id, action, agent, run, trust, target_id, recorded_at) \
             SELECT coalesce(max(seq), 0) + 1, ?, ?, ?, ?, ?, ?, ? FROM reviews",
            &[
                text(id),
                text(action),
                text(&by.agent),
                text(&by.run),
                text(word(&by.trust)?),
                maybe(target.map(text)),
                int(self.0.space.now().as_millis()),
            ],
        )
        .await
        .map(drop)
    }
}

fn decision(action: &str) -> (String, Value) {
    ("decision".to_owned(), action.into())
}

fn authorised(by: &Actor) -> Result<()> {
    if by.trust >= Trust::Authority {
        return Ok(());
    }
    Err(Error::forbidden("only a person, or an agent with authority, decides what is deferred"))
}

async fn undecided(tx: &Session<'_>, id: &str) -> Result<Pending> {
    let pending = find(tx, id).await?.ok_or_else(|| not_found("deferred write"))?;
    match pending.status {
        PendingStatus::Waiting | PendingStatus::NeedsReview => Ok(pending),
        _ => Err(refused("the deferred write is decided already; look at what still waits")),
    }
}

/// The same decision would be refused again.
fn refused(why: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Conflict, why).with_retry(Retry::Never)
}

fn not_found(what: &'static str) -> Error {
    Error::not_found(format!("there is no such {what} in this space"))
}
