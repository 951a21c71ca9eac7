//! Shorthands for several areas.

use std::fmt::Debug;

use memory_core::{
    BackendExt as _, BulkOptions, Entry, Error, ErrorKind, Filter, GetOptions, ImportOptions, ImportOutcome,
    ListQuery, Metadata, NewEntry, OnExisting, Quota, Record, Reducer, Result, Scope, SetOptions, SetOutcome,
    TenantId, UpdateOptions, UpdateOutcome,
};
use serde_json::Value;

use crate::check::{CaseResult, Stop, error_of_kind};
use crate::cx::{Cx, json, key};
use crate::stream;

impl Cx {
    /// Another tenant of this case, derived from the case's tenant.
    pub(crate) fn tenant_below(&self, suffix: &str) -> Result<TenantId> {
        TenantId::new(format!("{}{suffix}", self.tenant()))
    }

    /// Sets each key to its JSON text.
    pub(crate) async fn fill(&self, scope: &Scope, entries: &[(&str, &str)]) -> Result<()> {
        for (key, json) in entries {
            self.set(scope, key, json).await?;
        }
        Ok(())
    }

    /// Stores each sentence under its key.
    pub(crate) async fn say_all(&self, scope: &Scope, sentences: &[(&str, &str)]) -> Result<()> {
        let items = sentences
            .iter()
            .map(|(name, sentence)| Ok(NewEntry::new(key(name)?, memory_core::Json::string(sentence))))
            .collect::<Result<_>>()?;
        self.bulk(scope, items).await.map(drop)
    }

    /// The entry of a key that must exist; the read does not count.
    pub(crate) async fn live(&self, scope: &Scope, key: &str) -> Result<Entry> {
        self.entry(scope, key).await?.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("no entry came back for `{}`", key.escape_debug()))
        })
    }

    /// Reads a key and counts the access.
    pub(crate) async fn access(&self, scope: &Scope, name: &str) -> Result<Option<Entry>> {
        self.kv().get(scope, &key(name)?, GetOptions::default()).await
    }

    /// The texts of several keys in one uncounted read.
    pub(crate) async fn texts(&self, scope: &Scope, names: &[&str]) -> Result<Vec<Option<String>>> {
        let keys = names.iter().map(|name| key(name)).collect::<Result<Vec<_>>>()?;
        let entries = self.kv().get_many(scope, &keys, GetOptions::uncounted()).await?;
        Ok(entries.into_iter().map(|entry| entry.map(|entry| entry.value.as_str().to_owned())).collect())
    }

    /// Every key of a scope, in listing order.
    pub(crate) async fn all_keys(&self, scope: &Scope) -> Result<Vec<String>> {
        let entries = self.kv().list_all(scope, "").await?;
        Ok(entries.into_iter().map(|entry| entry.key.as_str().to_owned()).collect())
    }

    /// The keys of each page, from the query's cursor to the end.
    pub(crate) async fn pages(&self, scope: &Scope, mut query: ListQuery) -> Result<Vec<Vec<String>>> {
        const TOO_MANY: usize = 5_000;
        let mut pages = Vec::new();
        while pages.len() < TOO_MANY {
            let page = self.kv().list(scope, query.clone()).await?;
            pages.push(page.entries.into_iter().map(|entry| entry.key.as_str().to_owned()).collect());
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(pages),
            }
        }
        Err(Error::internal("the listing never ends"))
    }

    /// Applies a reducer with default options.
    pub(crate) async fn update(&self, scope: &Scope, name: &str, reducer: Reducer) -> Result<UpdateOutcome> {
        self.kv().update(scope, &key(name)?, reducer, UpdateOptions::default()).await
    }

    /// Merges a JSON text with default options and returns the stored text.
    pub(crate) async fn merge(&self, scope: &Scope, name: &str, patch: &str) -> Result<String> {
        let outcome = self.update(scope, name, Reducer::Merge(json(patch)?)).await?;
        Ok(outcome.value.as_str().to_owned())
    }

    /// Inserts items with default options.
    pub(crate) async fn bulk(&self, scope: &Scope, items: Vec<NewEntry>) -> Result<Vec<SetOutcome>> {
        self.kv().bulk_insert(scope, items, BulkOptions::default()).await
    }

    /// Every record of a scope.
    pub(crate) async fn export(&self, scope: &Scope) -> Result<Vec<Record>> {
        stream::collect(self.kv().export_scope(scope).await?).await
    }

    /// Imports records.
    pub(crate) async fn import(
        &self,
        scope: &Scope,
        records: Vec<Record>,
        on_existing: OnExisting,
    ) -> Result<ImportOutcome> {
        let options = ImportOptions::default().with_on_existing(on_existing);
        let records = records.into_iter().map(Ok).collect();
        self.kv().import_scope(scope, stream::records(records), options).await
    }
}

/// An item of a bulk insert with default options.
pub(crate) fn item(name: &str, text: &str) -> Result<NewEntry> {
    Ok(NewEntry::new(key(name)?, json(text)?))
}

/// An item of a bulk insert.
pub(crate) fn item_with(name: &str, text: &str, options: SetOptions) -> Result<NewEntry> {
    Ok(NewEntry { options, ..item(name, text)? })
}

/// The filter of that JSON text.
pub(crate) fn filter(text: &str) -> Result<Filter> {
    serde_json::from_str(text)
        .map_err(|error| Error::invalid(format!("the suite's filter `{text}` is invalid: {error}")))
}

/// The metadata of that JSON text.
pub(crate) fn metadata(text: &str) -> Result<Metadata> {
    serde_json::from_str(text)
        .map_err(|error| Error::invalid(format!("the suite's metadata `{text}` is invalid: {error}")))
}

/// A quota of entries.
pub(crate) const fn entries(max: u64) -> Quota {
    Quota { max_entries: Some(max), max_bytes: None }
}

/// A quota of bytes.
pub(crate) const fn bytes(max: u64) -> Quota {
    Quota { max_entries: None, max_bytes: Some(max) }
}

/// A JSON string of exactly this many bytes, quotes included.
pub(crate) fn string_of(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes.saturating_sub(2)))
}

/// A number among an error's details.
pub(crate) fn detail(error: &Error, name: &str) -> Option<u64> {
    error.details().get(name).and_then(Value::as_u64)
}

/// Fails unless the result is a conflict that names this as the current version (`None`: null).
#[track_caller]
pub(crate) fn expect_conflict<T: Debug>(result: Result<T>, live: Option<u64>, what: &str) -> CaseResult {
    let error = error_of_kind(result, ErrorKind::Conflict, format_args!("{what}"))?;
    let named = error.details().get("current_version");
    if named == Some(&Value::from(live)) {
        return Ok(());
    }
    Err(Stop::failed(format_args!(
        "{what}: the conflict's details.current_version is {named:?}, expected {live:?}"
    )))
}
