//! [`Backend`]: keys, values, options and queries.

use std::collections::HashSet;

use async_trait::async_trait;
use serde_json::Value;

use super::Checked;
use super::arguments::{check_limit, check_prefix, check_scopes_page, check_threshold};
use super::records::{CheckedRecords, RecordLimits};
use crate::backend::{
    Atomicity, Backend, BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, Embed, GetOptions,
    ImportOptions, ImportOutcome, IncrementOutcome, ListQuery, NewEntry, Page, RecordStream, ReembedOptions,
    ReembedOutcome, ScopePage, ScopeStats, ScopesQuery, SearchMode, SearchQuery, SearchResults, SetOptions,
    SetOutcome, UpdateOptions, UpdateOutcome,
};
use crate::capabilities::Capabilities;
use crate::entry::{Entry, Expect, Quota, size_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::interposed::Op;
use crate::json::Json;
use crate::lifecycle::drift::{DriftCheck, DriftPolicy, DriftState};
use crate::lifecycle::erase::Taken;
use crate::limits::{
    MAX_BULK_BYTES, MAX_BULK_ITEMS, MAX_GET_MANY, MAX_PAGE, MAX_QUERY_BYTES, MAX_TEXT_BYTES,
};
use crate::provider::Provider;
use crate::reduce::{MAX_LIST_LIMIT, Reducer};
use crate::scope::{Key, Scope, TenantId};

/// Checks an entry's key, value, metadata, text and lifetime as a write through [`Checked`] does, for callers that ask
/// what it would do.
///
/// # Errors
/// `invalid_argument`, `too_large`.
pub fn check_entry(key: &Key, value: &Json, options: &SetOptions, capabilities: &Capabilities) -> Result<()> {
    check_key(key, capabilities)?;
    check_value(value, capabilities)?;
    options.metadata.check()?;
    if let Some(text) = &options.text {
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::too_large("search text", text.len(), MAX_TEXT_BYTES, "bytes"));
        }
        if text.contains('\0') {
            return Err(Error::invalid("the search text has a NUL character; remove it"));
        }
    }
    options.ttl.check()
}

fn check_key(key: &Key, capabilities: &Capabilities) -> Result<()> {
    let most = capabilities.max_key_bytes;
    if key.as_str().len() > most {
        return Err(Error::too_large("key", key.as_str().len(), most, "bytes"));
    }
    Ok(())
}

fn check_value(value: &Json, capabilities: &Capabilities) -> Result<()> {
    let most = capabilities.max_value_bytes;
    if value.len_bytes() > most {
        return Err(Error::too_large("value", value.len_bytes(), most, "bytes"));
    }
    Ok(())
}

impl<P: Provider> Checked<P> {
    fn kv(&self, op: Op) -> Result<&dyn Backend> {
        self.inner.backend().filter(|_| self.capabilities.kv).ok_or_else(|| self.unsupported(op))
    }

    pub(super) fn check_key(&self, key: &Key) -> Result<()> {
        check_key(key, &self.capabilities)
    }

    fn check_expect(&self, expect: Expect, op: Op) -> Result<()> {
        if expect != Expect::Any && !self.capabilities.compare_and_set {
            return Err(self.unsupported_option(op, "expect"));
        }
        Ok(())
    }

    fn check_quota(&self, quota: Quota, op: Op) -> Result<()> {
        if !quota.is_unlimited() && !self.capabilities.quotas {
            return Err(self.unsupported_option(op, "quota"));
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
        if fits { Ok(()) } else { Err(self.unsupported_option(op, "drift")) }
    }

    fn check_set(&self, key: &Key, value: &Json, options: &SetOptions, op: Op) -> Result<()> {
        check_entry(key, value, options, &self.capabilities)?;
        self.check_expect(options.expect, op)?;
        self.check_quota(options.quota, op)?;
        self.check_drift(&options.drift, op)?;
        if options.embed == Embed::Always && !self.capabilities.vector_search {
            return Err(self.vector_unsupported(op));
        }
        Ok(())
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
        check_threshold(query.threshold)?;
        query.rank.check()?;
        query.dedup.as_ref().map_or(Ok(()), crate::rank::Dedup::check)
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
            | Reducer::BoundedList { item: operand, .. } => check_value(operand, &self.capabilities)?,
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
        if matches!(options.drift, DriftCheck::Row(_)) {
            return Err(Error::invalid(
                "a bulk insert compares only the scope's token; pass what was seen of an entry with its item",
            ));
        }
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
        let seeing: Vec<bool> = {
            let mut earlier = HashSet::with_capacity(items.len());
            let sees =
                items.iter().map(|item| !earlier.insert(&item.key) && item.options.expect != Expect::Any);
            sees.collect()
        };
        kv.bulk_insert(scope, items, options).await.map_err(|error| {
            let index = error.details().get("index").and_then(Value::as_u64);
            match index.and_then(|index| seeing.get(usize::try_from(index).ok()?)) {
                // The version that the earlier item would have got was never stored, so it is useless to the caller.
                Some(true) if error.kind() == ErrorKind::Conflict => Error::new(
                    ErrorKind::Conflict,
                    "the precondition does not hold after an earlier item with the same key; nothing was \
                     written: give each key once, or leave the precondition out",
                )
                .with_detail("index", index)
                .with_source(error),
                _ => error,
            }
        })
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
        check_prefix(&options.except)?;
        kv.reembed(scope, options).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        let kv = self.kv(Op::Scopes)?;
        check_scopes_page(tenant, query.limit, query.cursor.as_ref())?;
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
            return Err(self.unsupported_option(Op::ImportScope, "atomicity"));
        }
        if options.taken != Taken::New && !self.capabilities.erase {
            return Err(self.unsupported_option(Op::ImportScope, "taken"));
        }
        let limits = RecordLimits {
            max_key_bytes: self.capabilities.max_key_bytes,
            max_value_bytes: self.capabilities.max_value_bytes,
        };
        kv.import_scope(scope, Box::pin(CheckedRecords::new(records, limits)), options).await
    }
}
