//! One event, and its hash.

use std::collections::BTreeMap;

use memory_core::sql::SqlValue;
use memory_core::{Result, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bucket::{Bucket, Operation};
use crate::encoding::{canonical, digest, word};
use crate::note::Actor;
use crate::request::Members;
use crate::seams::Scored;
use crate::store::{Cells, Session, int, maybe, text};

/// Where an event came from, and why it was bound to its row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SourceRef {
    /// The likeliest rows when it was resolved.
    pub candidates: Vec<Scored>,
    /// Why this row.
    pub reason: String,
    /// Names that the request gives the row.
    pub aliases: Vec<String>,
    /// What interpreted the note.
    pub interpreter: String,
    /// What resolved the request.
    pub resolver: String,
    /// How sure the interpreter was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Who decided, if people had to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviewed_by: Option<Actor>,
}

/// A committed write, in the order of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// Its position from 1, without gaps.
    pub seq: u64,
    /// Its id.
    pub event_id: String,
    /// Makes it unique: equal requests of the same note always have the same key.
    pub idempotency_key: String,
    /// When what it says was observed.
    pub observed_at: Timestamp,
    /// When it was committed.
    pub recorded_at: Timestamp,
    /// Who said it.
    pub actor: Actor,
    /// The note that asked for it.
    pub note_id: String,
    /// The deferred write that became this event.
    pub causation_pending_id: Option<String>,
    /// The bucket.
    pub bucket: Bucket,
    /// The row.
    pub target_id: String,
    /// What was done to it.
    pub operation: Operation,
    /// The row's revision when it was resolved.
    pub expected_rev: Option<u64>,
    /// The row's members.
    pub payload: BTreeMap<String, Value>,
    /// Where it came from.
    pub source_ref: SourceRef,
    /// Salted digest of the note's words and of why they were bound. It proves them as long as they are kept, and
    /// reveals nothing once they are erased.
    pub raw_digest: String,
    /// Digest of the row's id, salted.
    pub target_digest: String,
    /// Salted digest of the row's members and of the names it is given.
    pub content_digest: String,
    /// The hash of the event before it; empty for the first.
    pub prev_hash: String,
    /// The hash of all this; of what may be erased, it covers the digests.
    pub hash: String,
}

/// The columns in the order of [`read_event`].
pub(crate) const COLUMNS: &str = "e.seq, e.event_id, e.idempotency_key, e.observed_at, e.recorded_at, e.source_agent, \
     e.source_run, e.trust, e.note_id, e.causation_pending_id, e.bucket, e.target_id, e.operation, e.expected_rev, \
     e.payload_json, e.source_ref, e.raw_digest, e.target_digest, e.content_digest, e.prev_hash, e.hash";

/// Reads an event from a row that starts with [`COLUMNS`].
pub(crate) fn read_event(cells: &mut Cells) -> Result<Event> {
    Ok(Event {
        seq: cells.count()?,
        event_id: cells.text()?,
        idempotency_key: cells.text()?,
        observed_at: cells.time()?,
        recorded_at: cells.time()?,
        actor: Actor { agent: cells.text()?, run: cells.text()?, trust: cells.word()? },
        note_id: cells.text()?,
        causation_pending_id: cells.maybe_text()?,
        bucket: cells.word()?,
        target_id: cells.text()?,
        operation: cells.word()?,
        expected_rev: cells.maybe_int()?.map(|rev| rev.try_into().unwrap_or_default()),
        payload: cells.json::<Members>()?.0.into_iter().collect(),
        source_ref: cells.json()?,
        raw_digest: cells.text()?,
        target_digest: cells.text()?,
        content_digest: cells.text()?,
        prev_hash: cells.text()?,
        hash: cells.text()?,
    })
}

impl Event {
    /// The digest of the words behind it and of why they were bound.
    pub(crate) fn digest_of_words(&self, salt: &str, raw: &str, reference: Option<&str>) -> Result<String> {
        let evidence = SourceRef { aliases: Vec::new(), ..self.source_ref.clone() };
        Ok(digest([salt, raw, reference.unwrap_or_default(), &canonical(&evidence)?]))
    }

    /// The digest of the row that it names.
    pub(crate) fn digest_of_target(&self, salt: &str) -> String {
        digest([salt, &self.target_id])
    }

    /// The digest of what it says of the row.
    pub(crate) fn digest_of_content(&self, salt: &str) -> Result<String> {
        Ok(digest([salt, &canonical(&self.payload)?, &canonical(&self.source_ref.aliases)?]))
    }

    /// Whether it would set members or names but has none, because they were erased.
    pub(crate) fn is_emptied(&self) -> bool {
        !self.operation.is_lifecycle() && self.payload.is_empty() && self.source_ref.aliases.is_empty()
    }

    /// The hash of its digests, of what is never erased, and of the previous event.
    pub(crate) fn hashed(&self) -> Result<String> {
        let numbers = [
            self.seq.to_string(),
            self.observed_at.as_millis().to_string(),
            self.recorded_at.as_millis().to_string(),
            self.expected_rev.map(|rev| rev.to_string()).unwrap_or_default(),
            word(&self.actor.trust)?,
        ];
        let texts = [
            "memory.event.v1",
            &self.event_id,
            &self.idempotency_key,
            &self.actor.agent,
            &self.actor.run,
            &self.note_id,
            self.causation_pending_id.as_deref().unwrap_or_default(),
            self.bucket.as_str(),
            self.operation.as_str(),
            &self.raw_digest,
            &self.target_digest,
            &self.content_digest,
            &self.prev_hash,
        ];
        Ok(digest(texts.into_iter().chain(numbers.iter().map(String::as_str))))
    }

    /// Appends it.
    pub(crate) async fn insert(&self, tx: &Session<'_>) -> Result<()> {
        let args: [SqlValue; 21] = [
            int(self.seq),
            text(&self.event_id),
            text(&self.idempotency_key),
            int(self.observed_at.as_millis()),
            int(self.recorded_at.as_millis()),
            text(&self.actor.agent),
            text(&self.actor.run),
            text(word(&self.actor.trust)?),
            text(&self.note_id),
            maybe(self.causation_pending_id.as_ref().map(text)),
            text(self.bucket.as_str()),
            text(&self.target_id),
            text(self.operation.as_str()),
            maybe(self.expected_rev.map(int)),
            text(canonical(&self.payload)?),
            text(canonical(&self.source_ref)?),
            text(&self.raw_digest),
            text(&self.target_digest),
            text(&self.content_digest),
            text(&self.prev_hash),
            text(&self.hash),
        ];
        tx.exec(
            "INSERT INTO events_memory (seq, event_id, idempotency_key, observed_at, recorded_at, source_agent, source_run, \
             trust, note_id, causation_pending_id, bucket, target_id, operation, expected_rev, payload_json, source_ref, \
             raw_digest, target_digest, content_digest, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &args,
        )
        .await
        .map(drop)
    }
}
