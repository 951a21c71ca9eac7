//! Entries, their metadata, lifetimes and preconditions.

mod conditions;
mod metadata;

pub(crate) use conditions::hex_bytes;
pub use conditions::{Expect, Quota, Ttl, value_sha256};
pub(crate) use metadata::check_metadata_name;
pub use metadata::{Metadata, Scalar};

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits::{MAX_SOURCE_BYTES, MAX_TEXT_BYTES};
use crate::scope::Key;
use crate::time::Timestamp;

/// A short label of where an entry came from (`chat`, `tool:web`, `import:locomo`).
///
/// 1 to 128 bytes, no control characters, no leading or trailing white space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Source(Box<str>);

impl Source {
    /// Validates `label`.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` if it breaks the rules of the type.
    pub fn new(label: impl Into<String>) -> Result<Self> {
        let label = label.into();
        if label.is_empty() || label.trim() != label || label.chars().any(char::is_control) {
            return Err(Error::invalid(
                "a source label is empty, has control characters, or has white space at an end",
            ));
        }
        if label.len() > MAX_SOURCE_BYTES {
            return Err(Error::too_large("source label", label.len(), MAX_SOURCE_BYTES, "bytes"));
        }
        Ok(Self(label.into_boxed_str()))
    }

    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Source {
    type Error = Error;
    fn try_from(label: String) -> Result<Self> {
        Self::new(label)
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.0.into_string()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A stored entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Entry {
    /// The name within the scope.
    pub key: Key,
    /// The value, as JSON text, exactly as it was set.
    pub value: Json,
    /// Scalars for filters.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// Where the entry came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The text to index, if the writer gave one; otherwise search derives it from the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Grows with every write of the key and is never reused for it, across delete and expiry. At least 1. Versions of
    /// different keys are not comparable.
    pub version: u64,
    /// When the entry was created (again, after delete or expiry).
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// The first millisecond at which it is invisible; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How often `get` and search hits returned it. Written in batches, so a crash loses the last few.
    #[serde(default)]
    pub access_count: u64,
}

impl Entry {
    /// An entry with no metadata, source, text, expiry or accesses.
    #[must_use]
    pub fn new(key: Key, value: Json, version: u64, now: Timestamp) -> Self {
        Self {
            key,
            value,
            metadata: Metadata::new(),
            source: None,
            text: None,
            version,
            created_at: now,
            updated_at: now,
            expires_at: None,
            access_count: 0,
        }
    }

    /// Whether the entry is invisible at `now`: `expires_at <= now`.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// What the entry counts against a quota: [`size_bytes`] of its parts.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        size_bytes(&self.key, &self.value, &self.metadata, self.source.as_ref(), self.text.as_deref())
    }

    /// Whether importing it over the other would change nothing. Ignores the version, which importing changes, and the
    /// access count, which reading changes.
    #[must_use]
    pub fn is_copy_of(&self, other: &Self) -> bool {
        self.value == other.value
            && self.metadata == other.metadata
            && self.source == other.source
            && self.text == other.text
            && self.created_at == other.created_at
            && self.updated_at == other.updated_at
            && self.expires_at == other.expires_at
    }

    /// The text that full-text search indexes: the explicit text, or [`Json::search_text`].
    #[must_use]
    pub fn search_text(&self) -> Cow<'_, str> {
        match &self.text {
            Some(text) => text.as_str().into(),
            None => self.value.search_text(MAX_TEXT_BYTES).into(),
        }
    }
}

/// What an entry counts against a quota: the bytes of key, value text, metadata (names, strings, 8 per number, 1 per
/// boolean), source and explicit text. Index and engine overhead is not counted.
#[must_use]
pub fn size_bytes(
    key: &Key,
    value: &Json,
    metadata: &Metadata,
    source: Option<&Source>,
    text: Option<&str>,
) -> u64 {
    let bytes = key.as_str().len()
        + value.as_str().len()
        + metadata.size_bytes()
        + source.map_or(0, |source| source.as_str().len())
        + text.map_or(0, str::len);
    bytes as u64
}
