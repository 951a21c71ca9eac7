//! What became of requests and notes.

use memory_core::Timestamp;
use serde::Serialize;

use crate::bucket::Bucket;
use crate::note::Note;

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It is an event of the ledger.
    Committed {
        /// Its position.
        seq: u64,
        /// The bucket.
        bucket: Bucket,
        /// The row.
        target_id: String,
        /// `applied`, `recorded` (a later state is known), `failed` (will be retried) or `blocked` (by one that
        /// failed).
        projection: &'static str,
    },
    /// It waits until what it refers to is certain.
    Deferred {
        /// The deferred write.
        pending_id: String,
        /// Why.
        reason: String,
    },
    /// It is so already.
    NoOp {
        /// Why.
        reason: String,
    },
    /// It makes no sense, and left no event.
    Rejected {
        /// Why.
        reason: String,
    },
}

/// What became of one note.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Promotion {
    /// The note.
    pub note_id: String,
    /// What became of each of its requests.
    pub outcomes: Vec<Outcome>,
    /// Why it means nothing for shared state, or is tried again later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it is tried again later.
    pub is_retried: bool,
    /// What became of deferred writes that its events concern.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replayed: Vec<Outcome>,
}

impl Promotion {
    /// For a note about which nothing has been decided yet.
    pub(super) fn of(note: &Note) -> Self {
        Self {
            note_id: note.id.clone(),
            outcomes: Vec::new(),
            reason: None,
            is_retried: false,
            replayed: Vec::new(),
        }
    }
}

/// The sum of promotions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Notes taken.
    pub notes: u64,
    /// Events committed, including those of deferred writes.
    pub committed: u64,
    /// Requests deferred.
    pub deferred: u64,
    /// Requests that changed nothing.
    pub no_ops: u64,
    /// Notes and requests rejected.
    pub rejected: u64,
    /// Notes that are tried again later.
    pub retried: u64,
}

/// Notes that pipelines hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Held {
    /// How many.
    pub notes: u64,
    /// When the last of their leases ends, and others may take the notes.
    pub until: Timestamp,
}

impl Report {
    /// Adds a promotion.
    pub fn add(&mut self, promotion: &Promotion) {
        self.notes += 1;
        self.retried += u64::from(promotion.is_retried);
        self.rejected += u64::from(promotion.reason.is_some() && !promotion.is_retried);
        for outcome in &promotion.outcomes {
            match outcome {
                Outcome::Committed { .. } => self.committed += 1,
                Outcome::Deferred { .. } => self.deferred += 1,
                Outcome::NoOp { .. } => self.no_ops += 1,
                Outcome::Rejected { .. } => self.rejected += 1,
            }
        }
        // What still waits was counted when it was deferred.
        let committed = promotion.replayed.iter().filter(|one| matches!(one, Outcome::Committed { .. }));
        self.committed += committed.count() as u64;
    }
}

/// The rows that outcomes changed.
pub(super) fn changed(outcomes: &[Outcome]) -> Vec<(Bucket, String)> {
    outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Committed { bucket, target_id, projection: "applied", .. } => {
                Some((*bucket, target_id.clone()))
            }
            _ => None,
        })
        .collect()
}
