//! Options and results of reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::embed::EmbeddingModel;
use crate::entry::Entry;
use crate::error::Result;
use crate::filter::Filter;
use crate::limits::{DEFAULT_PAGE, MAX_PAGE_BYTES};
use crate::scope::{Scope, ScopeKind, TenantId, successor};

/// Options of [`Backend::get`](super::Backend::get) and [`Backend::get_many`](super::Backend::get_many).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
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

/// The query of [`Backend::list`](super::Backend::list).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ListQuery {
    /// Only keys that begin with exactly these bytes; empty: all.
    pub prefix: String,
    /// Only entries that match.
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
}

impl ListQuery {
    /// The least key that the page can hold, where a backend starts reading.
    ///
    /// # Errors
    /// `invalid_argument` for a cursor of another scope or prefix.
    pub fn start(&self, scope: &Scope) -> Result<String> {
        let after = self.cursor.as_ref().map(|cursor| cursor.key(scope, &self.prefix)).transpose()?;
        Ok(after.map_or_else(|| self.prefix.clone(), |key| successor(key.as_str())))
    }

    crate::setters! {
        with_filter(filter: Filter => Some(filter));
        with_cursor(cursor: Option<Cursor>);
        with_limit(limit: usize);
    }
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Page {
    /// Entries in byte order of their keys.
    pub entries: Vec<Entry>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<Cursor>,
}

impl Page {
    /// A page.
    #[must_use]
    pub fn new(entries: Vec<Entry>, next: Option<Cursor>) -> Self {
        Self { entries, next }
    }

    /// The page of a query, from the scope's live entries in key order, starting at [`ListQuery::start`]. Takes no more
    /// entries than the page needs.
    ///
    /// # Errors
    /// The first of `entries`.
    pub fn of(
        scope: &Scope,
        query: &ListQuery,
        entries: impl IntoIterator<Item = Result<Entry>>,
    ) -> Result<Self> {
        let (mut page, mut bytes) = (Self::new(Vec::new(), None), 0_u64);
        for entry in entries {
            let entry = entry?;
            if !entry.key.as_str().starts_with(&query.prefix) {
                break;
            }
            if query.filter.as_ref().is_some_and(|filter| !filter.matches(&entry)) {
                continue;
            }
            if page.entries.len() >= query.limit || bytes >= MAX_PAGE_BYTES as u64 {
                let last = page.entries.last();
                page.next = last.map(|last| Cursor::after_key(scope, &query.prefix, &last.key));
                break;
            }
            bytes += entry.size_bytes();
            page.entries.push(entry);
        }
        Ok(page)
    }
}

/// Rows of one embedding model in a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ModelStats {
    /// The model.
    pub model: EmbeddingModel,
    /// Vectors of live entries.
    pub rows: u64,
    /// Their stored bytes.
    pub bytes: u64,
    /// Of the missing, those that have a vector of another model; 0 unless this is the current model.
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

/// The result of [`Backend::stats`](super::Backend::stats).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ScopeStats {
    /// Live entries.
    pub entries: u64,
    /// Their bytes, as counted by [`Entry::size_bytes`].
    pub bytes: u64,
    /// Live entries with an expiry.
    pub expiring: u64,
    /// Per embedding model, in order of the model.
    pub models: Vec<ModelStats>,
}

/// The query of [`Backend::scopes`](super::Backend::scopes).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ScopesQuery {
    /// Only scopes of this kind.
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
    crate::setters! {
        with_kind(kind: ScopeKind => Some(kind));
        with_cursor(cursor: Option<Cursor>);
        with_limit(limit: usize);
    }
}

/// A scope that holds at least one live entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ScopeInfo {
    /// The scope.
    pub scope: Scope,
    /// Live entries.
    pub entries: u64,
    /// Their bytes, as counted by [`Entry::size_bytes`].
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ScopePage {
    /// Ordered by kind (agent, user, run), then by the bytes of the id.
    pub scopes: Vec<ScopeInfo>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<Cursor>,
}

impl ScopePage {
    /// A page.
    #[must_use]
    pub fn new(scopes: Vec<ScopeInfo>, next: Option<Cursor>) -> Self {
        Self { scopes, next }
    }

    /// The page of a query, from every live entry of the tenant in any order: its scope and [`Entry::size_bytes`].
    ///
    /// # Errors
    /// `invalid_argument` for a cursor of another tenant; the first error in `entries`.
    pub fn of(
        tenant: &TenantId,
        query: &ScopesQuery,
        entries: impl IntoIterator<Item = Result<(Scope, u64)>>,
    ) -> Result<Self> {
        let after = query.cursor.as_ref().map(|cursor| cursor.scope(tenant)).transpose()?;
        let after = after.map(|(kind, id)| Scope::new(tenant.clone(), kind, id));
        let mut sizes = BTreeMap::<Scope, (u64, u64)>::new();
        for entry in entries {
            let (scope, bytes) = entry?;
            let of_page = query.kind.is_none_or(|kind| kind == scope.kind)
                && after.as_ref().is_none_or(|after| scope > *after);
            if of_page {
                let size = sizes.entry(scope).or_default();
                *size = (size.0 + 1, size.1 + bytes);
            }
        }
        let more = sizes.len() > query.limit;
        let infos = sizes.into_iter().map(|(scope, (entries, bytes))| ScopeInfo::new(scope, entries, bytes));
        let scopes: Vec<ScopeInfo> = infos.take(query.limit).collect();
        let last = scopes.last().filter(|_| more).map(|last| &last.scope);
        let next = last.map(|scope| Cursor::after_scope(tenant, scope.kind, &scope.id));
        Ok(Self { scopes, next })
    }
}
