//! Entries on their way between stores.

use serde::{Deserialize, Serialize};

use crate::embed::EmbeddingModel;
use crate::entry::{Entry, Quota};

/// A stored vector on its way between stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordVector {
    /// Whose vector.
    pub model: EmbeddingModel,
    /// The numbers.
    pub vector: Vec<f32>,
    /// The text that was embedded, where it is not the entry's search text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One entry on its way between stores. As JSON this is one line of the export format
/// (`docs/spec/export.md`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The entry, expiry and version included.
    pub entry: Entry,
    /// Its vectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vectors: Vec<RecordVector>,
}

impl From<Entry> for Record {
    fn from(entry: Entry) -> Self {
        Self { entry, vectors: Vec::new() }
    }
}

/// What an import does with a key that is live in the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnExisting {
    /// Keep the stored entry.
    #[default]
    Skip,
    /// Store the record's, unless the two are the same already.
    Replace,
    /// Stop with `conflict`; records before it are stored.
    Fail,
}

/// Options of [`Backend::import_scope`](super::Backend::import_scope).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportOptions {
    /// What happens to keys that are there.
    pub on_existing: OnExisting,
    /// Limits of the scope.
    pub quota: Quota,
}

impl ImportOptions {
    /// Sets what happens to keys that are there.
    #[must_use]
    pub const fn with_on_existing(mut self, on_existing: OnExisting) -> Self {
        self.on_existing = on_existing;
        self
    }

    /// Sets the quota.
    #[must_use]
    pub const fn with_quota(mut self, quota: Quota) -> Self {
        self.quota = quota;
        self
    }
}

/// What [`Backend::import_scope`](super::Backend::import_scope) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ImportOutcome {
    /// Records stored under a new key.
    pub created: u64,
    /// Records that replaced a stored entry.
    pub replaced: u64,
    /// Records left out because the key was live (with [`OnExisting::Skip`]) or the same already.
    pub skipped: u64,
    /// Records that had expired.
    pub expired: u64,
}
