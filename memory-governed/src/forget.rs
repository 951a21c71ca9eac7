//! Forgets a note or a row, and what was derived from it. `docs/spec/governed.md`, GOV-39 and GOV-43 to GOV-46.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::sql::SqlValue;
use memory_core::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use crate::bucket::Bucket;
use crate::encoding::{canonical, word};
use crate::ledger::{COLUMNS, Event, SourceRef, fold_row, read_event};
use crate::note::{Actor, Trust};
use crate::projection::{SharedMemoryWriter, read};
use crate::request::WriteRequest;
use crate::resolve::occurs;
use crate::seams::Scored;
use crate::shared::{every_row, names};
use crate::store::{FORGOTTEN, Session, Space, int, maybe, text};

/// Events, notes and deferred writes read at once.
const PAGE: u64 = 500;
/// Why a deferred write needs a person once a row that it may have meant is forgotten.
const REVIEW: &str = "a row that it may have meant was forgotten; what is left is no proof";

/// What was forgotten, each by the name it had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Forgotten {
    /// Notes whose words were erased.
    pub notes: BTreeSet<String>,
    /// Rows that are gone.
    pub rows: BTreeSet<(Bucket, String)>,
    /// Rows that lost what a forgotten note gave them.
    pub changed: BTreeSet<(Bucket, String)>,
    /// Events from which something was erased.
    pub events: BTreeSet<u64>,
    /// Deferred writes that were erased.
    pub pending: BTreeSet<String>,
}

impl Forgotten {
    /// Whether there was nothing to forget.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.notes.is_empty() && self.rows.is_empty() && self.events.is_empty() && self.pending.is_empty()
    }
}

/// Forgets notes and rows. Each call is one transaction, and leaves a tombstone for everything it erased.
///
/// What an event says is erased in the ledger itself, which keeps its digest, so that the chain still verifies. From
/// then on, the rows are what the rest of the ledger gives, now and after a rebuild.
#[derive(Clone, Debug)]
pub struct Eraser(Space);

impl Eraser {
    /// The eraser of this space.
    #[must_use]
    pub fn new(space: &Space) -> Self {
        Self(space.clone())
    }

    /// Forgets a note: its words, notes with the same words, what was deferred, what its events say and why they were
    /// bound, and the rows that come from nothing else, together with rows that depend on these. What it ended stays
    /// ended. A note that is not promoted yet never will be. With `is_trial`, reports what would be forgotten without
    /// changing anything.
    ///
    /// # Errors
    /// `forbidden` without authority, or if a more trusted writer wrote part of it; the store's errors.
    pub async fn note(&self, note_id: &str, by: &Actor, is_trial: bool) -> Result<Forgotten> {
        let mut erasure = Erasure::begin(&self.0, by).await?;
        let done = erasure.note(note_id).await;
        erasure.end(done, is_trial).await
    }

    /// Forgets a row: all its events and names, the words of the notes behind them, and the rows that depend on it.
    /// Otherwise as [`note`](Self::note).
    ///
    /// # Errors
    /// `forbidden` without authority; the store's errors.
    pub async fn row(&self, bucket: Bucket, id: &str, by: &Actor, is_trial: bool) -> Result<Forgotten> {
        let mut erasure = Erasure::begin(&self.0, by).await?;
        let done = erasure.row(bucket, id).await;
        erasure.end(done, is_trial).await
    }
}

/// Which parts of an event to erase.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Parts {
    /// The words behind it, and why it was bound.
    Words,
    /// Also what it says about its row.
    Content,
}

/// One forgetting, in its transaction.
struct Erasure<'a> {
    space: &'a Space,
    tx: Session<'a>,
    by: &'a Actor,
    done: Forgotten,
    /// Rows to be removed.
    queue: BTreeSet<(Bucket, String)>,
    /// Rows to rebuild.
    touched: BTreeSet<(Bucket, String)>,
}

impl<'a> Erasure<'a> {
    async fn begin(space: &'a Space, by: &'a Actor) -> Result<Self> {
        if by.trust < Trust::Authority {
            return Err(Error::forbidden(
                "only a person, or an agent with authority, has shared state forgotten",
            ));
        }
        let tx = space.begin().await?;
        Ok(Self {
            space,
            tx,
            by,
            done: Forgotten::default(),
            queue: BTreeSet::new(),
            touched: BTreeSet::new(),
        })
    }

    async fn end(self, done: Result<()>, is_trial: bool) -> Result<Forgotten> {
        if is_trial && done.is_ok() {
            self.tx.undo().await?;
            return Ok(self.done);
        }
        self.tx.end(done).await.map(|()| self.done)
    }

    async fn note(&mut self, note_id: &str) -> Result<()> {
        for id in self.words_of_note(note_id).await? {
            for event in self.events("e.note_id = ?", &[text(id)]).await? {
                self.erase(&event, Parts::Content).await?;
            }
        }
        self.settle().await
    }

    async fn row(&mut self, bucket: Bucket, id: &str) -> Result<()> {
        let of_row = [text(bucket.as_str()), text(id)];
        let events = self.events("e.bucket = ? AND e.target_id = ? LIMIT 1", &of_row).await?;
        if !events.is_empty() || read(&self.tx, bucket, id).await?.is_some() {
            self.queue.insert((bucket, id.to_owned()));
        }
        self.settle().await
    }

    /// Removes and rebuilds rows until nothing more follows.
    async fn settle(&mut self) -> Result<()> {
        loop {
            if let Some((bucket, id)) = self.queue.pop_first() {
                self.remove(bucket, &id).await?;
            } else if let Some((bucket, id)) = self.touched.pop_first() {
                self.renew(bucket, id).await?;
            } else {
                break;
            }
        }
        if self.done.is_nothing() {
            return Ok(());
        }
        self.renew_pending().await
    }

    /// Nobody may erase what a more trusted writer wrote.
    fn may_erase(&self, trust: Trust) -> Result<()> {
        if self.by.trust >= trust {
            return Ok(());
        }
        Err(Error::forbidden(
            "part of this was written by someone who is trusted further, so nothing is forgotten: ask a person",
        ))
    }

    /// Rebuilds a row from its remaining events; if there are none, removes it.
    async fn renew(&mut self, bucket: Bucket, id: String) -> Result<()> {
        let before = read(&self.tx, bucket, &id).await?;
        let Some(row) = fold_row(&self.tx, bucket, &id).await? else {
            self.queue.insert((bucket, id));
            return Ok(());
        };
        self.tx
            .exec(
                "UPDATE event_projection SET status = 'applied', error = NULL WHERE bucket = ? AND target_id = ? \
                 AND status IN ('failed', 'blocked', 'dead')",
                &[text(bucket.as_str()), text(&id)],
            )
            .await?;
        if before.as_ref() != Some(&row) {
            SharedMemoryWriter::replace(&self.tx, &row).await?;
            self.done.changed.insert((bucket, id));
        }
        Ok(())
    }

    /// Removes a row, its id from everywhere, and what depends on it.
    async fn remove(&mut self, bucket: Bucket, id: &str) -> Result<()> {
        let of_row = [text(bucket.as_str()), text(id)];
        if let Some(row) = read(&self.tx, bucket, id).await? {
            self.may_erase(row.trust)?;
        }
        let name = format!("{FORGOTTEN}{}", self.space.fresh());
        for event in self.events("e.bucket = ? AND e.target_id = ?", &of_row).await? {
            self.erase(&event, Parts::Content).await?;
            self.words_of_note(&event.note_id).await?;
            let renamed = [text(&name), text(&event.event_id)];
            self.tx.exec("UPDATE events_memory SET target_id = ? WHERE event_id = ?", &renamed).await?;
            let salt = "UPDATE events_raw SET target_salt = NULL WHERE event_id = ?";
            self.tx.exec(salt, &[text(&event.event_id)]).await?;
        }
        self.follow(bucket, id).await?;
        SharedMemoryWriter::remove(&self.tx, bucket, id).await?;
        let renamed = [text(&name), text(bucket.as_str()), text(id)];
        for sql in [
            "UPDATE event_projection SET target_id = ?, status = 'recorded', error = NULL WHERE bucket = ? AND target_id = ?",
            "UPDATE reviews SET target_id = ? WHERE pending_id IN \
             (SELECT pending_id FROM pending_memory_events WHERE bucket = ?) AND target_id = ?",
        ] {
            self.tx.exec(sql, &renamed).await?;
        }
        self.touched.remove(&(bucket, id.to_owned()));
        self.done.changed.remove(&(bucket, id.to_owned()));
        self.done.rows.insert((bucket, id.to_owned()));
        self.bury("row", &name, Some(bucket), None).await
    }

    /// Handles references to a removed row: rows that depend on it are removed too, and other events forget what they
    /// said about it.
    async fn follow(&mut self, bucket: Bucket, id: &str) -> Result<()> {
        let rows = every_row(&self.tx).await?;
        let is_shared = rows.iter().any(|row| row.id == id && row.bucket != bucket);
        for row in rows {
            let is_itself = row.id == id && row.bucket == bucket;
            if !is_itself && depends(&row.fields, bucket, id, is_shared) {
                self.queue.insert((row.bucket, row.id));
            }
        }
        let is_told = !is_shared && is_distinctive(id);
        let mut last = 0;
        loop {
            // In any case and width, which no SQL condition can match.
            let page = self.events("e.seq > ? ORDER BY e.seq LIMIT ?", &[int(last), int(PAGE)]).await?;
            let Some(latest) = page.last() else { break };
            last = latest.seq;
            for event in page {
                self.follow_event(&event, bucket, id, is_shared).await?;
            }
        }
        let mut last = String::new();
        loop {
            // What became of notes names rows, and so may their words.
            let sql = "SELECT note_id, text, result FROM notes WHERE note_id > ? ORDER BY note_id LIMIT ?";
            let page = self.tx.query(sql, &[text(last.as_str()), int(PAGE)]).await?;
            if page.is_empty() {
                return Ok(());
            }
            for mut cells in page {
                let (note_id, words, result) = (cells.text()?, cells.maybe_text()?, cells.maybe_text()?);
                last.clone_from(&note_id);
                if is_told && words.is_some_and(|words| occurs(&words, id)) {
                    for twin in self.words_of_note(&note_id).await? {
                        for event in self.events("e.note_id = ?", &[text(twin)]).await? {
                            self.erase(&event, Parts::Words).await?;
                        }
                    }
                } else if result.is_some_and(|result| occurs(&result, id)) {
                    self.tx
                        .exec("UPDATE notes SET result = NULL WHERE note_id = ?", &[text(note_id)])
                        .await?;
                }
            }
        }
    }

    /// Erases what another row's event says about the removed row.
    async fn follow_event(&mut self, event: &Event, bucket: Bucket, id: &str, is_shared: bool) -> Result<()> {
        let is_told =
            !is_shared && is_distinctive(id) && event.payload.values().any(|value| tells_of(value, id));
        if depends(&event.payload, bucket, id, is_shared) || is_told {
            self.erase(event, Parts::Content).await?;
            self.words_of_note(&event.note_id).await?;
        } else if event.bucket == bucket && is_evidence(&event.source_ref, id) {
            self.erase(event, Parts::Words).await?;
        }
        Ok(())
    }

    async fn events(&self, condition: &str, args: &[SqlValue]) -> Result<Vec<Event>> {
        let sql = format!("SELECT {COLUMNS} FROM events_memory e WHERE {condition}");
        self.tx.query(&sql, args).await?.iter_mut().map(read_event).collect()
    }

    /// Erases parts of an event; its row is rebuilt.
    async fn erase(&mut self, event: &Event, parts: Parts) -> Result<()> {
        let aliases = match parts {
            Parts::Words => event.source_ref.aliases.clone(),
            Parts::Content => Vec::new(),
        };
        let id = text(&event.event_id);
        let empty = text(canonical(&SourceRef { aliases, ..SourceRef::default() })?);
        let sql = "UPDATE events_memory SET source_ref = ? WHERE event_id = ?";
        self.tx.exec(sql, &[empty, id.clone()]).await?;
        let sql = "UPDATE events_raw SET salt = NULL, raw_input = NULL, reference_text = NULL \
                   WHERE event_id = ? AND salt IS NOT NULL";
        let mut erased = self.tx.exec(sql, std::slice::from_ref(&id)).await?;
        if parts == Parts::Content {
            let sql = "UPDATE events_memory SET payload_json = '{}' WHERE event_id = ?";
            self.tx.exec(sql, std::slice::from_ref(&id)).await?;
            let sql =
                "UPDATE events_raw SET content_salt = NULL WHERE event_id = ? AND content_salt IS NOT NULL";
            erased += self.tx.exec(sql, std::slice::from_ref(&id)).await?;
            if !event.target_id.starts_with(FORGOTTEN) {
                self.touched.insert((event.bucket, event.target_id.clone()));
            }
        }
        if erased > 0 && self.done.events.insert(event.seq) {
            self.bury("event", &event.event_id, None, Some(event.seq)).await?;
        }
        Ok(())
    }

    /// Erases the words of a note and of notes with the same words, with what they deferred and what is kept with their
    /// events. Returns them.
    async fn words_of_note(&mut self, note_id: &str) -> Result<BTreeSet<String>> {
        let same = "SELECT note_id, trust FROM notes WHERE note_id = ? OR text = (SELECT text FROM notes WHERE note_id = ?)";
        let mut erased = BTreeSet::new();
        for mut cells in self.tx.query(same, &[text(note_id), text(note_id)]).await? {
            erased.insert(cells.text()?);
            self.may_erase(cells.word()?)?;
        }
        for id in &erased {
            let sql = "UPDATE notes SET text = NULL, state = 'done', lease = NULL, result = NULL \
                       WHERE note_id = ? AND text IS NOT NULL";
            if self.tx.exec(sql, &[text(id)]).await? == 0 {
                continue;
            }
            self.done.notes.insert(id.clone());
            self.bury("note", id, None, None).await?;
            let sql = "SELECT pending_id FROM pending_memory_events WHERE note_id = ?";
            for mut cells in self.tx.query(sql, &[text(id)]).await? {
                self.erase_pending(&cells.text()?).await?;
            }
            for event in self.events("e.note_id = ?", &[text(id)]).await? {
                self.erase(&event, Parts::Words).await?;
            }
        }
        Ok(erased)
    }

    /// What was deferred is nothing but the words of its note.
    async fn erase_pending(&mut self, pending_id: &str) -> Result<()> {
        let sql = "UPDATE pending_memory_events SET text = NULL, request_json = '', reason = '', candidates_json = '[]', \
                   status = CASE WHEN status IN ('waiting', 'needs_review') THEN 'rejected' ELSE status END \
                   WHERE pending_id = ? AND request_json <> ''";
        if self.tx.exec(sql, &[text(pending_id)]).await? == 0 {
            return Ok(());
        }
        self.done.pending.insert(pending_id.to_owned());
        self.bury("pending", pending_id, None, None).await
    }

    /// Removes forgotten rows from deferred writes. Losing a candidate must not bind anything, and neither must a
    /// revision that its row no longer has.
    async fn renew_pending(&mut self) -> Result<()> {
        let mut last = 0;
        loop {
            let sql = "SELECT seq, pending_id, bucket, text, request_json, reason, candidates_json \
                       FROM pending_memory_events WHERE seq > ? ORDER BY seq LIMIT ?";
            let page = self.tx.query(sql, &[int(last), int(PAGE)]).await?;
            if page.is_empty() {
                return Ok(());
            }
            for mut cells in page {
                last = cells.count()?;
                let (id, bucket): (String, Bucket) = (cells.text()?, cells.word()?);
                let (words, request, reason) = (cells.maybe_text()?, cells.text()?, cells.text()?);
                let candidates: Vec<Scored> = cells.json()?;
                self.renew_one(&id, bucket, words.as_deref(), &request, &reason, candidates).await?;
            }
        }
    }

    async fn renew_one(
        &mut self,
        pending_id: &str,
        bucket: Bucket,
        words: Option<&str>,
        request: &str,
        reason: &str,
        mut candidates: Vec<Scored>,
    ) -> Result<()> {
        let gone: Vec<&str> =
            self.done.rows.iter().filter(|(of, _)| *of == bucket).map(|(_, id)| id.as_str()).collect();
        let target = serde_json::from_str(request).ok().and_then(|request: WriteRequest| request.target_id);
        let is_about = target.is_some_and(|target| gone.contains(&target.as_str()))
            || words.is_some_and(|words| gone.iter().any(|id| is_distinctive(id) && occurs(words, id)));
        if is_about {
            return self.erase_pending(pending_id).await;
        }
        let before = candidates.clone();
        candidates.retain(|one| !gone.contains(&one.id.as_str()));
        let is_less = candidates.len() < before.len() || gone.iter().any(|id| occurs(reason, id));
        for one in &mut candidates {
            if self.done.changed.contains(&(bucket, one.id.clone()))
                && let Some(row) = read(&self.tx, bucket, &one.id).await?
            {
                one.rev = one.rev.min(row.rev);
            }
        }
        if candidates == before && !is_less {
            return Ok(());
        }
        let reason = if is_less { REVIEW } else { reason };
        let sql = "UPDATE pending_memory_events SET candidates_json = ?, reason = ? WHERE pending_id = ?";
        let args = [text(canonical(&candidates)?), text(reason), text(pending_id)];
        self.tx.exec(sql, &args).await?;
        if is_less {
            let sql = "UPDATE pending_memory_events SET status = 'needs_review', attempts = 0 WHERE pending_id = ? AND \
                       status IN ('waiting', 'needs_review')";
            self.tx.exec(sql, &[text(pending_id)]).await?;
        }
        Ok(())
    }

    async fn bury(&self, kind: &str, id: &str, bucket: Option<Bucket>, event: Option<u64>) -> Result<()> {
        self.tx
            .exec(
                "INSERT INTO tombstones (seq, kind, id, bucket, event_seq, agent, run, trust, forgotten_at) \
                 SELECT coalesce(max(seq), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ? FROM tombstones",
                &[
                    text(kind),
                    text(id),
                    maybe(bucket.map(|bucket| text(bucket.as_str()))),
                    maybe(event.map(int)),
                    text(&self.by.agent),
                    text(&self.by.run),
                    text(word(&self.by.trust)?),
                    int(self.space.now().as_millis()),
                ],
            )
            .await
            .map(drop)
    }
}

/// Whether members name a row. An id shared by rows of several buckets names none of them, unless the member says which
/// bucket.
fn depends(members: &BTreeMap<String, Value>, bucket: Bucket, id: &str, is_shared: bool) -> bool {
    members.iter().any(|(name, value)| match name.as_str() {
        "source_issue_id" => bucket == Bucket::Issues && names(value, id),
        _ => !is_shared && names(value, id),
    })
}

/// Whether a text within a value contains an id as a whole token.
fn tells_of(value: &Value, id: &str) -> bool {
    match value {
        Value::String(text) => occurs(text, id),
        Value::Array(items) => items.iter().any(|item| tells_of(item, id)),
        Value::Object(members) => members.values().any(|item| tells_of(item, id)),
        _ => false,
    }
}

/// Whether the evidence of an event names a row of its bucket.
fn is_evidence(of: &SourceRef, id: &str) -> bool {
    of.candidates.iter().any(|one| one.id == id) || occurs(&of.reason, id)
}

/// Whether an id cannot be an ordinary word, so that a text that contains it means the row.
fn is_distinctive(id: &str) -> bool {
    id.contains(['_', '-'])
}
