//! Uncertain writes: they wait, are retried, and eventually ask for a person.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_core::{Result, Timestamp};
use serde::{Deserialize, Serialize};

use super::outcome::{Outcome, changed};
use super::settle::{Settled, Wanted, settle};
use crate::bucket::Bucket;
use crate::encoding::{canonical, word};
use crate::note::{Actor, Note};
use crate::projection::{Row, read};
use crate::request::WriteRequest;
use crate::resolve::OFFERED;
use crate::seams::{Resolver, Scored};
use crate::store::{Cells, Session, Space, int, maybe, text};

/// How many candidates are kept with a deferred write.
const MAX_CANDIDATES: usize = 8;
/// How many times in a row a replay may trigger another.
const ROUNDS: usize = 3;
/// How many waiting writes are checked after a change, and how many names are looked for.
const LOOKED_AT: u64 = 200;
const MAX_NAMES: usize = 32;
/// Writes that ask for a person only because they were retried too often; a change may still make them certain.
const TRIED_OUT: &str = "(status = 'needs_review' AND attempts >= max_attempts)";

/// What a deferred write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingStatus {
    /// For rows that make it certain.
    Waiting,
    /// For a person.
    NeedsReview,
    /// Nothing: it is an event.
    Resolved,
    /// Nothing: it was already so.
    NoOp,
    /// Nothing: a person rejected it, or its words were erased.
    Rejected,
}

/// A deferred write.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pending {
    /// Its id.
    pub id: String,
    /// The note that asked for it, and its writer.
    #[serde(skip)]
    pub note: Note,
    /// Who asked.
    pub actor: Actor,
    /// The note's words; `None` if erased.
    pub text: Option<String>,
    /// When it was observed.
    pub observed_at: Timestamp,
    /// What it asks for; `None` if erased.
    pub request: Option<WriteRequest>,
    /// Why it waits, was rejected, or was already so.
    pub reason: String,
    /// The likeliest rows when it was deferred, best first: those that are [offered](Self::offered), then others that are
    /// watched, because nothing is bound once one of them has ended.
    pub candidates: Vec<Scored>,
    /// What it waits for.
    pub status: PendingStatus,
    /// How many due attempts were made.
    pub attempts: u64,
    /// When it asks for a person at the latest.
    pub expires_at: Timestamp,
    /// The event it became.
    pub resolved_event: Option<String>,
    #[serde(skip)]
    pub(super) key: String,
    #[serde(skip)]
    pub(super) interpreter: String,
    #[serde(skip)]
    max_attempts: u64,
}

impl Pending {
    /// The rows that people are asked about.
    #[must_use]
    pub fn offered(&self) -> &[Scored] {
        self.candidates.get(..OFFERED).unwrap_or(&self.candidates)
    }
}

const COLUMNS: &str = "pending_id, note_id, agent, run, trust, source, observed_at, text, request_json, reason, \
                       candidates_json, status, attempts, expires_at, resolved_event, idempotency_key, interpreter, max_attempts";

/// A write to defer.
pub(super) struct Deferral<'a> {
    pub(super) wanted: &'a Wanted<'a>,
    pub(super) reason: String,
    pub(super) candidates: Vec<Scored>,
}

/// Holds deferred writes, and tries them again with their own writer, trust and time.
#[derive(Clone)]
pub struct PendingMemoryQueue {
    pub(super) space: Space,
    resolver: Arc<dyn Resolver>,
}

impl std::fmt::Debug for PendingMemoryQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingMemoryQueue").field("space", &self.space).finish_non_exhaustive()
    }
}

impl PendingMemoryQueue {
    /// The queue of this space.
    #[must_use]
    pub fn new(space: &Space, resolver: Arc<dyn Resolver>) -> Self {
        Self { space: space.clone(), resolver }
    }

    /// Deferred writes in this state, oldest first: at most `limit`.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self, status: PendingStatus, limit: usize) -> Result<Vec<Pending>> {
        let sql =
            format!("SELECT {COLUMNS} FROM pending_memory_events WHERE status = ? ORDER BY seq LIMIT ?");
        let rows = self.space.plain().query(&sql, &[text(word(&status)?), int(limit as u64)]).await?;
        rows.into_iter().map(pending_of).collect()
    }

    /// Deferred writes that nobody has decided, oldest first: at most `limit`, and only this agent's if one is given.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn undecided(&self, agent: Option<&str>, limit: usize) -> Result<Vec<Pending>> {
        let (mut of, mut args) = ("", Vec::new());
        if let Some(agent) = agent {
            (of, args) = ("AND agent = ? ", vec![text(agent)]);
        }
        args.push(int(limit as u64));
        let sql = format!(
            "SELECT {COLUMNS} FROM pending_memory_events WHERE status IN ('waiting', 'needs_review') {of}ORDER BY seq LIMIT ?"
        );
        let rows = self.space.plain().query(&sql, &args).await?;
        rows.into_iter().map(pending_of).collect()
    }

    /// One deferred write.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn show(&self, id: &str) -> Result<Option<Pending>> {
        find(&self.space.plain(), id).await
    }

    pub(super) async fn defer(&self, tx: &Session<'_>, deferral: Deferral<'_>) -> Result<Outcome> {
        let Deferral { wanted, reason, mut candidates } = deferral;
        let note = wanted.note;
        candidates.truncate(MAX_CANDIDATES);
        let (pending_id, options) = (self.space.fresh(), self.space.options());
        tx.exec(
            "INSERT INTO pending_memory_events (pending_id, seq, idempotency_key, note_id, agent, run, trust, source, \
             observed_at, recorded_at, text, bucket, request_json, interpreter, reason, candidates_json, status, attempts, \
             max_attempts, next_attempt_at, expires_at, resolved_event) SELECT ?, coalesce(max(seq), 0) + 1, ?, ?, ?, ?, ?, ?, \
             ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', 0, ?, ?, ?, NULL FROM pending_memory_events",
            &[
                text(&pending_id),
                text(&wanted.key),
                text(&note.id),
                text(&note.actor.agent),
                text(&note.actor.run),
                text(word(&note.actor.trust)?),
                text(word(&note.source)?),
                int(note.observed_at.as_millis()),
                int(self.space.now().as_millis()),
                text(&note.text),
                text(wanted.request.bucket.as_str()),
                text(canonical(wanted.request)?),
                text(wanted.interpreter),
                text(&reason),
                text(canonical(&candidates)?),
                int(options.max_attempts),
                int(self.space.next_attempt(0).as_millis()),
                int(self.space.after(options.pending_ttl).as_millis()),
            ],
        )
        .await?;
        Ok(Outcome::Deferred { pending_id, reason })
    }

    /// [`PendingMemoryQueue::replay`] after a commit. An error here must not hide the commit's outcome; what was not
    /// retried is retried when it is due.
    pub(crate) async fn replay_after(&self, changed_rows: Vec<(Bucket, String)>) -> Vec<Outcome> {
        self.replay(changed_rows).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "deferred writes were not tried again after a write");
            Vec::new()
        })
    }

    /// Retries deferred writes: first those that the changed rows affect, then those that have waited longest. At most
    /// [`replay_limit`](crate::Options::replay_limit) in all, at least half of it reserved for those that are due, so
    /// that none is passed over forever.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn replay(&self, changed_rows: Vec<(Bucket, String)>) -> Result<Vec<Outcome>> {
        let (mut rows, mut outcomes) = (changed_rows, Vec::new());
        let mut left = self.space.options().replay_limit;
        for _ in 0..ROUNDS {
            let items = self.next(&rows, left).await?;
            if items.is_empty() {
                break;
            }
            left = left.saturating_sub(items.len());
            let mut round = Vec::with_capacity(items.len());
            for (id, is_due) in items {
                round.extend(self.try_again(&id, is_due).await?);
            }
            rows = changed(&round);
            outcomes.extend(round);
            if rows.is_empty() || left == 0 {
                break;
            }
        }
        Ok(outcomes)
    }

    /// The ids to try, and whether each is due by its time.
    async fn next(&self, rows: &[(Bucket, String)], limit: usize) -> Result<Vec<(String, bool)>> {
        let session = self.space.plain();
        let mut items = Vec::new();
        for (bucket, id) in rows {
            let Some(row) = read(&session, *bucket, id).await? else { continue };
            let patterns: Vec<String> = names(&row).take(MAX_NAMES).map(pattern).collect();
            let said = vec!["lower(text) LIKE ? OR lower(request_json) LIKE ?"; patterns.len()].join(" OR ");
            // Those that contain a name first: all may have the row among their candidates.
            let sql = format!(
                "SELECT {COLUMNS} FROM pending_memory_events WHERE bucket = ? AND expires_at > ? AND \
                 ((status = 'waiting' AND candidates_json LIKE ?) OR ((status = 'waiting' OR {TRIED_OUT}) AND ({said}))) \
                 ORDER BY CASE WHEN {said} THEN 0 ELSE 1 END, status DESC, seq LIMIT ?"
            );
            let said = || patterns.iter().flat_map(|pattern| [text(pattern), text(pattern)]);
            let now = int(self.space.now().as_millis());
            let mut args = vec![text(bucket.as_str()), now, text(pattern(&row.id))];
            args.extend(said().chain(said()).chain([int(LOOKED_AT)]));
            for cells in session.query(&sql, &args).await? {
                let pending = pending_of(cells)?;
                if items.len() < limit / 2 && concerns(&row, &pending) {
                    items.push((pending.id, false));
                }
            }
        }
        let sql = "SELECT pending_id FROM pending_memory_events WHERE status = 'waiting' AND \
                   (next_attempt_at <= ? OR expires_at <= ?) ORDER BY next_attempt_at, seq LIMIT ?";
        let now = int(self.space.now().as_millis());
        let mut seen: BTreeSet<String> = items.iter().map(|(id, _)| id.clone()).collect();
        for mut cells in session.query(sql, &[now.clone(), now, int(limit as u64)]).await? {
            let id = cells.text()?;
            if items.len() < limit && seen.insert(id.clone()) {
                items.push((id, true));
            }
        }
        Ok(items)
    }

    /// Retries one in its own transaction; `None` if it no longer waits.
    async fn try_again(&self, id: &str, is_due: bool) -> Result<Option<Outcome>> {
        let tx = self.space.begin().await?;
        let done = self.try_again_in(&tx, id, is_due).await;
        tx.end(done).await
    }

    async fn try_again_in(&self, tx: &Session<'_>, id: &str, is_due: bool) -> Result<Option<Outcome>> {
        let may_be_tried = |found: &Pending| match found.status {
            PendingStatus::Waiting => true,
            PendingStatus::NeedsReview => !is_due && found.attempts >= found.max_attempts,
            _ => false,
        };
        let Some(pending) = find(tx, id).await?.filter(may_be_tried) else { return Ok(None) };
        let Some(request) = &pending.request else { return Ok(None) };
        if pending.expires_at <= self.space.now() {
            return needs_review(tx, &pending, "it has waited too long").await.map(Some);
        }
        if let Some(gone) = ended_since(tx, &pending, request.bucket).await? {
            // Having one candidate less must not make another one certain.
            return needs_review(tx, &pending, &format!("{gone} has ended since; what is left is no proof"))
                .await
                .map(Some);
        }
        let wanted = Wanted {
            note: &pending.note,
            request,
            key: pending.key.clone(),
            interpreter: &pending.interpreter,
            pending_id: Some(&pending.id),
        };
        let settled = settle(&self.space, tx, self.resolver.as_ref(), &wanted).await?;
        match settled {
            Settled::Done(outcome) => finish(tx, &pending, outcome).await.map(Some),
            Settled::Waits { reason, .. } => {
                let attempts = pending.attempts + u64::from(is_due);
                if attempts >= pending.max_attempts {
                    return needs_review(tx, &Pending { attempts, ..pending }, &reason).await.map(Some);
                }
                if is_due {
                    let tried = u32::try_from(attempts).unwrap_or(u32::MAX);
                    tx.exec(
                        "UPDATE pending_memory_events SET attempts = ?, next_attempt_at = ?, reason = ? WHERE pending_id = ?",
                        &[
                            int(attempts),
                            int(self.space.next_attempt(tried).as_millis()),
                            text(&reason),
                            text(&pending.id),
                        ],
                    )
                    .await?;
                }
                Ok(Some(Outcome::Deferred { pending_id: pending.id.clone(), reason }))
            }
        }
    }
}

/// Whether a deferred write may be about a changed row: the row is a candidate, is named, or has the words of its
/// reference.
fn concerns(row: &Row, pending: &Pending) -> bool {
    let Some(request) = &pending.request else { return false };
    let said =
        [request.reference_text.as_deref().unwrap_or_default(), pending.text.as_deref().unwrap_or_default()]
            .map(str::to_lowercase);
    pending.candidates.iter().any(|one| one.id == row.id)
        || request.target_id.as_ref() == Some(&row.id)
        || names(row).any(|name| said.iter().any(|said| said.contains(name)))
}

/// What a row is called, its latest names first after its id.
fn names(row: &Row) -> impl Iterator<Item = &str> {
    [row.id.as_str()].into_iter().chain(row.aliases.iter().rev().map(|alias| alias.alias.as_str()))
}

/// A `LIKE` pattern that finds everything with the name, and a little more: marks and letters of other scripts match
/// any character.
fn pattern(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == ' ' { c } else { '_' };
    format!("%{}%", name.chars().map(plain).collect::<String>())
}

/// A row that was a live candidate when the write was deferred and has ended since.
async fn ended_since(tx: &Session<'_>, pending: &Pending, bucket: Bucket) -> Result<Option<String>> {
    for one in &pending.candidates {
        let row = read(tx, bucket, &one.id).await?;
        // A row that had already ended still has its revision of then.
        if row.is_none_or(|row| !row.is_live() && row.rev > one.rev) {
            return Ok(Some(one.id.clone()));
        }
    }
    Ok(None)
}

async fn needs_review(tx: &Session<'_>, pending: &Pending, reason: &str) -> Result<Outcome> {
    tx.exec(
        "UPDATE pending_memory_events SET status = 'needs_review', attempts = ?, reason = ? WHERE pending_id = ?",
        &[int(pending.attempts), text(reason), text(&pending.id)],
    )
    .await?;
    Ok(Outcome::Deferred { pending_id: pending.id.clone(), reason: reason.to_owned() })
}

/// Ends a deferred write with what became of it.
pub(super) async fn finish(tx: &Session<'_>, pending: &Pending, outcome: Outcome) -> Result<Outcome> {
    let (status, event) = match &outcome {
        Outcome::Committed { seq, .. } => {
            let sql = "SELECT event_id FROM events_memory WHERE seq = ?";
            (
                PendingStatus::Resolved,
                tx.one(sql, &[int(*seq)]).await?.map(|mut cells| cells.text()).transpose()?,
            )
        }
        Outcome::NoOp { .. } => (PendingStatus::NoOp, None),
        _ => (PendingStatus::Rejected, None),
    };
    let reason = match &outcome {
        Outcome::NoOp { reason } | Outcome::Rejected { reason } => Some(reason),
        _ => None,
    };
    tx.exec(
        "UPDATE pending_memory_events SET status = ?, resolved_event = ?, reason = COALESCE(?, reason) WHERE pending_id = ?",
        &[text(word(&status)?), maybe(event.map(text)), maybe(reason.map(text)), text(&pending.id)],
    )
    .await?;
    Ok(outcome)
}

pub(super) async fn find(session: &Session<'_>, id: &str) -> Result<Option<Pending>> {
    let sql = format!("SELECT {COLUMNS} FROM pending_memory_events WHERE pending_id = ?");
    session.one(&sql, &[text(id)]).await?.map(pending_of).transpose()
}

fn pending_of(mut cells: Cells) -> Result<Pending> {
    let (id, note_id) = (cells.text()?, cells.text()?);
    let actor = Actor { agent: cells.text()?, run: cells.text()?, trust: cells.word()? };
    let (source, observed_at, words) = (cells.word()?, cells.time()?, cells.maybe_text()?);
    // Erased texts are empty.
    let request = serde_json::from_str(&cells.text()?).ok();
    let note = Note {
        id: note_id,
        actor: actor.clone(),
        source,
        observed_at,
        text: words.clone().unwrap_or_default(),
    };
    Ok(Pending {
        id,
        note,
        actor,
        observed_at,
        text: words,
        request,
        reason: cells.text()?,
        candidates: cells.json()?,
        status: cells.word()?,
        attempts: cells.count()?,
        expires_at: cells.time()?,
        resolved_event: cells.maybe_text()?,
        key: cells.text()?,
        interpreter: cells.text()?,
        max_attempts: cells.count()?,
    })
}
