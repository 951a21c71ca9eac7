//! What agents read: the current belief, what it was before, and why.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use memory_core::{Result, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::bucket::Bucket;
use crate::ledger::{COLUMNS, Event, fold, read_event};
use crate::pipeline::Pending;
use crate::projection::{Row, all_rows, read};
use crate::seams::Scored;
use crate::store::{Session, Space, text};

/// Longest title of an offered row, in characters.
const MAX_TITLE: usize = 200;

/// A time to look back to, on either axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsOf {
    /// What held at this time, as far as known; `None` for now.
    pub valid: Option<Timestamp>,
    /// What was known at this time; `None` for now.
    pub recorded: Option<Timestamp>,
}

/// An event in the history of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WhyEvent {
    /// The event: who, when, what, and why it was bound to this row.
    pub event: Event,
    /// The note's words; `None` if erased.
    pub words: Option<String>,
    /// `applied`, `recorded`, `failed`, `blocked` or `dead`.
    pub projection: String,
}

/// Why a row is the way it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// The row; `None` if no event has created one yet.
    pub row: Option<Row>,
    /// Its events, oldest first.
    pub events: Vec<WhyEvent>,
    /// The rows that refer to it, directly or through others.
    pub dependents: Vec<(Bucket, String)>,
}

/// A row that a deferred write offers, as it is now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Offered {
    /// Which, and how well it fitted.
    #[serde(flatten)]
    pub scored: Scored,
    /// Its status; `None` if it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Its title, text or statement, cut at 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Reads shared state.
#[derive(Clone, Debug)]
pub struct SharedMemory(Space);

impl SharedMemory {
    /// The shared state of this space.
    #[must_use]
    pub fn new(space: &Space) -> Self {
        Self(space.clone())
    }

    /// The rows of a bucket that have not ended, by id; with `ended`, all rows.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn bucket(&self, bucket: Bucket, ended: bool) -> Result<Vec<Row>> {
        let mut found = all_rows(&self.0.plain(), bucket).await?;
        found.retain(|row| ended || row.is_live());
        Ok(found)
    }

    /// One row.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn row(&self, bucket: Bucket, id: &str) -> Result<Option<Row>> {
        read(&self.0.plain(), bucket, id).await
    }

    /// The rows that each of these deferred writes offers, with what they say now.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn offered(&self, pending: &[Pending]) -> Result<Vec<Vec<Offered>>> {
        let session = self.0.plain();
        let mut known: BTreeMap<(Bucket, &str), Option<Row>> = BTreeMap::new();
        let mut all = Vec::with_capacity(pending.len());
        for one in pending {
            let mut offered = Vec::new();
            for scored in one.offered() {
                let mut row = None;
                if let Some(request) = &one.request {
                    let (bucket, id) = (request.bucket, scored.id.as_str());
                    row = match known.entry((bucket, id)) {
                        Entry::Occupied(known) => known.into_mut().as_ref(),
                        Entry::Vacant(unread) => unread.insert(read(&session, bucket, id).await?).as_ref(),
                    };
                }
                offered.push(Offered {
                    scored: scored.clone(),
                    status: row.map(|row| row.status.clone()),
                    title: row.and_then(Row::title).map(|title| title.chars().take(MAX_TITLE).collect()),
                });
            }
            all.push(offered);
        }
        Ok(all)
    }

    /// The rows of a bucket that held at a time, as they were known at a time, by id. It folds the ledger, so it costs what
    /// a rebuild costs.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn as_of(&self, bucket: Bucket, at: AsOf) -> Result<Vec<Row>> {
        let take = |event: &Event| {
            at.recorded.is_none_or(|known| event.recorded_at <= known)
                && at.valid.is_none_or(|valid| event.observed_at <= valid)
        };
        let (folded, _) = fold(&self.0.plain(), take).await?;
        Ok(folded.into_values().filter(|row| row.bucket == bucket && row.is_live()).collect())
    }

    /// The history of a row: its events with their notes, scores and writers, and what depends on it.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn why(&self, bucket: Bucket, id: &str) -> Result<Why> {
        let session = self.0.plain();
        let sql = format!(
            "SELECT {COLUMNS}, r.raw_input, p.status FROM events_memory e LEFT JOIN events_raw r ON r.event_id = e.event_id \
             JOIN event_projection p ON p.seq = e.seq WHERE e.bucket = ? AND e.target_id = ? ORDER BY e.seq"
        );
        let mut events = Vec::new();
        for mut cells in session.query(&sql, &[text(bucket.as_str()), text(id)]).await? {
            let event = read_event(&mut cells)?;
            events.push(WhyEvent { event, words: cells.maybe_text()?, projection: cells.text()? });
        }
        Ok(Why { row: read(&session, bucket, id).await?, events, dependents: self.dependents(id).await? })
    }

    /// The rows that refer to a row by its id, directly or through others: what a wrong row may have misled.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn dependents(&self, id: &str) -> Result<Vec<(Bucket, String)>> {
        let all = every_row(&self.0.plain()).await?;
        let (mut found, mut ask) = (BTreeSet::new(), VecDeque::from([id.to_owned()]));
        while let Some(asked) = ask.pop_front() {
            for row in all.iter().filter(|row| row.id != asked && refers(row, &asked)) {
                if row.id != id && found.insert((row.bucket, row.id.clone())) {
                    ask.push_back(row.id.clone());
                }
            }
        }
        Ok(found.into_iter().collect())
    }
}

/// The rows of every bucket.
pub(crate) async fn every_row(session: &Session<'_>) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for bucket in Bucket::ALL {
        all.extend(all_rows(session, bucket).await?);
    }
    Ok(all)
}

/// Whether a member of a row, or an element within one, is this id.
fn refers(row: &Row, id: &str) -> bool {
    row.superseded_by.as_deref() == Some(id) || row.fields.values().any(|value| names(value, id))
}

/// Whether a value is this id or contains it.
pub(crate) fn names(value: &Value, id: &str) -> bool {
    match value {
        Value::String(text) => text == id,
        Value::Array(items) => items.iter().any(|item| names(item, id)),
        Value::Object(members) => members.values().any(|item| names(item, id)),
        _ => false,
    }
}
