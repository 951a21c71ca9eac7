//! The only way to shared state: the ledger first, then, in the same transaction, the projection.

use memory_core::{ErrorKind, Result};

use crate::bucket::Bucket;
use crate::ledger::{COLUMNS, Event, head, read_event};
use crate::projection::{Projected, Row, SharedMemoryWriter, read};
use crate::store::{Session, Space, int, maybe, text};

/// How many rows are retried at once, and how many events are read at a time.
const RETRIED: u64 = 64;

/// An event to append, and the words behind it, which are stored separately.
pub(super) struct Entry<'a> {
    pub(super) event: Event,
    pub(super) raw: &'a str,
    pub(super) reference: Option<&'a str>,
    /// The row's current state.
    pub(super) prior: Option<Row>,
    /// Whether an earlier event of the row is not yet part of it.
    pub(super) is_blocked: bool,
}

/// An event that was appended.
pub(super) struct Appended {
    pub(super) seq: u64,
    pub(super) projection: &'static str,
}

/// Writes shared state. Everything that changes it goes through here: promotions, replays and reviews.
#[derive(Clone, Debug)]
pub struct Inputter(Space);

impl Inputter {
    /// The write path of this space.
    #[must_use]
    pub fn new(space: &Space) -> Self {
        Self(space.clone())
    }

    /// Appends an event and projects it. If the projection fails, the event stays and is marked.
    pub(super) async fn append(space: &Space, tx: &Session<'_>, entry: Entry<'_>) -> Result<Appended> {
        let Entry { mut event, raw, reference, prior, is_blocked } = entry;
        let last = head(tx).await?;
        event.seq = last.seq + 1;
        event.prev_hash = last.hash;
        let [salt, target_salt, content_salt] = [space.fresh(), space.fresh(), space.fresh()];
        event.raw_digest = event.digest_of_words(&salt, raw, reference)?;
        event.target_digest = event.digest_of_target(&target_salt);
        event.content_digest = event.digest_of_content(&content_salt)?;
        event.hash = event.hashed()?;
        event.insert(tx).await?;
        tx.exec(
            "INSERT INTO events_raw (event_id, salt, raw_input, reference_text, target_salt, content_salt) \
             VALUES (?, ?, ?, ?, ?, ?)",
            &[
                text(&event.event_id),
                text(salt),
                text(raw),
                maybe(reference.map(text)),
                text(target_salt),
                text(content_salt),
            ],
        )
        .await?;
        let (projection, error) =
            if is_blocked { ("blocked", None) } else { Self::project(tx, prior.as_ref(), &event).await? };
        let (attempts, next) = match projection {
            "failed" => (1, space.next_attempt(0).as_millis()),
            _ => (0, 0),
        };
        tx.exec(
            "INSERT INTO event_projection (seq, bucket, target_id, status, attempts, next_attempt_at, error) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            &[
                int(event.seq),
                text(event.bucket.as_str()),
                text(&event.target_id),
                text(projection),
                int(attempts),
                int(next),
                maybe(error.map(text)),
            ],
        )
        .await?;
        Ok(Appended { seq: event.seq, projection })
    }

    /// Projects within a savepoint, so that half a projection leaves nothing. Errors of the store itself are not the
    /// event's: they end the transaction.
    async fn project(
        tx: &Session<'_>,
        prior: Option<&Row>,
        event: &Event,
    ) -> Result<(&'static str, Option<String>)> {
        tx.savepoint().await?;
        match SharedMemoryWriter::project(tx, prior, event).await {
            Ok(projected) => {
                tx.keep().await?;
                Ok((if projected == Projected::Applied { "applied" } else { "recorded" }, None))
            }
            Err(error) if is_of_the_row(error.kind()) => {
                tx.undo().await?;
                tracing::warn!(seq = event.seq, %error, "an event could not be projected; it is tried again");
                Ok(("failed", Some(error.message().to_owned())))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether an earlier event of this row is not yet part of it.
    pub(super) async fn is_blocked(tx: &Session<'_>, bucket: Bucket, target: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM event_projection WHERE status IN ('failed', 'blocked', 'dead') AND bucket = ? \
                   AND target_id = ? LIMIT 1";
        Ok(tx.one(sql, &[text(bucket.as_str()), text(target)]).await?.is_some())
    }

    /// Retries failed projections that are due, in ledger order. Returns the rows that now match the ledger. What has
    /// failed too often is given up until a rebuild.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn retry_failed(&self) -> Result<Vec<(Bucket, String)>> {
        // Usually there is nothing to do, which needs no lock.
        let due = "SELECT 1 FROM event_projection WHERE status = 'failed' AND next_attempt_at <= ? LIMIT 1";
        let now = int(self.0.now().as_millis());
        if self.0.plain().one(due, &[now]).await?.is_none() {
            return Ok(Vec::new());
        }
        let tx = self.0.begin().await?;
        let done = self.retry(&tx).await;
        tx.end(done).await
    }

    async fn retry(&self, tx: &Session<'_>) -> Result<Vec<(Bucket, String)>> {
        // A row has at most one failed event, and the others wait for it.
        let due = "SELECT bucket, target_id FROM event_projection WHERE status = 'failed' AND next_attempt_at <= ? \
                   ORDER BY seq LIMIT ?";
        let mut freed = Vec::new();
        for mut cells in tx.query(due, &[int(self.0.now().as_millis()), int(RETRIED)]).await? {
            let row = (cells.word()?, cells.text()?);
            if self.retry_row(tx, &row).await? {
                freed.push(row);
            }
        }
        Ok(freed)
    }

    /// Applies a row's events that are not part of it yet, up to the first that fails. Returns whether any was applied.
    async fn retry_row(&self, tx: &Session<'_>, (bucket, target): &(Bucket, String)) -> Result<bool> {
        let sql = format!(
            "SELECT {COLUMNS}, p.attempts FROM event_projection p JOIN events_memory e ON e.seq = p.seq \
             WHERE p.status IN ('failed', 'blocked') AND p.bucket = ? AND p.target_id = ? ORDER BY p.seq LIMIT ?"
        );
        let mut is_changed = false;
        loop {
            let events = tx.query(&sql, &[text(bucket.as_str()), text(target), int(RETRIED)]).await?;
            if events.is_empty() {
                return Ok(is_changed);
            }
            for mut cells in events {
                let (event, attempts) = (read_event(&mut cells)?, cells.count()? + 1);
                let prior = read(tx, *bucket, target).await?;
                let (projection, error) = Self::project(tx, prior.as_ref(), &event).await?;
                let tried = u32::try_from(attempts).unwrap_or(u32::MAX);
                let (status, next) = match projection {
                    "failed" if tried >= self.0.options().max_attempts => ("dead", 0),
                    "failed" => ("failed", self.0.next_attempt(tried).as_millis()),
                    done => (done, 0),
                };
                tx.exec(
                    "UPDATE event_projection SET status = ?, attempts = ?, next_attempt_at = ?, error = ? WHERE seq = ?",
                    &[text(status), int(attempts), int(next), maybe(error.map(text)), int(event.seq)],
                )
                .await?;
                if projection == "failed" {
                    return Ok(is_changed);
                }
                is_changed = true;
            }
        }
    }
}

/// Whether an error is about what was written rather than about the store.
fn is_of_the_row(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidArgument | ErrorKind::TooLarge | ErrorKind::QuotaExceeded | ErrorKind::Corrupt
    )
}
