//! Walks through every durable scope of a store, in order, page by page.

use std::collections::VecDeque;
use std::sync::Arc;

use memory_core::limits::MAX_PAGE;
use memory_core::sql::SqlScopesQuery;
use memory_core::{Cursor, Provider, ReadSnapshot, Result, Scope, ScopesQuery, TenantId};

/// A scope that is not empty.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) scope: Scope,
    /// Bytes of its entries; `None` if it has none.
    pub(super) entries: Option<u64>,
    /// Bytes of its database; `None` if it has none.
    pub(super) sql: Option<u64>,
}

/// Which facets of a scope are not empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) entries: bool,
    pub(crate) database: bool,
}

impl Holding {
    /// The current state in a store.
    pub(crate) async fn of(provider: &dyn Provider, scope: &Scope) -> Result<Self> {
        let found = Walk::new(provider, None, Some(scope)).next().await?;
        Ok(found.map_or_else(Self::default, |found| Self {
            entries: found.entries.is_some(),
            database: found.sql.is_some(),
        }))
    }
}

/// The scopes of one facet of one tenant.
#[derive(Debug, Default)]
struct Side {
    page: VecDeque<(Scope, u64)>,
    cursor: Option<Cursor>,
    ended: bool,
}

/// Walks through a store.
pub(super) struct Walk<'a> {
    provider: &'a dyn Provider,
    /// The snapshot that entries are read from.
    as_of: Option<Arc<dyn ReadSnapshot>>,
    /// The only tenant to list.
    only_tenant: Option<TenantId>,
    only_scope: Option<Scope>,
    /// Whether the only scope has been checked.
    has_looked: bool,
    tenants: VecDeque<TenantId>,
    last_tenant: Option<TenantId>,
    no_more_tenants: bool,
    tenant: Option<TenantId>,
    entries: Side,
    sql: Side,
}

impl<'a> Walk<'a> {
    pub(super) fn new(provider: &'a dyn Provider, tenant: Option<&TenantId>, scope: Option<&Scope>) -> Self {
        Self {
            provider,
            as_of: None,
            only_tenant: scope.map(|scope| &scope.tenant).or(tenant).cloned(),
            only_scope: scope.cloned(),
            has_looked: false,
            tenants: VecDeque::new(),
            last_tenant: None,
            no_more_tenants: false,
            tenant: None,
            entries: Side::default(),
            sql: Side::default(),
        }
    }

    /// Walks through the entries of this snapshot.
    pub(super) fn at(mut self, as_of: Option<Arc<dyn ReadSnapshot>>) -> Self {
        self.as_of = as_of;
        self
    }

    /// The next scope, by tenant, kind and id.
    pub(super) async fn next(&mut self) -> Result<Option<Found>> {
        let Some(only) = self.only_scope.clone() else { return self.any().await };
        if std::mem::replace(&mut self.has_looked, true) {
            return Ok(None);
        }
        if let Some(found) = self.alone(&only).await? {
            return Ok(Some(found));
        }
        loop {
            match self.any().await? {
                Some(found) if found.scope < only => {}
                found => return Ok(found.filter(|found| found.scope == only)),
            }
        }
    }

    /// A single scope. Its entries are counted now instead of listed; if it has none now, it may have had some in the
    /// snapshot.
    async fn alone(&self, scope: &Scope) -> Result<Option<Found>> {
        let counts = self.provider.capabilities().stats && scope.kind.is_durable();
        let Some(backend) = self.provider.backend().filter(|_| counts) else { return Ok(None) };
        let stats = backend.stats(scope).await?;
        if stats.entries == 0 {
            return Ok(None);
        }
        let sql = match self.provider.sql() {
            Some(sql) => Some(sql.sql_usage(scope).await?.bytes).filter(|bytes| *bytes > 0),
            None => None,
        };
        Ok(Some(Found { scope: scope.clone(), entries: Some(stats.bytes), sql }))
    }

    async fn any(&mut self) -> Result<Option<Found>> {
        loop {
            if let Some(tenant) = self.tenant.clone() {
                self.fill_entries(&tenant).await?;
                self.fill_sql(&tenant).await?;
                if let Some(found) = self.least() {
                    return Ok(Some(found));
                }
            }
            let Some(tenant) = self.next_tenant().await? else { return Ok(None) };
            self.tenant = Some(tenant);
            (self.entries, self.sql) = (Side::default(), Side::default());
            self.entries.ended = self.provider.backend().is_none();
            self.sql.ended = self.provider.sql().is_none();
        }
    }

    async fn next_tenant(&mut self) -> Result<Option<TenantId>> {
        if let Some(only) = self.only_tenant.clone() {
            return Ok((self.tenant.is_none()).then_some(only));
        }
        if self.tenants.is_empty() && !self.no_more_tenants {
            let mut page = self.provider.tenants(self.last_tenant.as_ref(), MAX_PAGE).await?;
            self.no_more_tenants = page.len() < MAX_PAGE;
            if let Some(as_of) = &self.as_of {
                // By now some may be empty, and some have only databases.
                let then = as_of.tenants(self.last_tenant.as_ref(), MAX_PAGE).await?;
                self.no_more_tenants &= then.len() < MAX_PAGE;
                page.extend(then);
                page.sort();
                page.dedup();
                self.no_more_tenants &= page.len() <= MAX_PAGE;
                page.truncate(MAX_PAGE);
            }
            self.last_tenant = page.last().cloned().or_else(|| self.last_tenant.take());
            self.tenants = page.into();
        }
        Ok(self.tenants.pop_front())
    }

    /// Kinds come in order; runs, which are not durable, come last.
    async fn fill_entries(&mut self, tenant: &TenantId) -> Result<()> {
        let Some(backend) = self.provider.backend() else { return Ok(()) };
        while self.entries.page.is_empty() && !self.entries.ended {
            let query = ScopesQuery::default().with_limit(MAX_PAGE).with_cursor(self.entries.cursor.take());
            let page = match &self.as_of {
                Some(as_of) => as_of.scopes(tenant, query).await?,
                None => backend.scopes(tenant, query).await?,
            };
            let scopes = page.scopes.into_iter().map(|info| (info.scope, info.bytes));
            self.entries.take(scopes, page.next);
        }
        Ok(())
    }

    async fn fill_sql(&mut self, tenant: &TenantId) -> Result<()> {
        let Some(sql) = self.provider.sql() else { return Ok(()) };
        while self.sql.page.is_empty() && !self.sql.ended {
            let mut query = SqlScopesQuery::default();
            (query.limit, query.cursor) = (MAX_PAGE, self.sql.cursor.take());
            let page = sql.sql_scopes(tenant, query).await?;
            let scopes = page.scopes.into_iter().map(|(scope, usage)| (scope, usage.bytes));
            self.sql.take(scopes, page.next);
        }
        Ok(())
    }

    /// The next scope of either side, merged if both have it.
    fn least(&mut self) -> Option<Found> {
        let next = |side: &Side| side.page.front().map(|(scope, _)| scope.clone());
        let scope = match (next(&self.entries), next(&self.sql)) {
            (Some(one), Some(other)) => one.min(other),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return None,
        };
        let entries = self.entries.pop(&scope);
        let sql = self.sql.pop(&scope);
        Some(Found { scope, entries, sql })
    }
}

impl Side {
    fn take(&mut self, scopes: impl Iterator<Item = (Scope, u64)>, next: Option<Cursor>) {
        let mut met_a_run = false;
        for (scope, bytes) in scopes {
            if scope.kind.is_durable() {
                self.page.push_back((scope, bytes));
            } else {
                met_a_run = true;
                break;
            }
        }
        self.ended = met_a_run || next.is_none();
        self.cursor = next;
    }

    fn pop(&mut self, scope: &Scope) -> Option<u64> {
        if self.page.front().is_some_and(|(next, _)| next == scope) {
            return self.page.pop_front().map(|(_, bytes)| bytes);
        }
        None
    }
}
