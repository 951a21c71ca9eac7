//! Facet 1: faithful key/value with vectors and full text.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::embed::EmbeddingModel;
use crate::entry::{Entry, Expect, Metadata, Quota, Source, Ttl};
use crate::error::Result;
use crate::filter::Filter;
use crate::json::Json;
use crate::limits::{DEFAULT_PAGE, DEFAULT_TOP_K};
use crate::rank::{Dedup, RankOptions};
use crate::reduce::Reducer;
use crate::scope::{Key, Scope, ScopeKind, TenantId};
use crate::time::Timestamp;

/// A stream of export records. An `Err` item ends it.
pub type RecordStream = Pin<Box<dyn Stream<Item = Result<Record>> + Send>>;

/// Options of [`Backend::get`] and [`Backend::get_many`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetOptions {
    /// Whether the read counts as an access. Default: true.
    pub count_access: bool,
}

impl Default for GetOptions {
    fn default() -> Self {
        Self { count_access: true }
    }
}

impl GetOptions {
    /// A read that leaves no trace in `access_count`.
    #[must_use]
    pub const fn uncounted() -> Self {
        Self { count_access: false }
    }
}

/// Whether a write embeds the entry's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Embed {
    /// If the provider has an embedder.
    #[default]
    Auto,
    /// Yes; refused before anything is written where the provider cannot.
    Always,
    /// No; a stored vector of the key is removed, as it no longer matches.
    Never,
}

/// What became of the embedding of a write. The write itself is durable in every case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Embedding {
    /// A vector of the new text is stored.
    Stored,
    /// None was wanted, or nothing serves one.
    #[default]
    Skipped,
    /// The embedder failed, for this reason; `reembed` will try again.
    Failed(String),
}

/// Options of [`Backend::set`].
#[derive(Clone, Debug, Default, PartialEq)]
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
}

impl SetOptions {
    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the source.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }

    /// Sets the text to index.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Sets the lifetime.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the precondition.
    #[must_use]
    pub fn with_expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Sets whether to embed.
    #[must_use]
    pub fn with_embed(mut self, embed: Embed) -> Self {
        self.embed = embed;
        self
    }

    /// Sets the quota.
    #[must_use]
    pub fn with_quota(mut self, quota: Quota) -> Self {
        self.quota = quota;
        self
    }
}

/// What [`Backend::set`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SetOutcome {
    /// The version stored now.
    pub version: u64,
    /// True where no live entry was there before.
    pub created: bool,
    /// False where the precondition failed but the wanted result was already stored, so that
    /// nothing was written.
    pub written: bool,
    /// The expiry stored now.
    pub expires_at: Option<Timestamp>,
    /// What became of the embedding.
    pub embedding: Embedding,
}

impl SetOutcome {
    /// A write of `version` without embedding.
    #[must_use]
    pub fn new(version: u64, created: bool, written: bool, expires_at: Option<Timestamp>) -> Self {
        Self { version, created, written, expires_at, embedding: Embedding::Skipped }
    }
}

/// Options of [`Backend::delete`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteOptions {
    /// Precondition.
    pub expect: Expect,
}

impl DeleteOptions {
    /// A delete with a precondition.
    #[must_use]
    pub const fn expecting(expect: Expect) -> Self {
        Self { expect }
    }
}

/// What [`Backend::delete`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeleteOutcome {
    /// Whether a live entry was there and is gone.
    pub deleted: bool,
}

impl DeleteOutcome {
    /// An outcome.
    #[must_use]
    pub const fn new(deleted: bool) -> Self {
        Self { deleted }
    }
}

/// A question to [`Backend::list`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ListQuery {
    /// Keys that begin with exactly these bytes; empty: all.
    pub prefix: String,
    /// Entries that match.
    pub filter: Option<Filter>,
    /// Where the page begins.
    pub cursor: Option<Cursor>,
    /// Most entries of the page: 1 to 1,000. Default 100.
    pub limit: usize,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { prefix: String::new(), filter: None, cursor: None, limit: DEFAULT_PAGE }
    }
}

impl ListQuery {
    /// Entries whose key begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Sets the filter.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Sets the cursor.
    #[must_use]
    pub fn with_cursor(mut self, cursor: Option<Cursor>) -> Self {
        self.cursor = cursor;
        self
    }

    /// Sets the page size.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// Entries in byte order of their keys.
    pub entries: Vec<Entry>,
    /// Where the next page begins; `None`: this was the last.
    pub next: Option<Cursor>,
}

impl Page {
    /// A page.
    #[must_use]
    pub fn new(entries: Vec<Entry>, next: Option<Cursor>) -> Self {
        Self { entries, next }
    }
}

/// Options of [`Backend::increment`] and [`Backend::update`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateOptions {
    /// Lifetime.
    pub ttl: Ttl,
    /// Limits of the scope, checked in the write's own transaction.
    pub quota: Quota,
}

impl UpdateOptions {
    /// Sets the lifetime.
    #[must_use]
    pub const fn with_ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the quota.
    #[must_use]
    pub const fn with_quota(mut self, quota: Quota) -> Self {
        self.quota = quota;
        self
    }
}

/// What [`Backend::increment`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IncrementOutcome {
    /// The value stored now.
    pub value: i64,
    /// Its version.
    pub version: u64,
    /// The expiry stored now.
    pub expires_at: Option<Timestamp>,
}

impl IncrementOutcome {
    /// An outcome.
    #[must_use]
    pub const fn new(value: i64, version: u64, expires_at: Option<Timestamp>) -> Self {
        Self { value, version, expires_at }
    }
}

/// What [`Backend::update`] did.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// What became of the embedding.
    pub embedding: Embedding,
}

impl UpdateOutcome {
    /// An outcome without appending, dropping or embedding.
    #[must_use]
    pub fn new(value: Json, version: u64, expires_at: Option<Timestamp>) -> Self {
        Self { value, version, appended: None, dropped: 0, expires_at, embedding: Embedding::Skipped }
    }
}

/// One item of [`Backend::bulk_insert`]; its `options.quota` is ignored in favour of the call's.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// Key.
    pub key: Key,
    /// Value.
    pub value: Json,
    /// As for [`Backend::set`].
    pub options: SetOptions,
}

impl NewEntry {
    /// An item with default options.
    #[must_use]
    pub fn new(key: Key, value: Json) -> Self {
        Self { key, value, options: SetOptions::default() }
    }
}

/// Options of [`Backend::bulk_insert`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkOptions {
    /// Limits of the scope, checked in the write's own transaction.
    pub quota: Quota,
}

impl BulkOptions {
    /// Sets the quota.
    #[must_use]
    pub const fn with_quota(mut self, quota: Quota) -> Self {
        self.quota = quota;
        self
    }
}

/// How [`Backend::search`] looks for candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// Hybrid where the provider embeds, lexical otherwise.
    #[default]
    Auto,
    /// By words.
    Lexical,
    /// By vectors.
    Vector,
    /// By both.
    Hybrid,
}

/// A question to [`Backend::search`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SearchQuery {
    /// What to look for: at most 64 KiB.
    pub text: String,
    /// By words, vectors or both.
    pub mode: SearchMode,
    /// Keys that begin with exactly these bytes; empty: all.
    pub prefix: String,
    /// Entries that match; applied before ranking, so a filtered search never under-returns.
    pub filter: Option<Filter>,
    /// Most hits: 1 to `Capabilities::max_top_k`. Default 10.
    pub top_k: usize,
    /// Hits with a lower `score` are left out: 0 to 1. Default: none left out.
    pub threshold: Option<f64>,
    /// How hits are ordered.
    pub rank: RankOptions,
    /// What happens to near-duplicates.
    pub dedup: Option<Dedup>,
}

impl SearchQuery {
    /// A question with defaults.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            mode: SearchMode::Auto,
            prefix: String::new(),
            filter: None,
            top_k: DEFAULT_TOP_K,
            threshold: None,
            rank: RankOptions::default(),
            dedup: None,
        }
    }

    /// Sets the mode.
    #[must_use]
    pub fn with_mode(mut self, mode: SearchMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the key prefix.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the filter.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Sets the number of hits.
    #[must_use]
    pub fn with_top_k(mut self, top_k: usize) -> Self {
        self.top_k = top_k;
        self
    }

    /// Sets the threshold.
    #[must_use]
    pub fn with_threshold(mut self, threshold: f64) -> Self {
        self.threshold = Some(threshold);
        self
    }

    /// Sets the ranking.
    #[must_use]
    pub fn with_rank(mut self, rank: RankOptions) -> Self {
        self.rank = rank;
        self
    }

    /// Sets the treatment of near-duplicates.
    #[must_use]
    pub fn with_dedup(mut self, dedup: Dedup) -> Self {
        self.dedup = Some(dedup);
        self
    }
}

/// One hit of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Hit {
    /// The entry.
    pub entry: Entry,
    /// Absolute similarity in [0, 1], on which the threshold works: `max(0, cosine)` by vectors;
    /// by words BM25 over the query's ceiling ([`crate::lexical`]); their weighted sum for hybrid.
    pub score: f64,
    /// What orders the hits ([`crate::rank`]); comparable within one answer only.
    pub rank_score: f64,
    /// Keys of near-duplicates folded into this hit by [`DedupPolicy::Merge`](crate::rank::DedupPolicy::Merge).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<Key>,
}

impl Hit {
    /// A hit.
    #[must_use]
    pub fn new(entry: Entry, score: f64, rank_score: f64) -> Self {
        Self { entry, score, rank_score, merged: Vec::new() }
    }
}

/// The answer of [`Backend::search`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SearchResults {
    /// Hits by `rank_score` descending, ties by key.
    pub hits: Vec<Hit>,
    /// How candidates were looked for; never `Auto`.
    pub mode: SearchMode,
    /// Near-duplicates met before the last hit was found, whatever the policy did with them.
    pub duplicates: usize,
}

impl SearchResults {
    /// An answer without duplicates.
    #[must_use]
    pub fn new(hits: Vec<Hit>, mode: SearchMode) -> Self {
        Self { hits, mode, duplicates: 0 }
    }
}

/// Rows of one embedding model in a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModelStats {
    /// Whose vectors.
    pub model: EmbeddingModel,
    /// Vectors of live entries.
    pub rows: u64,
    /// Their bytes as stored.
    pub bytes: u64,
    /// Vectors that no longer match their entry's text. Never searched.
    pub stale: u64,
    /// Live entries without a vector of this model.
    pub missing: u64,
}

impl ModelStats {
    /// Rows of a model, none stale or missing.
    #[must_use]
    pub fn new(model: EmbeddingModel, rows: u64, bytes: u64) -> Self {
        Self { model, rows, bytes, stale: 0, missing: 0 }
    }
}

/// The answer of [`Backend::stats`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopeStats {
    /// Live entries.
    pub entries: u64,
    /// Their bytes, as [`Entry::size_bytes`] counts.
    pub bytes: u64,
    /// Live entries that carry an expiry.
    pub expiring: u64,
    /// Per embedding model, in order of the model.
    pub models: Vec<ModelStats>,
}

/// Options of [`Backend::reembed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReembedOptions {
    /// Most entries to embed in this call: 1 to 10,000. Default 1,000.
    pub limit: usize,
    /// Count only; write nothing.
    pub dry_run: bool,
}

impl Default for ReembedOptions {
    fn default() -> Self {
        Self { limit: 1_000, dry_run: false }
    }
}

/// What [`Backend::reembed`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReembedOutcome {
    /// Entries embedded by the current model in this call (to embed, for a dry run).
    pub embedded: u64,
    /// Entries still without a vector of the current model.
    pub remaining: u64,
    /// Entries whose text the embedder refused.
    pub failed: u64,
}

/// A question to [`Backend::scopes`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScopesQuery {
    /// Scopes of this kind only.
    pub kind: Option<ScopeKind>,
    /// Where the page begins.
    pub cursor: Option<Cursor>,
    /// Most scopes of the page: 1 to 1,000. Default 100.
    pub limit: usize,
}

impl Default for ScopesQuery {
    fn default() -> Self {
        Self { kind: None, cursor: None, limit: DEFAULT_PAGE }
    }
}

impl ScopesQuery {
    /// Sets the kind.
    #[must_use]
    pub fn with_kind(mut self, kind: ScopeKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets the cursor.
    #[must_use]
    pub fn with_cursor(mut self, cursor: Option<Cursor>) -> Self {
        self.cursor = cursor;
        self
    }

    /// Sets the page size.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

/// A scope that holds at least one live entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopeInfo {
    /// The scope.
    pub scope: Scope,
    /// Live entries.
    pub entries: u64,
    /// Their bytes, as [`Entry::size_bytes`] counts.
    pub bytes: u64,
}

impl ScopeInfo {
    /// An info.
    #[must_use]
    pub fn new(scope: Scope, entries: u64, bytes: u64) -> Self {
        Self { scope, entries, bytes }
    }
}

/// One page of scopes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopePage {
    /// Ordered by kind (agent, user, run), then by the bytes of the id.
    pub scopes: Vec<ScopeInfo>,
    /// Where the next page begins; `None`: this was the last.
    pub next: Option<Cursor>,
}

impl ScopePage {
    /// A page.
    #[must_use]
    pub fn new(scopes: Vec<ScopeInfo>, next: Option<Cursor>) -> Self {
        Self { scopes, next }
    }
}

/// What [`Backend::drop_scope`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DropOutcome {
    /// Live entries that are gone.
    pub entries: u64,
}

impl DropOutcome {
    /// An outcome.
    #[must_use]
    pub const fn new(entries: u64) -> Self {
        Self { entries }
    }
}

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

/// Options of [`Backend::import_scope`].
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

/// What [`Backend::import_scope`] did.
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

/// Faithful key/value storage with search, one scope per call.
///
/// Every method takes exactly one [`Scope`] and neither reads, changes nor is influenced by any
/// other. The numbered sentences of `docs/spec/backend.md` say what each does; the lists below give
/// the headings. `Checked` validates arguments before a backend sees them, so an implementation may
/// rely on the documented limits, and on never being called for what its capabilities leave out.
///
/// Futures may be dropped at any point: a write then has happened or has not, as a whole.
#[async_trait]
pub trait Backend: Send + Sync + Debug {
    /// Reads one entry. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - GET-1 to GET-4: missing and expired read alike; what was set comes back; reads count.
    ///
    /// # Errors
    /// `unavailable`, `timeout`, `corrupt`.
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>>;

    /// Reads many entries from one snapshot; `result[i]` answers `keys[i]`. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - GET-5 to GET-7: at most 1,000 keys; order and repetition kept; one snapshot.
    ///
    /// # Errors
    /// As [`Backend::get`]; `too_large` over 1,000 keys.
    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>>;

    /// Writes one entry, whole. Requires `Capabilities::kv`; `Capabilities::compare_and_set` for an
    /// `expect` other than `Any`; `Capabilities::quotas` for a quota; `Capabilities::vector_search`
    /// for `Embed::Always`.
    ///
    /// # Behavior
    /// - SET-1 to SET-8, VER-1 to VER-8, TTL-1 to TTL-9, QUO-1 to QUO-6.
    ///
    /// # Errors
    /// `conflict`, `too_large`, `quota_exceeded`, `invalid_argument`, `embedder_not_configured`,
    /// `dimension_mismatch`, `unavailable`, `outcome_unknown`.
    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome>;

    /// Deletes one entry. Requires `Capabilities::kv`; `compare_and_set` for an `expect`.
    ///
    /// # Behavior
    /// - DEL-1 to DEL-4: deleting what is not there succeeds; preconditions as for `set`.
    ///
    /// # Errors
    /// `conflict`, `unavailable`, `outcome_unknown`.
    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome>;

    /// Lists entries by key, a page at a time. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - LST-1 to LST-9: byte order, exact prefix, stable cursors, filters, page limits.
    ///
    /// # Errors
    /// `invalid_argument` for a foreign cursor or a limit of 0; `too_large` for a limit over 1,000.
    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page>;

    /// Adds `delta` to an integer, atomically. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - INC-1 to INC-6: an absent or expired entry counts as 0; never wraps; keeps what it does not change.
    ///
    /// # Errors
    /// `wrong_type` where the value is no 64-bit integer, `invalid_argument` where the sum is not.
    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome>;

    /// Applies a reducer, atomically. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - UPD-1 to UPD-9: merge, append-dedupe, bounded list; untouched text survives.
    ///
    /// # Errors
    /// `wrong_type`, `too_large` where the result exceeds the value limit, `quota_exceeded`.
    async fn update(
        &self,
        scope: &Scope,
        key: &Key,
        reducer: Reducer,
        options: UpdateOptions,
    ) -> Result<UpdateOutcome>;

    /// Writes many entries, all or none; `result[i]` answers `items[i]`. Requires what `set` requires.
    ///
    /// # Behavior
    /// - BLK-1 to BLK-5: one transaction, in order, later items see earlier ones.
    ///
    /// # Errors
    /// As [`Backend::set`], with `details.index` of the item; nothing is written.
    async fn bulk_insert(
        &self,
        scope: &Scope,
        items: Vec<NewEntry>,
        options: BulkOptions,
    ) -> Result<Vec<SetOutcome>>;

    /// Finds entries by words, meaning or both. Requires `Capabilities::lexical_search` or
    /// `vector_search`, as the mode needs.
    ///
    /// # Behavior
    /// - SRC-1 to SRC-14, RNK-1 to RNK-7, DED-1 to DED-5, ISO-3.
    ///
    /// # Errors
    /// `vector_unsupported`, `embedder_not_configured`, `capability_unsupported`, `invalid_argument`,
    /// `too_large`; as the embedder fails.
    async fn search(&self, scope: &Scope, query: SearchQuery) -> Result<SearchResults>;

    /// Counts a scope's live entries. Requires `Capabilities::stats`.
    ///
    /// # Behavior
    /// - STA-1 to STA-3.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    async fn stats(&self, scope: &Scope) -> Result<ScopeStats>;

    /// Embeds what the current model has not embedded yet; call again while `remaining` shrinks.
    /// Requires `Capabilities::vector_search`.
    ///
    /// # Behavior
    /// - EMB-1 to EMB-4.
    ///
    /// # Errors
    /// `embedder_not_configured`; as the embedder fails.
    async fn reembed(&self, scope: &Scope, options: ReembedOptions) -> Result<ReembedOutcome>;

    /// Lists a tenant's scopes that hold live entries. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - SCO-1 to SCO-3.
    ///
    /// # Errors
    /// As [`Backend::list`].
    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage>;

    /// Deletes every entry of a scope, at once. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - SCO-4, SCO-5.
    ///
    /// # Errors
    /// `unavailable`, `outcome_unknown`.
    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome>;

    /// Streams every live entry in key order, from one snapshot where the engine can. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - EXP-1 to EXP-3.
    ///
    /// # Errors
    /// Of opening the stream; later errors are items that end it.
    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream>;

    /// Stores a stream of records. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - EXP-4 to EXP-9: every record whole or not at all, but the stream is no transaction; importing again changes nothing.
    ///
    /// # Errors
    /// The stream's own error, `conflict`, `too_large`, `quota_exceeded`; records before it are stored.
    async fn import_scope(
        &self,
        scope: &Scope,
        records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome>;
}

macro_rules! forward_backend {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<T: Backend + ?Sized> Backend for $pointer<T> {
            async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
                (**self).get(scope, key, options).await
            }
            async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
                (**self).get_many(scope, keys, options).await
            }
            async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
                (**self).set(scope, key, value, options).await
            }
            async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
                (**self).delete(scope, key, options).await
            }
            async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
                (**self).list(scope, query).await
            }
            async fn increment(&self, scope: &Scope, key: &Key, delta: i64, options: UpdateOptions) -> Result<IncrementOutcome> {
                (**self).increment(scope, key, delta, options).await
            }
            async fn update(&self, scope: &Scope, key: &Key, reducer: Reducer, options: UpdateOptions) -> Result<UpdateOutcome> {
                (**self).update(scope, key, reducer, options).await
            }
            async fn bulk_insert(&self, scope: &Scope, items: Vec<NewEntry>, options: BulkOptions) -> Result<Vec<SetOutcome>> {
                (**self).bulk_insert(scope, items, options).await
            }
            async fn search(&self, scope: &Scope, query: SearchQuery) -> Result<SearchResults> {
                (**self).search(scope, query).await
            }
            async fn stats(&self, scope: &Scope) -> Result<ScopeStats> {
                (**self).stats(scope).await
            }
            async fn reembed(&self, scope: &Scope, options: ReembedOptions) -> Result<ReembedOutcome> {
                (**self).reembed(scope, options).await
            }
            async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
                (**self).scopes(tenant, query).await
            }
            async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
                (**self).drop_scope(scope).await
            }
            async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
                (**self).export_scope(scope).await
            }
            async fn import_scope(&self, scope: &Scope, records: RecordStream, options: ImportOptions) -> Result<ImportOutcome> {
                (**self).import_scope(scope, records, options).await
            }
        }
    )*};
}

forward_backend!(Arc, Box);

/// Conveniences over [`Backend`], for every implementation.
#[async_trait]
pub trait BackendExt: Backend {
    /// The value of a key, counted as an access.
    ///
    /// # Errors
    /// As [`Backend::get`].
    async fn value(&self, scope: &Scope, key: &Key) -> Result<Option<Json>> {
        Ok(self.get(scope, key, GetOptions::default()).await?.map(|entry| entry.value))
    }

    /// Sets a value with default options.
    ///
    /// # Errors
    /// As [`Backend::set`].
    async fn put(&self, scope: &Scope, key: &Key, value: Json) -> Result<SetOutcome> {
        self.set(scope, key, value, SetOptions::default()).await
    }

    /// Deletes a key whatever it holds.
    ///
    /// # Errors
    /// As [`Backend::delete`].
    async fn remove(&self, scope: &Scope, key: &Key) -> Result<bool> {
        Ok(self.delete(scope, key, DeleteOptions::default()).await?.deleted)
    }

    /// Every entry under a prefix, page by page. Holds them all in memory: for small scopes.
    ///
    /// # Errors
    /// As [`Backend::list`].
    async fn list_all(&self, scope: &Scope, prefix: &str) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut cursor = None;
        loop {
            let query = ListQuery::prefix(prefix).with_cursor(cursor).with_limit(crate::limits::MAX_PAGE);
            let page = self.list(scope, query).await?;
            entries.extend(page.entries);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(entries);
            }
        }
    }
}

impl<T: Backend + ?Sized> BackendExt for T {}
