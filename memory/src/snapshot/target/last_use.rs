//! Whether a source's copy of a scope predates the target's forgetting it.

use std::collections::VecDeque;

use memory_core::limits::MAX_PAGE;
use memory_core::{Cursor, Provider, Result, Scope, ScopeUse, ScopeUsesQuery, TenantId, Timestamp};

use super::tombstones::ScopeTombstones;
use crate::stream::next;

/// The last uses of a source's scopes, read in the order of the walk, as far as needed.
pub(in crate::snapshot) struct Ages<'a> {
    from: &'a dyn Provider,
    tenant: Option<TenantId>,
    page: VecDeque<ScopeUse>,
    cursor: Option<Cursor>,
    is_last: bool,
}

impl<'a> Ages<'a> {
    pub(in crate::snapshot) fn new(from: &'a dyn Provider) -> Self {
        Self { from, tenant: None, page: VecDeque::new(), cursor: None, is_last: false }
    }

    /// Whether the source's copy of a scope predates the time at which the target forgot the scope. A database does not
    /// record when it was written, and a tombstone in the source does not prove that the source erased the scope, since
    /// migrations carry tombstones along. But a store that did erase it has no use and no entry from before that time.
    pub(in crate::snapshot) async fn is_before(
        &mut self,
        scope: &Scope,
        forgotten: Timestamp,
    ) -> Result<bool> {
        if ScopeTombstones::of(self.from, scope).await?.whole < Some(forgotten) {
            return Ok(true);
        }
        if self.last_use(scope).await?.is_some_and(|last| last <= forgotten) {
            return Ok(true);
        }
        let Some(backend) = self.from.backend() else { return Ok(false) };
        let mut records = backend.export_scope(scope).await?;
        while let Some(record) = next(&mut records).await {
            if record?.entry.updated_at <= forgotten {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `None` if the source does not say.
    async fn last_use(&mut self, scope: &Scope) -> Result<Option<Timestamp>> {
        if !self.from.capabilities().eviction {
            return Ok(None);
        }
        if self.tenant.as_ref() != Some(&scope.tenant) {
            *self = Self { tenant: Some(scope.tenant.clone()), ..Self::new(self.from) };
        }
        loop {
            while let Some(found) = self.page.front() {
                if found.scope >= *scope {
                    return Ok((found.scope == *scope).then_some(found.last_used_at));
                }
                self.page.pop_front();
            }
            if self.is_last {
                return Ok(None);
            }
            let query = ScopeUsesQuery::default().with_limit(MAX_PAGE).with_cursor(self.cursor.take());
            let page = self.from.scope_uses(&scope.tenant, query).await?;
            self.is_last = page.next.is_none();
            (self.cursor, self.page) = (page.next, page.scopes.into());
        }
    }
}
