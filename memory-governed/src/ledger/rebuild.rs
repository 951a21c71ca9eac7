//! Rebuilds the shared tables from the events. Neither a model nor a resolver is asked: each event says which row it
//! changes.

use std::collections::BTreeMap;

use memory_core::{Error, ErrorKind, Result};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::verify::verify;
use super::{COLUMNS, Event, Ledger, read_event};
use crate::bucket::Bucket;
use crate::columns::table;
use crate::encoding::canonical;
use crate::projection::{Row, SharedMemoryWriter, Step, all_rows, names_of, step};
use crate::store::{Session, int, text};

/// Events read at once.
const PAGE: u64 = 1_000;
/// How many rows one statement writes: each takes at most 17 values, and SQLite binds 32,766.
const BATCH: usize = 200;

/// Rows by bucket and id.
pub(crate) type Rows = BTreeMap<(Bucket, String), Row>;

/// What [`Ledger::rebuild`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Events folded.
    pub events: u64,
    /// The number of resulting rows.
    pub rows: u64,
    /// Digest of the tables as they were, including the names of rows.
    pub before: String,
    /// Digest of the tables as the events give them.
    pub after: String,
    /// Events that could not be projected before, and now are.
    pub repaired: u64,
}

impl Rebuilt {
    /// Whether the tables already were what the events give.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.before == self.after
    }
}

impl Ledger {
    /// Folds every event into shadow tables, compares them with the live ones, and puts them in their place. One
    /// transaction: readers see the tables before or after it.
    ///
    /// # Errors
    /// `corrupt` if the ledger does not [verify](Self::verify); the store's errors. Nothing is changed then.
    pub async fn rebuild(&self) -> Result<Rebuilt> {
        let tx = self.0.begin().await?;
        let done = rebuild(&tx).await;
        tx.end(done).await
    }

    /// The digest of the live tables.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn digest(&self) -> Result<String> {
        live_digest(&self.0.plain()).await
    }
}

async fn rebuild(tx: &Session<'_>) -> Result<Rebuilt> {
    verify(tx, None).await.map_err(|error| match error.kind() {
        ErrorKind::Corrupt => unfounded(&error),
        _ => error,
    })?;
    let (folded, events) = fold(tx, |_| true).await?;
    let before = live_digest(tx).await?;
    for bucket in Bucket::ALL {
        tx.exec(&format!("DELETE FROM shadow_{}", table(bucket)), &[]).await?;
        let of_bucket: Vec<&Row> = folded.values().filter(|row| row.bucket == bucket).collect();
        for batch in of_bucket.chunks(BATCH) {
            SharedMemoryWriter::write_shadow(tx, batch).await?;
        }
        tx.exec(&format!("DELETE FROM {}", table(bucket)), &[]).await?;
        tx.exec(&format!("INSERT INTO {0} SELECT * FROM shadow_{0}", table(bucket)), &[]).await?;
        tx.exec(&format!("DELETE FROM shadow_{}", table(bucket)), &[]).await?;
    }
    SharedMemoryWriter::repair_names(tx, folded.values()).await?;
    let repaired = tx
        .exec(
            "UPDATE event_projection SET status = 'applied', error = NULL WHERE status IN ('failed', 'blocked', 'dead')",
            &[],
        )
        .await?;
    let after = live_digest(tx).await?;
    Ok(Rebuilt { events, rows: folded.len() as u64, before, after, repaired })
}

/// Why nothing is rebuilt from a ledger that fails verification.
fn unfounded(broken: &Error) -> Error {
    let seq = broken.details().get("seq").cloned().unwrap_or_default();
    Error::corrupt(format!(
        "event {seq} does not hold ({}), so nothing was rebuilt; restore a snapshot that verifies",
        broken.message()
    ))
    .with_detail("seq", seq)
}

/// The rows that events give, in the order of the ledger; and how many events there were.
pub(crate) async fn fold(session: &Session<'_>, take: impl Fn(&Event) -> bool) -> Result<(Rows, u64)> {
    let (mut folded, mut last, mut events) = (Rows::new(), 0, 0);
    loop {
        let sql = format!("SELECT {COLUMNS} FROM events_memory e WHERE e.seq > ? ORDER BY e.seq LIMIT ?");
        let page = session.query(&sql, &[int(last), int(PAGE)]).await?;
        if page.is_empty() {
            return Ok((folded, events));
        }
        for mut cells in page {
            let event = read_event(&mut cells)?;
            last = event.seq;
            if !take(&event) {
                continue;
            }
            events += 1;
            let key = (event.bucket, event.target_id.clone());
            if let Step::Write(row) = step(folded.get(&key), &event) {
                folded.insert(key, *row);
            }
        }
    }
}

/// The row that its events result in, if any.
pub(crate) async fn fold_row(session: &Session<'_>, bucket: Bucket, id: &str) -> Result<Option<Row>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events_memory e WHERE e.bucket = ? AND e.target_id = ? ORDER BY e.seq"
    );
    let mut row: Option<Row> = None;
    for mut cells in session.query(&sql, &[text(bucket.as_str()), text(id)]).await? {
        if let Step::Write(next) = step(row.as_ref(), &read_event(&mut cells)?) {
            row = Some(*next);
        }
    }
    Ok(row)
}

async fn live_digest(session: &Session<'_>) -> Result<String> {
    let mut hash = Sha256::new();
    for bucket in Bucket::ALL {
        for row in all_rows(session, bucket).await? {
            hash.update(canonical(&row)?.as_bytes());
            hash.update(b"\n");
        }
    }
    for name in names_of(session).await? {
        hash.update(canonical(&name)?.as_bytes());
        hash.update(b"\n");
    }
    Ok(hash.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}
