//! Facet 1: faithful key/value with vectors and full text.

mod read;
mod search;
mod transfer;
mod write;

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;

use crate::drift::DriftState;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::reduce::Reducer;
use crate::scope::{Key, Scope, TenantId};

pub use read::{GetOptions, ListQuery, ModelStats, Page, ScopeInfo, ScopePage, ScopeStats, ScopesQuery};
pub use search::{Hit, SearchMode, SearchQuery, SearchResults};
pub use transfer::{
    Atomicity, ImportOptions, ImportOutcome, OnExisting, Record, RecordVector, check_vectors,
};
pub use write::{
    BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, Embed, Embedding, IncrementOutcome, NewEntry,
    ReembedOptions, ReembedOutcome, SetOptions, SetOutcome, UpdateOptions, UpdateOutcome,
};

/// A stream of export records. An `Err` item ends it.
pub type RecordStream = Pin<Box<dyn Stream<Item = Result<Record>> + Send>>;

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
    /// - SET-1 to SET-8, VER-1 to VER-8, DRF-1 to DRF-16, TTL-1 to TTL-8, QUO-1 to QUO-6, EMB-1 to EMB-10.
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
    /// - BLK-1 to BLK-5, EMB-16: one transaction, in order, later items see earlier ones.
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
    /// - SRC-1 to SRC-14, VEC-1 to VEC-10, HYB-1 to HYB-6, RNK-1 to RNK-7, DED-1 to DED-9, ISO-3.
    ///
    /// # Errors
    /// `vector_unsupported`, `embedder_not_configured`, `capability_unsupported`, `invalid_argument`,
    /// `too_large`; as the embedder fails.
    async fn search(&self, scope: &Scope, query: SearchQuery) -> Result<SearchResults>;

    /// Counts a scope's live entries. Requires `Capabilities::stats`.
    ///
    /// # Behavior
    /// - STA-1 to STA-5.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    async fn stats(&self, scope: &Scope) -> Result<ScopeStats>;

    /// Embeds what the current model has not embedded yet; call again while `remaining` shrinks.
    /// Requires `Capabilities::vector_search`.
    ///
    /// # Behavior
    /// - EMB-4, EMB-11 to EMB-15: no other change of an entry; a failed call takes nothing away.
    ///
    /// # Errors
    /// As the embedder fails.
    async fn reembed(&self, scope: &Scope, options: ReembedOptions) -> Result<ReembedOutcome>;

    /// Lists a tenant's scopes that hold live entries. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - SCO-1 to SCO-3.
    ///
    /// # Errors
    /// As [`Backend::list`].
    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage>;

    /// The scope's token, as of now. Requires `Capabilities::drift`.
    ///
    /// # Behavior
    /// - DRF-10 to DRF-13.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`; `capability_unsupported` unless a backend that serves drift checks says otherwise.
    async fn drift_state(&self, scope: &Scope) -> Result<DriftState> {
        let _ = scope;
        Err(Error::unsupported("drift_state", "this one"))
    }

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
    /// - EXP-1 to EXP-3, EXP-10.
    ///
    /// # Errors
    /// Of opening the stream; later errors are items that end it.
    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream>;

    /// Stores a stream of records. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - EXP-4 to EXP-11: every record whole or not at all, but the stream is no transaction; importing again changes nothing.
    /// - EXP-12 to EXP-15: with an [`Atomicity`] other than `Record` it is one, where `Capabilities::atomic_import`.
    /// - FGT-7 to FGT-10: of a copy, what was forgotten since is left out, where `Capabilities::erase`.
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
            async fn drift_state(&self, scope: &Scope) -> Result<DriftState> {
                (**self).drift_state(scope).await
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
