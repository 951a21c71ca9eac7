//! What an interpreter may see of shared state.

use memory_core::Timestamp;
use serde::Serialize;

use crate::bucket::Bucket;
use crate::resolve::{Row, Space};

/// Rows of each bucket that are shown, the latest first.
const MOST_ROWS: usize = 100;
/// Characters of a row that are shown.
const MOST_CHARACTERS: usize = 200;

/// Open issues, active constraints and active decisions: nothing else of shared state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Context {
    /// Open issues.
    pub issues: Vec<ContextRow>,
    /// Active constraints.
    pub constraints: Vec<ContextRow>,
    /// Active decisions.
    pub decisions: Vec<ContextRow>,
}

/// A row as an interpreter sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContextRow {
    /// Its id.
    pub id: String,
    /// What it says in short, cut after 200 characters.
    pub title: String,
}

impl Context {
    /// What could be meant at `observed_at`: the 100 latest live rows of each of the three buckets, latest first.
    #[must_use]
    pub fn of(space: &Space, observed_at: Timestamp) -> Self {
        let rows = |bucket| {
            let mut rows: Vec<&Row> =
                space.rows(bucket).filter(|row| row.live && row.opened_at <= observed_at).collect();
            rows.sort_by(|a, b| b.opened_at.cmp(&a.opened_at).then_with(|| a.id.cmp(&b.id)));
            rows.truncate(MOST_ROWS);
            rows.into_iter()
                .map(|row| ContextRow {
                    id: row.id.clone(),
                    title: row.title.chars().take(MOST_CHARACTERS).collect(),
                })
                .collect()
        };
        Self {
            issues: rows(Bucket::Issues),
            constraints: rows(Bucket::Constraints),
            decisions: rows(Bucket::Decisions),
        }
    }

    /// The rows of a bucket.
    #[must_use]
    pub fn rows(&self, bucket: Bucket) -> &[ContextRow] {
        match bucket {
            Bucket::Issues => &self.issues,
            Bucket::Constraints => &self.constraints,
            Bucket::Decisions => &self.decisions,
            _ => &[],
        }
    }
}
