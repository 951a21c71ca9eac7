//! What an interpreter may see of shared state.

use memory_core::Timestamp;
use serde::Serialize;

use crate::bucket::Bucket;

/// Rows of each bucket that are shown, the latest first.
pub(crate) const MOST_ROWS: u32 = 100;
/// Characters of a row that are shown.
const MOST_CHARACTERS: usize = 200;

/// Open issues, active constraints and active decisions: the latest ones and those that the note names. Nothing else of
/// shared state.
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
    /// Its content in short, cut after 200 characters.
    pub title: String,
}

impl Context {
    /// Shows one more row, however many are newer.
    pub(crate) fn add(&mut self, bucket: Bucket, id: &str, title: &str) {
        let rows = match bucket {
            Bucket::Issues => &mut self.issues,
            Bucket::Constraints => &mut self.constraints,
            Bucket::Decisions => &mut self.decisions,
            _ => return,
        };
        if rows.iter().all(|row| row.id != id) {
            rows.push(ContextRow::of(id, title));
        }
    }

    /// What could be meant at `observed_at`, given live rows (bucket, id, text, time of opening): the 100 latest of
    /// each of the three buckets, latest first.
    #[must_use]
    pub fn of<'a>(
        live: impl IntoIterator<Item = (Bucket, &'a str, &'a str, Timestamp)>,
        observed_at: Timestamp,
    ) -> Self {
        let mut live: Vec<_> =
            live.into_iter().filter(|(_, _, _, opened_at)| *opened_at <= observed_at).collect();
        live.sort_by(|a, b| b.3.cmp(&a.3).then_with(|| a.1.cmp(b.1)));
        let rows = |bucket| {
            let of_bucket = live.iter().filter(|(of, ..)| *of == bucket).take(MOST_ROWS as usize);
            of_bucket.map(|(_, id, title, _)| ContextRow::of(id, title)).collect()
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

impl ContextRow {
    fn of(id: &str, title: &str) -> Self {
        Self { id: id.to_owned(), title: title.chars().take(MOST_CHARACTERS).collect() }
    }
}
