//! The wrapper that holds every provider to its word.

use std::collections::BTreeSet;

use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::{
    Atomicity, Backend, BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, Embed, GetOptions,
    ImportOptions, ImportOutcome, IncrementOutcome, ListQuery, NewEntry, Page, RecordStream, RecordVector,
    ReembedOptions, ReembedOutcome, ScopePage, ScopeStats, ScopesQuery, SearchMode, SearchQuery,
    SearchResults, SetOptions, SetOutcome, UpdateOptions, UpdateOutcome,
};
use crate::capabilities::Capabilities;
use crate::drift::{DriftCheck, DriftPolicy, DriftState};
use crate::entry::{Entry, Expect, Quota, size_bytes};
use crate::erase::{EraseTarget, Erased, Taken, Tombstone, TombstoneId, TombstonesOf};
use crate::error::{Error, ErrorKind, Result};
use crate::eviction::{EvictOutcome, Reclaimed, ScopeUsesPage, ScopeUsesQuery};
use crate::interposed::Op;
use crate::json::Json;
use crate::layer::{
    AddOptions, AddOutcome, EventId, EventStatus, Fact, FactsPage, FactsQuery, Forget, ForgetOutcome,
    MAX_FACTS_CURSOR_BYTES, MAX_MESSAGES, MAX_MESSAGES_BYTES, MAX_SPEAKER_BYTES, MemoryLayer, Message,
    RecallQuery,
};
use crate::limits::{
    MAX_BULK_BYTES, MAX_BULK_ITEMS, MAX_DIMENSIONS, MAX_GET_MANY, MAX_KEY_BYTES, MAX_MODEL_NAME_BYTES,
    MAX_PAGE, MAX_QUERY_BYTES, MAX_RECORD_VECTORS, MAX_TEXT_BYTES,
};
use crate::moment::{self, Moment};
use crate::provider::{Health, Provider};
use crate::reduce::{MAX_LIST_LIMIT, Reducer};
use crate::scope::{Key, RunContext, Scope, ScopeId, TenantId};
use crate::sql::{
    DumpStream, ExecOutcome, MAX_ARGUMENTS, MAX_STATEMENT_BYTES, RestoreOptions, RestoreOutcome, Rows,
    SqlFacet, SqlScopePage, SqlScopesQuery, SqlUsage, SqlValue, StatementOptions, TableInfo, TxId, TxState,
};
use crate::time::Timestamp;

/// A provider whose every argument is validated once, and whose unadvertised operations are refused
/// before the provider is reached.
///
/// It implements every facet itself, so its accessors return it. What it lets through is within
/// [`crate::limits`] and within the provider's own advertised limits.
#[derive(Debug)]
pub struct Checked<P> {
    inner: P,
    capabilities: Capabilities,
}

impl<P: Provider> Checked<P> {
    /// Wraps a provider.
    ///
    /// # Errors
    /// `internal` where the provider contradicts itself: a facet flag without its accessor, an
    /// accessor without its flag, or flags that exclude each other.
    pub fn new(inner: P) -> Result<Self> {
        let capabilities = inner.capabilities();
        let mut contradictions: Vec<String> =
            capabilities.contradictions().into_iter().map(str::to_owned).collect();
        for (facet, advertised, served) in [
            ("kv", capabilities.kv, inner.backend().is_some()),
            ("memory_layer", capabilities.memory_layer, inner.layer().is_some()),
            ("sql", capabilities.sql, inner.sql().is_some()),
        ] {
            if advertised != served {
                contradictions.push(format!("`{facet}` is advertised {advertised} and served {served}"));
            }
        }
        if contradictions.is_empty() {
            Ok(Self { inner, capabilities })
        } else {
            Err(Error::internal(format!(
                "provider `{}` contradicts itself: {}",
                inner.name(),
                contradictions.join("; ")
            )))
        }
    }

    /// The provider inside.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Unwraps the provider.
    #[must_use]
    pub fn into_inner(self) -> P {
        self.inner
    }

    fn unsupported(&self, op: Op) -> Error {
        Error::unsupported(op.as_str(), self.inner.name())
    }

    fn require(&self, advertised: bool, op: Op) -> Result<()> {
        if advertised { Ok(()) } else { Err(self.unsupported(op)) }
    }

    fn kv(&self, op: Op) -> Result<&dyn Backend> {
        self.inner.backend().filter(|_| self.capabilities.kv).ok_or_else(|| self.unsupported(op))
    }

    fn checked_layer(&self, op: Op, run: &RunContext, scope: &Scope) -> Result<&dyn MemoryLayer> {
        let layer = self
            .inner
            .layer()
            .filter(|_| self.capabilities.memory_layer)
            .ok_or_else(|| self.unsupported(op))?;
        check_tenant(run, scope)?;
        Ok(layer)
    }

    fn checked_sql(&self, op: Op) -> Result<&dyn SqlFacet> {
        self.inner.sql().filter(|_| self.capabilities.sql).ok_or_else(|| self.unsupported(op))
    }

    fn transactions(&self, op: Op, run: &RunContext, scope: &Scope) -> Result<&dyn SqlFacet> {
        let sql = self.checked_sql(op)?;
        self.require(self.capabilities.sql_transactions, op)?;
        check_tenant(run, scope)?;
        Ok(sql)
    }

    fn check_key(&self, key: &Key) -> Result<()> {
        let limit = self.capabilities.max_key_bytes;
        if key.as_str().len() > limit {
            return Err(Error::too_large("key", key.as_str().len(), limit, "bytes"));
        }
        Ok(())
    }

    fn check_value(&self, value: &Json) -> Result<()> {
        let limit = self.capabilities.max_value_bytes;
        if value.len_bytes() > limit {
            return Err(Error::too_large("value", value.len_bytes(), limit, "bytes"));
        }
        Ok(())
    }

    fn check_expect(&self, expect: Expect, op: Op) -> Result<()> {
        if expect != Expect::Any && !self.capabilities.compare_and_set {
            return Err(self.unsupported(op).with_detail("option", "expect"));
        }
        Ok(())
    }

    fn check_quota(&self, quota: Quota, op: Op) -> Result<()> {
        if !quota.is_unlimited() && !self.capabilities.quotas {
            return Err(self.unsupported(op).with_detail("option", "quota"));
        }
        Ok(())
    }

    fn check_drift(&self, drift: &DriftCheck, op: Op) -> Result<()> {
        let served = &self.capabilities.drift;
        let fits = match drift.policy() {
            Some(DriftPolicy::Off) => true,
            Some(policy) => served.contains(&policy),
            None => !served.is_empty(),
        };
        if fits { Ok(()) } else { Err(self.unsupported(op).with_detail("option", "drift")) }
    }

    fn check_set(&self, key: &Key, value: &Json, options: &SetOptions, op: Op) -> Result<()> {
        self.check_key(key)?;
        self.check_value(value)?;
        options.metadata.check()?;
        if let Some(text) = &options.text {
            if text.len() > MAX_TEXT_BYTES {
                return Err(Error::too_large("search text", text.len(), MAX_TEXT_BYTES, "bytes"));
            }
            if text.contains('\0') {
                return Err(Error::invalid("the search text has a NUL character; remove it"));
            }
        }
        options.ttl.check()?;
        self.check_expect(options.expect, op)?;
        self.check_quota(options.quota, op)?;
        self.check_drift(&options.drift, op)?;
        if options.embed == Embed::Always && !self.capabilities.vector_search {
            return Err(self.vector_unsupported(op));
        }
        Ok(())
    }

    fn vector_unsupported(&self, op: Op) -> Error {
        Error::new(
            ErrorKind::VectorUnsupported,
            format!(
                "provider `{}` serves no vectors; search by words, or configure an embedder where the backend takes one",
                self.inner.name()
            ),
        )
        .with_detail("operation", op.as_str())
        .with_detail("provider", self.inner.name())
    }

    fn check_search(&self, query: &mut SearchQuery) -> Result<()> {
        let capabilities = &self.capabilities;
        match query.mode {
            SearchMode::Auto if capabilities.vector_search && capabilities.lexical_search => {
                query.mode = SearchMode::Hybrid;
            }
            SearchMode::Auto if capabilities.vector_search => query.mode = SearchMode::Vector,
            SearchMode::Auto => {
                self.require(capabilities.lexical_search, Op::Search)?;
                query.mode = SearchMode::Lexical;
            }
            SearchMode::Lexical => self.require(capabilities.lexical_search, Op::Search)?,
            SearchMode::Vector | SearchMode::Hybrid if !capabilities.vector_search => {
                return Err(self.vector_unsupported(Op::Search));
            }
            SearchMode::Hybrid => self.require(capabilities.lexical_search, Op::Search)?,
            SearchMode::Vector => {}
        }
        if query.text.len() > MAX_QUERY_BYTES {
            return Err(Error::too_large("query", query.text.len(), MAX_QUERY_BYTES, "bytes"));
        }
        if query.text.trim().is_empty() {
            return Err(Error::invalid("the query is blank; say what to look for, or use `list`"));
        }
        check_limit("top_k", query.top_k, capabilities.max_top_k)?;
        check_prefix(&query.prefix)?;
        if let Some(filter) = &query.filter {
            filter.check()?;
        }
        if let Some(threshold) = query.threshold
            && !(0.0..=1.0).contains(&threshold)
        {
            return Err(Error::invalid("threshold must be 0 to 1, as scores are"));
        }
        query.rank.check()?;
        query.dedup.as_ref().map_or(Ok(()), crate::rank::Dedup::check)
    }
}

fn check_tenant(run: &RunContext, scope: &Scope) -> Result<()> {
    if run.tenant == scope.tenant {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::ScopeDenied,
        "the scope belongs to another tenant than the run; use a scope of the run's own tenant",
    ))
}

pub(crate) fn check_limit(what: &'static str, limit: usize, max: usize) -> Result<()> {
    match limit {
        0 => Err(Error::invalid(format!("{what} is 0; ask for 1 to {max}"))),
        limit if limit > max => Err(Error::too_large(what, limit, max, "rows")),
        _ => Ok(()),
    }
}

fn check_prefix(prefix: &str) -> Result<()> {
    if prefix.len() > MAX_KEY_BYTES {
        return Err(Error::too_large("prefix", prefix.len(), MAX_KEY_BYTES, "bytes"));
    }
    if prefix.contains('\0') {
        return Err(Error::invalid("the prefix has a NUL character; no key has one"));
    }
    Ok(())
}

fn check_messages(messages: &[Message]) -> Result<()> {
    if messages.len() > MAX_MESSAGES {
        return Err(Error::too_large("messages", messages.len(), MAX_MESSAGES, "messages"));
    }
    let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
    if bytes > MAX_MESSAGES_BYTES {
        return Err(Error::too_large("messages", bytes, MAX_MESSAGES_BYTES, "bytes"));
    }
    if messages.iter().all(|message| message.content.trim().is_empty()) {
        return Err(Error::invalid("there is nothing to add: give at least one message that is not blank"));
    }
    for (index, message) in messages.iter().enumerate() {
        if message.content.contains('\0') {
            return Err(
                Error::invalid("a message has a NUL character; remove it").with_detail("index", index)
            );
        }
        let Some(name) = &message.name else { continue };
        if name.len() > MAX_SPEAKER_BYTES {
            return Err(Error::too_large("speaker's name", name.len(), MAX_SPEAKER_BYTES, "bytes"));
        }
        if name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(Error::invalid("a speaker's name is blank or has a control character; leave it out")
                .with_detail("index", index));
        }
    }
    Ok(())
}

fn check_statement(sql: &str, args: &[SqlValue], options: &StatementOptions) -> Result<()> {
    if sql.len() > MAX_STATEMENT_BYTES {
        return Err(Error::too_large("statement", sql.len(), MAX_STATEMENT_BYTES, "bytes"));
    }
    if sql.trim().is_empty() {
        return Err(Error::invalid("the statement is blank"));
    }
    if args.len() > MAX_ARGUMENTS {
        return Err(Error::too_large("arguments", args.len(), MAX_ARGUMENTS, "values"));
    }
    if options.max_rows == 0 || options.max_bytes == 0 {
        return Err(Error::invalid("a result cap of 0 returns nothing; ask for at least 1 row and 1 byte"));
    }
    Ok(())
}

#[async_trait]
impl<P: Provider> Provider for Checked<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn backend(&self) -> Option<&dyn Backend> {
        self.capabilities.kv.then_some(self as _)
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        self.capabilities.memory_layer.then_some(self as _)
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        self.capabilities.sql.then_some(self as _)
    }

    async fn health(&self) -> Result<Health> {
        self.inner.health().await
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.inner.end_run(tenant, root_run).await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        self.require(self.capabilities.tenants, Op::Tenants)?;
        check_limit("limit", limit, MAX_PAGE)?;
        self.inner.tenants(after, limit).await
    }

    async fn moment(&self) -> Result<Arc<dyn Moment>> {
        self.require(self.capabilities.moment, Op::Moment)?;
        Ok(Arc::new(moment::Checked(self.inner.moment().await?)))
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        self.require(self.capabilities.erase, Op::Erase)?;
        target.key().map_or(Ok(()), |key| self.check_key(key))?;
        self.inner.erase(target).await
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        self.require(self.capabilities.erase, Op::Tombstones)?;
        check_limit("limit", limit, MAX_PAGE)?;
        self.inner.tombstones(of, after, limit).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        self.require(self.capabilities.erase, Op::Bury)?;
        if tombstones.len() > MAX_PAGE {
            return Err(Error::too_large("bury", tombstones.len(), MAX_PAGE, "tombstones"));
        }
        if tombstones.iter().any(|tombstone| tombstone.id.key.is_some() && tombstone.id.scope.is_none()) {
            return Err(Error::invalid(
                "a tombstone of a key has no scope; take the list of a store as it is",
            ));
        }
        if tombstones.is_empty() {
            return Ok(());
        }
        self.inner.bury(tombstones).await
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        self.require(self.capabilities.eviction, Op::ScopeUses)?;
        check_limit("limit", query.limit, MAX_PAGE)?;
        self.inner.scope_uses(tenant, query).await
    }

    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        self.require(self.capabilities.eviction, Op::Evict)?;
        self.inner.evict(scope, unused_since).await
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        self.require(self.capabilities.eviction, Op::Reclaim)?;
        self.inner.reclaim().await
    }
}

#[async_trait]
impl<P: Provider> Backend for Checked<P> {
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
        let kv = self.kv(Op::Get)?;
        self.check_key(key)?;
        kv.get(scope, key, options).await
    }

    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
        let kv = self.kv(Op::GetMany)?;
        if keys.len() > MAX_GET_MANY {
            return Err(Error::too_large("get_many", keys.len(), MAX_GET_MANY, "keys"));
        }
        keys.iter().try_for_each(|key| self.check_key(key))?;
        kv.get_many(scope, keys, options).await
    }

    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        let kv = self.kv(Op::Set)?;
        self.check_set(key, &value, &options, Op::Set)?;
        kv.set(scope, key, value, options).await
    }

    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
        let kv = self.kv(Op::Delete)?;
        self.check_key(key)?;
        self.check_expect(options.expect, Op::Delete)?;
        self.check_drift(&options.drift, Op::Delete)?;
        kv.delete(scope, key, options).await
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        let kv = self.kv(Op::List)?;
        check_limit("limit", query.limit, MAX_PAGE)?;
        check_prefix(&query.prefix)?;
        if let Some(filter) = &query.filter {
            filter.check()?;
        }
        if let Some(cursor) = &query.cursor {
            cursor.key(scope, &query.prefix)?;
        }
        kv.list(scope, query).await
    }

    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        let kv = self.kv(Op::Increment)?;
        self.check_key(key)?;
        options.ttl.check()?;
        self.check_quota(options.quota, Op::Increment)?;
        self.check_drift(&options.drift, Op::Increment)?;
        kv.increment(scope, key, delta, options).await
    }

    async fn update(
        &self,
        scope: &Scope,
        key: &Key,
        reducer: Reducer,
        options: UpdateOptions,
    ) -> Result<UpdateOutcome> {
        let kv = self.kv(Op::Update)?;
        self.check_key(key)?;
        match &reducer {
            Reducer::BoundedList { limit, .. } if *limit == 0 || *limit > MAX_LIST_LIMIT => {
                return Err(Error::invalid(format!("a bounded list holds 1 to {MAX_LIST_LIMIT} items")));
            }
            Reducer::Merge(operand)
            | Reducer::AppendDedupe(operand)
            | Reducer::BoundedList { item: operand, .. } => self.check_value(operand)?,
        }
        options.ttl.check()?;
        self.check_quota(options.quota, Op::Update)?;
        self.check_drift(&options.drift, Op::Update)?;
        kv.update(scope, key, reducer, options).await
    }

    async fn bulk_insert(
        &self,
        scope: &Scope,
        items: Vec<NewEntry>,
        options: BulkOptions,
    ) -> Result<Vec<SetOutcome>> {
        let kv = self.kv(Op::BulkInsert)?;
        if items.len() > MAX_BULK_ITEMS {
            return Err(Error::too_large("bulk_insert", items.len(), MAX_BULK_ITEMS, "entries"));
        }
        self.check_quota(options.quota, Op::BulkInsert)?;
        self.check_drift(&options.drift, Op::BulkInsert)?;
        let mut bytes = 0_u64;
        for (index, item) in items.iter().enumerate() {
            self.check_set(&item.key, &item.value, &item.options, Op::BulkInsert)
                .map_err(|error| error.with_detail("index", index))?;
            let NewEntry { key, value, options } = item;
            bytes +=
                size_bytes(key, value, &options.metadata, options.source.as_ref(), options.text.as_deref());
        }
        if bytes > MAX_BULK_BYTES as u64 {
            let actual = usize::try_from(bytes).unwrap_or(usize::MAX);
            return Err(Error::too_large("bulk_insert", actual, MAX_BULK_BYTES, "bytes"));
        }
        if items.is_empty() {
            return Ok(Vec::new());
        }
        kv.bulk_insert(scope, items, options).await
    }

    async fn search(&self, scope: &Scope, mut query: SearchQuery) -> Result<SearchResults> {
        let kv = self.kv(Op::Search)?;
        self.check_search(&mut query)?;
        kv.search(scope, query).await
    }

    async fn stats(&self, scope: &Scope) -> Result<ScopeStats> {
        let kv = self.kv(Op::Stats)?;
        self.require(self.capabilities.stats, Op::Stats)?;
        kv.stats(scope).await
    }

    async fn reembed(&self, scope: &Scope, options: ReembedOptions) -> Result<ReembedOutcome> {
        let kv = self.kv(Op::Reembed)?;
        if !self.capabilities.vector_search {
            return Err(self.vector_unsupported(Op::Reembed));
        }
        check_limit("limit", options.limit, 10_000)?;
        kv.reembed(scope, options).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        let kv = self.kv(Op::Scopes)?;
        check_limit("limit", query.limit, MAX_PAGE)?;
        if let Some(cursor) = &query.cursor {
            cursor.scope(tenant)?;
        }
        kv.scopes(tenant, query).await
    }

    async fn drift_state(&self, scope: &Scope) -> Result<DriftState> {
        let kv = self.kv(Op::DriftState)?;
        self.require(!self.capabilities.drift.is_empty(), Op::DriftState)?;
        kv.drift_state(scope).await
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        self.kv(Op::DropScope)?.drop_scope(scope).await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        self.kv(Op::ExportScope)?.export_scope(scope).await
    }

    async fn import_scope(
        &self,
        scope: &Scope,
        records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome> {
        let kv = self.kv(Op::ImportScope)?;
        self.check_quota(options.quota, Op::ImportScope)?;
        if options.atomicity != Atomicity::Record && !self.capabilities.atomic_import {
            return Err(self.unsupported(Op::ImportScope).with_detail("option", "atomicity"));
        }
        if options.taken != Taken::New && !self.capabilities.erase {
            return Err(self.unsupported(Op::ImportScope).with_detail("option", "taken"));
        }
        let limits = RecordLimits {
            max_key_bytes: self.capabilities.max_key_bytes,
            max_value_bytes: self.capabilities.max_value_bytes,
        };
        kv.import_scope(scope, Box::pin(CheckedRecords { records, limits, seen: 0 }), options).await
    }
}

/// The greatest version that an import stores; any that a store can have given comes back as no more than this.
const MAX_IMPORTED_VERSION: u64 = 1 << 62;

#[derive(Clone, Copy)]
struct RecordLimits {
    max_key_bytes: usize,
    max_value_bytes: usize,
}

/// Validates records as they pass; the first bad one ends the stream with its position.
struct CheckedRecords {
    records: RecordStream,
    limits: RecordLimits,
    seen: u64,
}

impl futures_core::Stream for CheckedRecords {
    type Item = Result<crate::backend::Record>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let item = std::task::ready!(self.records.as_mut().poll_next(context));
        std::task::Poll::Ready(item.map(|record| {
            let index = self.seen;
            self.seen += 1;
            let mut record = record?;
            self.limits.check(&record).map_err(|error| error.with_detail("index", index))?;
            // Version counters of the target follow the record's; a version near their end would wedge them.
            record.entry.version = record.entry.version.min(MAX_IMPORTED_VERSION);
            Ok(record)
        }))
    }
}

/// Checks a record as an import through [`Checked`] does, for who reads records before anything is written.
///
/// # Errors
/// `invalid_argument`, `too_large`.
pub fn check_record(
    record: &crate::backend::Record,
    max_key_bytes: usize,
    max_value_bytes: usize,
) -> Result<()> {
    RecordLimits { max_key_bytes, max_value_bytes }.check(record)
}

impl RecordLimits {
    fn check(self, record: &crate::backend::Record) -> Result<()> {
        let entry = &record.entry;
        if entry.key.as_str().len() > self.max_key_bytes {
            return Err(Error::too_large("key", entry.key.as_str().len(), self.max_key_bytes, "bytes"));
        }
        if entry.value.len_bytes() > self.max_value_bytes {
            return Err(Error::too_large("value", entry.value.len_bytes(), self.max_value_bytes, "bytes"));
        }
        if let Some(text) = &entry.text
            && (text.len() > MAX_TEXT_BYTES || text.contains('\0'))
        {
            return Err(Error::invalid("a record's text is over 1 MiB or has a NUL character"));
        }
        if entry.version == 0 || i64::try_from(entry.version).is_err() {
            return Err(Error::invalid("a record's version is 0 or beyond 2^63 - 1"));
        }
        if entry.updated_at < entry.created_at {
            return Err(Error::invalid("a record was updated before it was created"));
        }
        check_vectors(&record.vectors)?;
        entry.metadata.check()
    }
}

/// Whoever wrote the record is to blame, not an embedder that could be asked again.
fn check_vectors(vectors: &[RecordVector]) -> Result<()> {
    if vectors.len() > MAX_RECORD_VECTORS {
        return Err(Error::invalid(format!("a record has more than {MAX_RECORD_VECTORS} vectors")));
    }
    for (at, RecordVector { model, vector, text }) in vectors.iter().enumerate() {
        let is_name =
            |name: &str| (1..=MAX_MODEL_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control);
        if !is_name(&model.provider) || !is_name(&model.model) {
            return Err(Error::invalid(format!(
                "a record's vector names its provider and model by 1 to {MAX_MODEL_NAME_BYTES} bytes each, without \
                 control characters"
            )));
        }
        if vector.len() > MAX_DIMENSIONS {
            return Err(Error::invalid(format!("a record's vector is longer than {MAX_DIMENSIONS} numbers")));
        }
        crate::embed::check_embeddings(model, 1, std::slice::from_ref(vector)).map_err(|error| {
            Error::invalid("a record's vector is zero, is not finite, or is not as long as its model says")
                .with_source(error)
        })?;
        if text.as_ref().is_some_and(|text| text.len() > MAX_TEXT_BYTES || text.contains('\0')) {
            return Err(Error::invalid("the text of a record's vector is over 1 MiB or has a NUL character"));
        }
        if vectors.iter().take(at).any(|other| other.model == *model) {
            return Err(Error::invalid("a record has two vectors of one model; keep the one of its text"));
        }
    }
    Ok(())
}

#[async_trait]
impl<P: Provider> MemoryLayer for Checked<P> {
    async fn add(
        &self,
        run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome> {
        let layer = self.checked_layer(Op::Add, run, scope)?;
        if !options.infer && !self.capabilities.layer_verbatim {
            return Err(self.unsupported(Op::Add).with_detail("option", "infer"));
        }
        if !options.metadata.is_empty() && !self.capabilities.layer_metadata {
            return Err(self.unsupported(Op::Add).with_detail("option", "metadata"));
        }
        check_messages(messages)?;
        options.metadata.check()?;
        layer.add(run, scope, messages, options).await
    }

    async fn recall(&self, run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        let layer = self.checked_layer(Op::Recall, run, scope)?;
        if query.text.len() > MAX_QUERY_BYTES {
            return Err(Error::too_large("query", query.text.len(), MAX_QUERY_BYTES, "bytes"));
        }
        if query.text.trim().is_empty() {
            return Err(Error::invalid("the query is blank; say what to recall, or use `facts`"));
        }
        if query.text.contains('\0') {
            return Err(Error::invalid("the query has a NUL character; remove it"));
        }
        check_limit("top_k", query.top_k, self.capabilities.max_top_k)?;
        if let Some(threshold) = query.threshold
            && !(0.0..=1.0).contains(&threshold)
        {
            return Err(Error::invalid("threshold must be 0 to 1, as scores are"));
        }
        layer.recall(run, scope, query).await
    }

    async fn event(&self, run: &RunContext, scope: &Scope, id: &EventId) -> Result<EventStatus> {
        let layer = self.checked_layer(Op::Event, run, scope)?;
        self.require(self.capabilities.layer_events, Op::Event)?;
        layer.event(run, scope, id).await
    }

    async fn forget(&self, run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        let layer = self.checked_layer(Op::Forget, run, scope)?;
        self.require(self.capabilities.layer_forget, Op::Forget)?;
        if let Forget::Ids(ids) = &what {
            check_limit("ids", ids.len(), MAX_PAGE)?;
            let distinct: BTreeSet<_> = ids.iter().collect();
            if distinct.len() != ids.len() {
                return Err(Error::invalid("an id is named twice"));
            }
        }
        layer.forget(run, scope, what).await
    }

    async fn facts(&self, run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage> {
        let layer = self.checked_layer(Op::Facts, run, scope)?;
        check_limit("limit", query.limit, MAX_PAGE)?;
        if let Some(cursor) = &query.cursor
            && (cursor.is_empty() || cursor.len() > MAX_FACTS_CURSOR_BYTES)
        {
            return Err(Error::invalid(
                "the cursor is not one that this listing returned; start again without a cursor",
            ));
        }
        layer.facts(run, scope, query).await
    }
}

#[async_trait]
impl<P: Provider> SqlFacet for Checked<P> {
    async fn exec(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome> {
        let facet = self.checked_sql(Op::Exec)?;
        check_tenant(run, scope)?;
        self.check_sql_call(Op::Exec, sql, args, &options)?;
        facet.exec(run, scope, sql, args, options).await
    }

    async fn query(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows> {
        let facet = self.checked_sql(Op::Query)?;
        check_tenant(run, scope)?;
        self.check_sql_call(Op::Query, sql, args, &options)?;
        facet.query(run, scope, sql, args, options).await
    }

    async fn begin(&self, run: &RunContext, scope: &Scope, parent: Option<&TxId>) -> Result<TxState> {
        self.transactions(Op::Begin, run, scope)?.begin(run, scope, parent).await
    }

    async fn commit(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        self.transactions(Op::Commit, run, scope)?.commit(run, scope, tx).await
    }

    async fn rollback(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        self.transactions(Op::Rollback, run, scope)?.rollback(run, scope, tx).await
    }

    async fn describe_tables(&self, run: &RunContext, scope: &Scope) -> Result<Vec<TableInfo>> {
        let facet = self.checked_sql(Op::DescribeTables)?;
        check_tenant(run, scope)?;
        facet.describe_tables(run, scope).await
    }

    async fn sql_scopes(&self, tenant: &TenantId, query: SqlScopesQuery) -> Result<SqlScopePage> {
        let facet = self.checked_sql(Op::SqlScopes)?;
        check_limit("limit", query.limit, MAX_PAGE)?;
        if let Some(cursor) = &query.cursor {
            cursor.scope(tenant)?;
        }
        facet.sql_scopes(tenant, query).await
    }

    async fn drop_sql_scope(&self, scope: &Scope) -> Result<bool> {
        self.checked_sql(Op::DropSqlScope)?.drop_sql_scope(scope).await
    }

    async fn sql_usage(&self, scope: &Scope) -> Result<SqlUsage> {
        self.checked_sql(Op::SqlUsage)?.sql_usage(scope).await
    }

    async fn dump(&self, scope: &Scope) -> Result<DumpStream> {
        self.checked_sql(Op::Dump)?.dump(scope).await
    }

    async fn restore(
        &self,
        scope: &Scope,
        dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome> {
        let facet = self.checked_sql(Op::Restore)?;
        if options.taken_at.is_some() {
            self.require(self.capabilities.erase, Op::Restore)?;
        }
        facet.restore(scope, dump, options).await
    }
}

impl<P: Provider> Checked<P> {
    fn check_sql_call(&self, op: Op, sql: &str, args: &[SqlValue], options: &StatementOptions) -> Result<()> {
        check_statement(sql, args, options)?;
        if options.tx.is_some() {
            self.require(self.capabilities.sql_transactions, op)?;
        }
        if args.iter().any(|arg| matches!(arg, SqlValue::Embed(_))) && !self.capabilities.sql_vectors {
            return Err(self.vector_unsupported(op));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorKind, Retry};

    #[test]
    fn a_record_with_a_bad_vector_is_the_writers_fault_and_not_worth_a_retry() {
        let limits = RecordLimits { max_key_bytes: 1_024, max_value_bytes: 1_024 };
        for vector in ["[1e39,1]", "[0,0]", "[1]"] {
            let record: crate::backend::Record = serde_json::from_str(&format!(
                r#"{{"entry":{{"key":"k","value":1,"version":1,"created_at":0,"updated_at":0}},
                    "vectors":[{{"model":{{"provider":"p","model":"m","dimensions":2}},"vector":{vector}}}]}}"#
            ))
            .unwrap();
            let error = limits.check(&record).unwrap_err();
            assert_eq!((error.kind(), error.retry()), (ErrorKind::InvalidArgument, Retry::Never), "{vector}");
            assert!(error.message().contains("record"), "{error}");
        }
    }
}
