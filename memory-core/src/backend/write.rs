//! Options and results of writes.

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Expect, Metadata, Quota, Source, Ttl};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::lifecycle::drift::{DriftChange, DriftCheck};
use crate::scope::Key;
use crate::time::Timestamp;

/// Whether a write embeds the entry's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Embed {
    /// If the provider has an embedder.
    #[default]
    Auto,
    /// Yes; if the provider cannot, the call is refused before anything is written.
    Always,
    /// No; a stored vector of the key is removed, as it no longer matches.
    Never,
}

/// The result of embedding. The write itself is durable in every case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Embedding {
    /// A vector of the new text is stored.
    Stored,
    /// Not requested, or no embedder is configured.
    #[default]
    Skipped,
    /// The embedder failed, for this reason; `reembed` tries again.
    Failed(String),
}

/// Options of [`Backend::set`](super::Backend::set).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SetOptions {
    /// Replaces the stored metadata.
    pub metadata: Metadata,
    /// Replaces the stored source.
    pub source: Option<Source>,
    /// The text to index and embed instead of the one derived from the value.
    pub text: Option<String>,
    /// Lifetime.
    pub ttl: Ttl,
    /// Precondition.
    pub expect: Expect,
    /// Whether to embed.
    pub embed: Embed,
    /// Limits of the scope, checked in the write's own transaction.
    pub quota: Quota,
    /// What the caller last saw, compared in the write's own transaction. Only with `expect` `Any`.
    pub drift: DriftCheck,
}

impl SetOptions {
    /// For a write that changes only the live entry's value, as `increment` and `update` do.
    #[must_use]
    pub fn keeping(live: Option<Entry>, options: UpdateOptions) -> Self {
        let mut kept = Self::default().with_ttl(options.ttl).with_quota(options.quota);
        if let Some(live) = live {
            (kept.metadata, kept.source, kept.text) = (live.metadata, live.source, live.text);
        }
        kept
    }

    /// What `set` stores over the live entry, and its outcome. `None`: nothing is stored, because the precondition does
    /// not hold but the result is already there (VER-7). `version` is one that the key never had. The backend handles
    /// quota, drift and embedding.
    ///
    /// # Errors
    /// `conflict` if the precondition does not hold; `invalid_argument` for a lifetime out of range.
    pub fn apply(
        self,
        live: Option<&Entry>,
        key: &Key,
        value: Json,
        version: u64,
        now: Timestamp,
    ) -> Result<(SetOutcome, Option<Entry>)> {
        if !self.expect.holds(live.map(|live| (live.version, &live.value))) {
            let stored = live.filter(|live| self.is_stored(live, &value));
            let stored = stored.ok_or_else(|| Error::conflict(live.map(|live| live.version)))?;
            return Ok((SetOutcome::new(stored.version, false, false, stored.expires_at), None));
        }
        let mut entry = Entry::new(key.clone(), value, version, now);
        entry.expires_at = self.ttl.expiry(now, live.and_then(|live| live.expires_at))?;
        if let Some(live) = live {
            (entry.created_at, entry.access_count) = (live.created_at, live.access_count);
        }
        (entry.metadata, entry.source, entry.text) = (self.metadata, self.source, self.text);
        Ok((SetOutcome::new(version, live.is_none(), true, entry.expires_at), Some(entry)))
    }

    fn is_stored(&self, live: &Entry, value: &Json) -> bool {
        let same_lifetime = match self.ttl {
            Ttl::Keep => true,
            Ttl::Never => live.expires_at.is_none(),
            Ttl::After(after) => {
                live.expires_at.is_some() && live.expires_at == live.updated_at.checked_add(after)
            }
        };
        same_lifetime
            && live.value == *value
            && live.metadata == self.metadata
            && live.source == self.source
            && live.text == self.text
    }

    /// Sets the text to index.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    crate::setters! {
        with_metadata(metadata: Metadata);
        with_source(source: Source => Some(source));
        with_ttl(ttl: Ttl);
        with_expect(expect: Expect);
        with_embed(embed: Embed);
        with_quota(quota: Quota);
        /// What the caller last saw.
        with_drift(drift: DriftCheck);
    }
}

/// The result of [`Backend::set`](super::Backend::set).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SetOutcome {
    /// The version stored now.
    pub version: u64,
    /// Whether no live entry existed before.
    pub created: bool,
    /// False if the precondition failed but the wanted result was already stored, so that nothing was written.
    pub written: bool,
    /// The expiry stored now.
    pub expires_at: Option<Timestamp>,
    /// The result of embedding.
    pub embedding: Embedding,
    /// The scope's token before and after, if the options asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftChange>,
}

impl SetOutcome {
    /// A write of `version` without embedding.
    #[must_use]
    pub fn new(version: u64, created: bool, written: bool, expires_at: Option<Timestamp>) -> Self {
        Self { version, created, written, expires_at, embedding: Embedding::Skipped, drift: None }
    }
}

/// Options of [`Backend::delete`](super::Backend::delete).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DeleteOptions {
    /// Precondition.
    pub expect: Expect,
    /// As for [`SetOptions`].
    pub drift: DriftCheck,
}

impl DeleteOptions {
    /// A delete with a precondition.
    #[must_use]
    pub const fn expecting(expect: Expect) -> Self {
        Self { expect, drift: DriftCheck::Off }
    }

    crate::setters! {
        /// What the caller last saw.
        with_drift(drift: DriftCheck);
    }
}

/// The result of [`Backend::delete`](super::Backend::delete).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DeleteOutcome {
    /// Whether a live entry existed and was deleted.
    pub deleted: bool,
    /// The scope's token before and after, if the options asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftChange>,
}

impl DeleteOutcome {
    /// An outcome.
    #[must_use]
    pub const fn new(deleted: bool) -> Self {
        Self { deleted, drift: None }
    }
}

/// Options of [`Backend::increment`](super::Backend::increment) and [`Backend::update`](super::Backend::update).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct UpdateOptions {
    /// Lifetime.
    pub ttl: Ttl,
    /// Limits of the scope, checked in the write's own transaction.
    pub quota: Quota,
    /// Whether the outcome reports the scope's tokens. Nothing is compared, since these writes overwrite nothing
    /// unread.
    pub drift: DriftCheck,
}

impl UpdateOptions {
    crate::setters! {
        with_ttl(ttl: Ttl);
        with_quota(quota: Quota);
        /// The outcome then reports the scope's tokens.
        with_drift(drift: DriftCheck);
    }
}

/// The result of [`Backend::increment`](super::Backend::increment).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct IncrementOutcome {
    /// The value stored now.
    pub value: i64,
    /// Its version.
    pub version: u64,
    /// The expiry stored now.
    pub expires_at: Option<Timestamp>,
    /// The scope's token before and after, if the options asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftChange>,
}

impl IncrementOutcome {
    /// An outcome.
    #[must_use]
    pub const fn new(value: i64, version: u64, expires_at: Option<Timestamp>) -> Self {
        Self { value, version, expires_at, drift: None }
    }
}

/// The result of [`Backend::update`](super::Backend::update).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct UpdateOutcome {
    /// The value stored now.
    pub value: Json,
    /// Its version.
    pub version: u64,
    /// For append-dedupe: whether the item was appended.
    pub appended: Option<bool>,
    /// For bounded lists: how many items were dropped from the head.
    pub dropped: usize,
    /// The expiry stored now.
    pub expires_at: Option<Timestamp>,
    /// The result of embedding.
    pub embedding: Embedding,
    /// The scope's token before and after, if the options asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftChange>,
}

impl UpdateOutcome {
    /// An outcome without appending, dropping or embedding.
    #[must_use]
    pub fn new(value: Json, version: u64, expires_at: Option<Timestamp>) -> Self {
        Self {
            value,
            version,
            appended: None,
            dropped: 0,
            expires_at,
            embedding: Embedding::Skipped,
            drift: None,
        }
    }
}

/// One item of [`Backend::bulk_insert`](super::Backend::bulk_insert). Its `options.quota` is ignored; the call's
/// applies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewEntry {
    /// Key.
    pub key: Key,
    /// Value.
    pub value: Json,
    /// As for [`Backend::set`](super::Backend::set).
    #[serde(default)]
    pub options: SetOptions,
}

impl NewEntry {
    /// An item with default options.
    #[must_use]
    pub fn new(key: Key, value: Json) -> Self {
        Self { key, value, options: SetOptions::default() }
    }
}

/// Options of [`Backend::bulk_insert`](super::Backend::bulk_insert).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BulkOptions {
    /// Limits of the scope, checked in the write's own transaction.
    pub quota: Quota,
    /// The scope's token, compared once before the items; each item's own options say what was seen of its entry.
    pub drift: DriftCheck,
}

impl BulkOptions {
    crate::setters! {
        /// The scope's token as last seen.
        with_drift(drift: DriftCheck);
        with_quota(quota: Quota);
    }
}

/// Options of [`Backend::reembed`](super::Backend::reembed).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ReembedOptions {
    /// Most entries to embed in this call, not counting those whose text is refused: 1 to 10,000. Default 1,000.
    pub limit: usize,
    /// Count only; write nothing.
    pub dry_run: bool,
    /// Leave out entries whose key begins with this; empty: none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub except: String,
}

impl Default for ReembedOptions {
    fn default() -> Self {
        Self { limit: 1_000, dry_run: false, except: String::new() }
    }
}

/// The result of [`Backend::reembed`](super::Backend::reembed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReembedOutcome {
    /// Entries embedded with the current model in this call (or to embed, for a dry run).
    pub embedded: u64,
    /// Entries still without a vector of the current model.
    pub remaining: u64,
    /// Entries whose text the embedder refused.
    pub failed: u64,
}

/// The result of [`Backend::drop_scope`](super::Backend::drop_scope).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DropOutcome {
    /// Live entries that were removed.
    pub entries: u64,
}

impl DropOutcome {
    /// An outcome.
    #[must_use]
    pub const fn new(entries: u64) -> Self {
        Self { entries }
    }
}
