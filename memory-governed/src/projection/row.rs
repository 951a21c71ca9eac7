//! A shared row, and digests over rows.

use std::collections::BTreeMap;

use memory_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bucket::Bucket;
use crate::columns::{LIVE, main_text};
use crate::note::Trust;
use crate::seams::Alias;

/// A row of shared state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// Its bucket.
    pub bucket: Bucket,
    /// Its id, unique in the bucket.
    pub id: String,
    /// Open, resolved, active, invalidated, superseded, current, or a task's own status.
    pub status: String,
    /// Its content, by member.
    pub fields: BTreeMap<String, Value>,
    /// Counts its changes from 1; a plan's version.
    pub rev: u64,
    /// The agent who created it.
    pub created_by: String,
    /// The trust of its creator.
    pub trust: Trust,
    /// The event that created it.
    pub first_event: u64,
    /// The event that changed it last.
    pub last_event: u64,
    /// When what it says was last observed.
    pub observed_at: Timestamp,
    /// Since when it holds.
    pub valid_from: Timestamp,
    /// Until when it held; `None` if it still does.
    pub valid_to: Option<Timestamp>,
    /// What took its place.
    pub superseded_by: Option<String>,
    /// Its other names.
    pub aliases: Vec<Alias>,
}

/// Whether a row of this status has not ended.
pub(crate) fn is_live(bucket: Bucket, status: &str) -> bool {
    bucket == Bucket::TaskState || LIVE.contains(&status)
}

impl Row {
    /// Whether it has not ended. A task never ends.
    #[must_use]
    pub fn is_live(&self) -> bool {
        is_live(self.bucket, &self.status)
    }

    /// What it says in short: an issue's title, a constraint's text, a decision's statement.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        main_text(self.bucket).and_then(|member| self.text(member))
    }

    /// A member that is text.
    #[must_use]
    pub fn text(&self, member: &str) -> Option<&str> {
        self.fields.get(member).and_then(Value::as_str)
    }
}
