//! Facet 1: faithful key/value with vectors and full text.

pub mod embedding;
mod read;
mod search;
mod stream;
mod transfer;
mod write;

use std::fmt::Debug;

use async_trait::async_trait;

use crate::entry::{Entry, Expect};
use crate::error::{Error, ErrorKind, Result};
use crate::json::Json;
use crate::lifecycle::drift::DriftState;
use crate::limits::DEFAULT_MAX_VALUE_BYTES;
use crate::reduce::{Reducer, reduce};
use crate::scope::{Key, Scope, TenantId};

pub use crate::rank::SearchMode;
pub use read::{GetOptions, ListQuery, ModelStats, Page, ScopeInfo, ScopePage, ScopeStats, ScopesQuery};
pub use search::{Hit, SearchQuery, SearchResults};
pub use stream::{RecordStream, record_stream};
pub use transfer::{
    Atomicity, ImportOptions, ImportOutcome, OnExisting, Record, RecordVector, check_vectors,
};
pub use write::{
    BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, Embed, Embedding, IncrementOutcome, NewEntry,
    ReembedOptions, ReembedOutcome, SetOptions, SetOutcome, UpdateOptions, UpdateOutcome,
};

/// How often the default `increment` and `update` retry.
const MAX_TRIES: usize = 1_000;

/// Faithful key/value storage with search, for one scope per call.
///
/// Every method takes exactly one [`Scope`] and neither reads nor changes any other. The lists below cite the numbered
/// sentences of `docs/spec/backend.md`. `Checked` validates arguments before a backend sees them, so an implementation
/// may rely on the documented limits, and operations that it does not advertise are never called.
///
/// Futures may be dropped at any point: a write then takes effect completely or not at all.
///
/// Default methods are either built from other methods (`get`, `increment`, `update`) or refuse, which is right for a
/// backend that does not advertise the operation.
#[async_trait]
pub trait Backend: Send + Sync + Debug {
    /// Reads one entry. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - GET-1: `get` of a key that was never set returns `None`.
    /// - GET-2: An expired entry reads exactly as a missing one.
    /// - GET-3: `get` returns value, metadata, source, text, version, times and expiry as stored.
    /// - GET-4: Each `get` or `get_many` that finds an entry raises its `access_count` by one, visible to the next
    ///   read of the same provider, unless `count_access` is false. Reading changes neither `version` nor
    ///   `updated_at`.
    ///
    /// # Errors
    /// `unavailable`, `timeout`, `corrupt`.
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
        Ok(self.get_many(scope, std::slice::from_ref(key), options).await?.pop().flatten())
    }

    /// Reads many entries from one snapshot; `result[i]` answers `keys[i]`. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - GET-5: `get_many` answers as if its keys were read one after another: each key has its answer in place, an
    ///   absent key `None`, and a repeated key counts as often as it is named.
    /// - GET-6: `get_many` of no keys is empty; of more than 1,000 keys it is `too_large`.
    /// - GET-7: `get_many` reads one snapshot: of entries written together, it sees all or none.
    ///
    /// # Errors
    /// As [`Backend::get`]; `too_large` over 1,000 keys.
    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>>;

    /// Writes one entry, whole. Requires `Capabilities::kv`; `Capabilities::compare_and_set` for an
    /// `expect` other than `Any`; `Capabilities::quotas` for a quota; `Capabilities::vector_search`
    /// for `Embed::Always`.
    ///
    /// # Behavior
    /// - SET-1: `set` stores the entry; every later read through any handle sees it.
    /// - SET-2: `set` over a live entry replaces value, metadata, source and text as a whole; nothing of the old
    ///   ones remains.
    /// - SET-3: `created` is true if and only if no live entry existed.
    /// - SET-4: `created_at` survives overwrites and starts anew after delete and expiry; `updated_at` is the time
    ///   of the write.
    /// - SET-5: `access_count` survives overwrites and starts at 0 after delete and expiry.
    /// - SET-6: A refused `set` changes nothing, not even the version.
    /// - SET-7: The outcome's version and expiry are those that the next `get` returns.
    /// - SET-8: An acknowledged write survives the process being killed right afterwards, if the provider is
    ///   persistent.
    /// - VER-1 to VER-8: Versions grow and are never reused; a failed precondition is `conflict`, unless its result
    ///   is already stored.
    /// - DRF-1 to DRF-17: A write whose drift check fails is `drift_detected` and changes nothing.
    /// - TTL-1 to TTL-8: An entry is invisible from the millisecond of its expiry on; setting over an expired entry
    ///   creates it anew.
    /// - QUO-1 to QUO-7: A write that grows the scope past its quota is `quota_exceeded` and changes nothing;
    ///   shrinking always works.
    /// - EMB-1 to EMB-10: Embedding follows the durable write, and its failure is in the outcome; a stale vector is
    ///   never found.
    ///
    /// # Errors
    /// `conflict`, `too_large`, `quota_exceeded`, `invalid_argument`, `embedder_not_configured`,
    /// `dimension_mismatch`, `unavailable`, `outcome_unknown`.
    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome>;

    /// Deletes one entry. Requires `Capabilities::kv`; `compare_and_set` for an `expect`.
    ///
    /// # Behavior
    /// - DEL-1: `delete` removes the entry; `deleted` says whether a live one existed.
    /// - DEL-2: Deleting a key that does not exist succeeds with `deleted: false`.
    /// - DEL-3: A precondition works as for `set`. If it fails and no live entry exists, the delete succeeds with
    ///   `deleted: false`, because its goal is already reached.
    /// - DEL-4: A deleted entry is gone from every read, including search.
    /// - DRF-1 to DRF-17: A write whose drift check fails is `drift_detected` and changes nothing.
    ///
    /// # Errors
    /// `conflict`, `unavailable`, `outcome_unknown`.
    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome>;

    /// Lists entries by key, a page at a time. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - LST-1: Entries are returned in byte order of their keys.
    /// - LST-2: A prefix matches exactly its bytes; `%`, `_`, `*`, case and normalisation have no special meaning.
    /// - LST-3: A page holds at most `limit` entries. `next` is a cursor if more follow and `None` at the end.
    /// - LST-4: Paging through an unchanged scope returns every entry once.
    /// - LST-5: A cursor survives inserts and the deletion of the key it names: entries that stay live throughout
    ///   are returned exactly once.
    /// - LST-6: A limit of 0 is `invalid_argument`; over 1,000 is `too_large`.
    /// - LST-7: A malformed or foreign cursor is `invalid_argument`.
    /// - LST-8: A filter leaves out entries that do not match; pages are filled all the same.
    /// - LST-9: A page ends early once it holds 8 MiB (values, metadata, texts). It has at least one entry, and a
    ///   cursor if more follow.
    /// - LST-10: `list` and export do not raise access counts.
    ///
    /// # Errors
    /// `invalid_argument` for a foreign cursor or a limit of 0; `too_large` for a limit over 1,000.
    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page>;

    /// Adds `delta` to an integer, atomically. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - INC-1: `increment` of an absent or expired key stores `delta`.
    /// - INC-2: `increment` adds to a stored integer; the stored text is plain decimal.
    /// - INC-3: If the value is not a 64-bit integer in plain decimal, `increment` fails with `wrong_type` and
    ///   changes nothing.
    /// - INC-4: If the sum exceeds 64 bits, `increment` fails with `invalid_argument` and changes nothing.
    /// - INC-5: Metadata, source, text and, with `Keep`, the expiry are kept.
    /// - INC-6: Concurrent increments add up exactly; with equal non-zero deltas, each outcome has a different
    ///   value.
    /// - TTL-7, QUO-1, DRF-16: Lifetime and quota apply as for `set`; the call is never refused for drift.
    ///
    /// The default reads and sets, and retries if another write came in between. It needs a `set` that honours
    /// [`Expect`], and no drift policies. A backend that can hold a lock or a transaction should override it, which
    /// avoids the retries.
    ///
    /// # Errors
    /// `wrong_type` if the value is not a 64-bit integer, `invalid_argument` if the sum is not.
    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let live = self.get(scope, key, GetOptions::uncounted()).await?;
            moved_on(&mut last, live.as_ref())?;
            let sum = incremented(live.as_ref().map(|live| &live.value), delta)?;
            if let Some(set) = exchange(self, scope, key, live, sum.into(), options).await? {
                return Ok(IncrementOutcome::new(sum, set.version, set.expires_at));
            }
        }
        Err(contended())
    }

    /// Applies a reducer, atomically. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - UPD-1: `merge` merges objects member by member at every depth; any other value, including null, replaces.
    /// - UPD-2: Members that a merge does not touch keep their text byte for byte.
    /// - UPD-3: `append_dedupe` appends unless an equal element exists, whatever its member order and number
    ///   spelling; `appended` says which.
    /// - UPD-4: `bounded_list` appends and drops elements from the head down to the limit; `dropped` says how many.
    /// - UPD-5: On an absent or expired key, merge stores the patch and the lists start empty.
    /// - UPD-6: If the stored value has the wrong type, `update` fails with `wrong_type` and changes nothing.
    /// - UPD-7: Concurrent updates are never lost.
    /// - UPD-8: A result over the value limit, or nested deeper than 128 levels, is `too_large` and changes
    ///   nothing.
    /// - UPD-9: Metadata, source and an explicit text are kept. The version grows even if the value's text stays
    ///   the same.
    /// - TTL-7, QUO-1, DRF-16: Lifetime and quota apply as for `set`; the call is never refused for drift.
    ///
    /// The default works like that of [`increment`](Self::increment), and enforces
    /// [`max_value_bytes`](Self::max_value_bytes).
    ///
    /// # Errors
    /// `wrong_type`, `too_large` if the result exceeds the value limit, `quota_exceeded`.
    async fn update(
        &self,
        scope: &Scope,
        key: &Key,
        reducer: Reducer,
        options: UpdateOptions,
    ) -> Result<UpdateOutcome> {
        let limit = self.max_value_bytes();
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let live = self.get(scope, key, GetOptions::uncounted()).await?;
            moved_on(&mut last, live.as_ref())?;
            let reduced = reduce(live.as_ref().map(|live| &live.value), &reducer)?;
            if reduced.value.len_bytes() > limit {
                return Err(Error::too_large("value", reduced.value.len_bytes(), limit, "bytes"));
            }
            if let Some(set) = exchange(self, scope, key, live, reduced.value.clone(), options).await? {
                let mut outcome = UpdateOutcome::new(reduced.value, set.version, set.expires_at);
                (outcome.appended, outcome.dropped) = (reduced.appended, reduced.dropped);
                outcome.embedding = set.embedding;
                return Ok(outcome);
            }
        }
        Err(contended())
    }

    /// The value limit of the default [`update`](Self::update). Override it if the provider's
    /// `Capabilities::max_value_bytes` differs from the default.
    fn max_value_bytes(&self) -> usize {
        DEFAULT_MAX_VALUE_BYTES
    }

    /// Writes many entries, all or none; `result[i]` answers `items[i]`. Requires what `set` requires.
    ///
    /// # Behavior
    /// - BLK-1: Outcomes are in the order of the items; each is what `set` would have returned.
    /// - BLK-2: All items are written or none: if one fails, the call fails with that error and `details.index`.
    /// - BLK-3: Items are applied in order: of two with the same key the later wins, and its precondition sees the
    ///   earlier one.
    /// - BLK-4: More than 10,000 items or 64 MiB is `too_large`; no items gives an empty answer.
    /// - BLK-5: A reader never sees only some of the items.
    /// - BLK-6: A precondition that does not hold after an earlier item of the call is a `conflict` without
    ///   `details.current_version`, for what it saw is not stored.
    /// - EMB-16: A bulk insert embeds each item that asks for it; of two items with the same key, the text of the
    ///   later one.
    ///
    /// # Errors
    /// Those of [`Backend::set`], with the item's `details.index`; nothing is written.
    async fn bulk_insert(
        &self,
        scope: &Scope,
        items: Vec<NewEntry>,
        options: BulkOptions,
    ) -> Result<Vec<SetOutcome>>;

    /// Finds entries by words, meaning or both. Requires `Capabilities::lexical_search` or `vector_search`, depending
    /// on the mode.
    ///
    /// # Behavior
    /// - SRC-1 to SRC-15: Search by words finds entries with at least one term of the query; prefix, filter and
    ///   threshold limit the hits.
    /// - VEC-1 to VEC-10: Search by vectors finds the entries with a vector of the current model, scored by `max(0,
    ///   cosine)`.
    /// - HYB-1 to HYB-6: Search by both scores by the weighted sum of the two, and orders by their fusion.
    /// - RNK-1 to RNK-7: Hits are ordered by similarity, recency, source and frequency as weighted, with ties in
    ///   the order of keys.
    /// - DED-1 to DED-9: Near-duplicates of a better hit are dropped, merged or only counted, before the answer is
    ///   cut to `top_k`.
    /// - ISO-3: Search scores, ranks and statistics of a scope depend on that scope's live entries alone.
    ///
    /// # Errors
    /// `vector_unsupported`, `embedder_not_configured`, `capability_unsupported`, `invalid_argument`, `too_large`; the
    /// embedder's errors.
    async fn search(&self, _scope: &Scope, _query: SearchQuery) -> Result<SearchResults> {
        Err(unserved("search"))
    }

    /// Counts a scope's live entries. Requires `Capabilities::stats`.
    ///
    /// # Behavior
    /// - STA-1: `entries` and `bytes` count the live entries; bytes are those of `Entry::size_bytes`.
    /// - STA-2: `expiring` counts live entries with an expiry.
    /// - STA-3: A scope that was never written has all zeros and is no error.
    /// - STA-4: For each model, `rows` and `missing` add up to `entries`; `stale` of the missing have a vector of another
    ///   model.
    /// - STA-5: The current model is listed once a live entry exists; other models are listed while vectors of
    ///   theirs exist.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    async fn stats(&self, _scope: &Scope) -> Result<ScopeStats> {
        Err(unserved("stats"))
    }

    /// Embeds what the current model has not embedded yet; call it again as long as `remaining` shrinks. Requires
    /// `Capabilities::vector_search`.
    ///
    /// # Behavior
    /// - EMB-4: `reembed` embeds the text of every live entry that has a text but no vector of the current model
    ///   (or the text that was recorded with a vector of another model): at most `limit` entries per call, to be
    ///   called until `remaining` is 0. This includes entries once written with `never`.
    /// - EMB-11: Vectors of different models are never compared: each model finds its own. Writing under another
    ///   model replaces the old vector, and so does `reembed`; until then it stays and is found under its own
    ///   model.
    /// - EMB-12: `reembed` changes nothing else of an entry: not its version, times, expiry or access count.
    /// - EMB-13: A `reembed` that fails keeps the work of earlier calls and removes no vector; a later call
    ///   continues.
    /// - EMB-14: A text that the embedder refuses (`invalid_argument`, `too_large`) counts in `failed` and stays in
    ///   `remaining`. It does not count against `limit`, so it never blocks others.
    /// - EMB-15: A dry run writes nothing and does not call the embedder: `embedded` is how many entries a call
    ///   would embed, `remaining` how many there are. A limit of 0 is `invalid_argument`, over 10,000 `too_large`.
    /// - EMB-17: `reembed` leaves out entries whose key begins with `except`, unless that is empty: they are neither
    ///   embedded nor counted.
    ///
    /// # Errors
    /// The embedder's errors.
    async fn reembed(&self, _scope: &Scope, _options: ReembedOptions) -> Result<ReembedOutcome> {
        Err(unserved("reembed"))
    }

    /// Lists a tenant's scopes that hold live entries. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - SCO-1: `scopes` lists the tenant's scopes that hold live entries, with counts and bytes, ordered by kind
    ///   (agent, user, run) and id bytes; never another tenant's.
    /// - SCO-2: It pages as `list` does.
    /// - SCO-3: A kind restricts the list to that kind.
    ///
    /// # Errors
    /// As [`Backend::list`].
    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage>;

    /// Reads the scope's current token. Requires `Capabilities::drift`.
    ///
    /// # Behavior
    /// - DRF-10: The outcome of a write with a check other than `Off` reports the scope's token before and after.
    ///   `drift_state` returns the token after until the next change.
    /// - DRF-11: Every change of an entry changes the token; reads, access counts, expiry, sweeping and
    ///   re-embedding do not.
    /// - DRF-12: The generation of a scope that was written is at least 1. A scope that was never written has the
    ///   token `none`, without a generation.
    /// - DRF-13: Nothing that happens in another scope changes a scope's token.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`; by default `capability_unsupported`, for backends without drift checks.
    async fn drift_state(&self, scope: &Scope) -> Result<DriftState> {
        let _ = scope;
        Err(Error::unsupported("drift_state", "this one"))
    }

    /// Deletes every entry of a scope, at once. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - SCO-4: `drop_scope` removes every entry at once and returns how many were live; dropping an empty scope
    ///   succeeds.
    /// - SCO-5: `end_run` removes the run's scope and no other; ending a run twice succeeds.
    ///
    /// # Errors
    /// `unavailable`, `outcome_unknown`.
    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome>;

    /// Streams every live entry in key order, from one snapshot if the engine can. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - EXP-1: Export streams every live entry once, in key order, with version, times, expiry, access count and
    ///   vectors.
    /// - EXP-2: An export begun before a write sees all of a bulk insert or none.
    /// - EXP-3: A record survives a JSON round trip.
    /// - EXP-10: Vectors travel with their model: an import stores them under that model and embeds nothing itself,
    ///   and a record that replaces an entry replaces its vectors.
    ///
    /// # Errors
    /// Errors while opening the stream; later errors are items of the stream and end it.
    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream>;

    /// Stores a stream of records. Requires `Capabilities::kv`.
    ///
    /// # Behavior
    /// - EXP-4: Importing into a scope never written keeps value, metadata, source, text, version, times, expiry
    ///   and access count.
    /// - EXP-5: Importing the same records again with `skip` or `replace` changes nothing: every record is
    ///   `skipped`, even one that replaced an entry before and whose version differs.
    /// - EXP-6: On an existing key, even one that an earlier record wrote: `skip` keeps the entry, `replace` stores
    ///   the record with a version above the stored one, and `fail` ends the import with `conflict`.
    /// - EXP-7: Records that have already expired are counted in `expired` and not stored.
    /// - EXP-8: Versions stay unique: a key that was written in this scope before never gets a version at or below
    ///   one it had.
    /// - EXP-9: A malformed record ends the import with its position in `details.index`; records before it are
    ///   stored.
    /// - EXP-10: Vectors travel with their model: an import stores them under that model and embeds nothing itself,
    ///   and a record that replaces an entry replaces its vectors.
    /// - EXP-11: A record is malformed if a vector is zero, not finite, too long, of another length than its model
    ///   states, or one of two of a model.
    /// - EXP-12: With [`Atomicity::Scope`], all records are stored or none; readers see the old state until all is
    ///   stored.
    /// - EXP-13: With [`Atomicity::Replacement`], the scope's entries are removed in the same transaction.
    /// - EXP-14: A record whose value's text contains line feeds is still written as one line (`Record::to_line`)
    ///   and is read back with them.
    /// - EXP-15: With [`Atomicity::Mirror`], the same transaction removes every entry whose key has no record,
    ///   or one that has expired.
    /// - FGT-7 to FGT-10: An import of a copy leaves out what was erased after the copy was taken, where
    ///   `Capabilities::erase`.
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

/// What `increment` stores.
fn incremented(current: Option<&Json>, delta: i64) -> Result<i64> {
    let before = current.map_or(Some(0), Json::as_i64_exact).ok_or_else(|| {
        Error::wrong_type("the value is not a 64-bit integer in plain decimal; set one first")
    })?;
    let sum = before.checked_add(delta);
    sum.ok_or_else(|| Error::invalid("the sum does not fit 64 bits; use a smaller delta"))
}

/// Sets a value derived from `live`; `None` if another write came in between.
async fn exchange<B: Backend + ?Sized>(
    backend: &B,
    scope: &Scope,
    key: &Key,
    live: Option<Entry>,
    value: Json,
    options: UpdateOptions,
) -> Result<Option<SetOutcome>> {
    let expect = live.as_ref().map_or(Expect::Absent, |live| Expect::Version(live.version));
    let options = SetOptions::keeping(live, options).with_expect(expect);
    match backend.set(scope, key, value, options).await {
        // If the value was already stored, someone else stored it.
        Ok(outcome) => Ok(Some(outcome).filter(|outcome| outcome.written)),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stops retrying if the version is the same as at the last failed exchange: nobody else wrote, so no retry can
/// succeed.
fn moved_on(last: &mut Option<u64>, live: Option<&Entry>) -> Result<()> {
    let version = live.map(|live| live.version);
    if version.is_some() && version == *last {
        return Err(Error::internal(
            "`set` refuses the version that `get` returns, though nobody wrote in between; correct how the backend compares \
             versions (`Expect::Version`), on which the default `increment` and `update` build",
        ));
    }
    *last = version;
    Ok(())
}

fn contended() -> Error {
    Error::unavailable("others kept writing this key, and nothing was changed; try again")
}

fn unserved(operation: &'static str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("this backend does not serve `{operation}`; ask its capabilities"),
    )
    .with_detail("operation", operation)
}

/// Shorthands on top of [`Backend`], for every implementation.
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

    /// Deletes a key, whatever its value.
    ///
    /// # Errors
    /// As [`Backend::delete`].
    async fn remove(&self, scope: &Scope, key: &Key) -> Result<bool> {
        Ok(self.delete(scope, key, DeleteOptions::default()).await?.deleted)
    }

    /// Every entry under a prefix. Holds all of them in memory, so it is for small scopes only.
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
