//! Scopes that exist in the target of a migration but not in its source.

use memory_core::{ListQuery, Provider, Result, Scope, TenantId};

use super::super::control::Control;
use super::super::scopes::{Found, Walk};
use super::apply::database;

/// The migrated facets in which only the target has content.
#[derive(Clone, Copy, Debug, Default)]
struct Holds {
    entries: bool,
    sql: bool,
}

/// Walks through both stores side by side.
pub(in crate::snapshot) struct OnlyInTarget<'a> {
    from: &'a dyn Provider,
    to: &'a dyn Provider,
    source: Walk<'a>,
    target: Walk<'a>,
    /// The source's first scope that is not before the target's.
    ahead: Option<Scope>,
    source_ended: bool,
    control: &'a Control,
}

impl<'a> OnlyInTarget<'a> {
    /// Whether the target can list its scopes.
    pub(in crate::snapshot) fn can_be_told(
        to: &dyn Provider,
        tenant: Option<&TenantId>,
        scope: Option<&Scope>,
    ) -> bool {
        to.capabilities().tenants || tenant.is_some() || scope.is_some()
    }

    pub(in crate::snapshot) fn new(
        (from, to): (&'a dyn Provider, &'a dyn Provider),
        tenant: Option<&TenantId>,
        scope: Option<&Scope>,
        control: &'a Control,
    ) -> Self {
        Self {
            from,
            to,
            source: Walk::new(from, tenant, scope),
            target: Walk::new(to, tenant, scope),
            ahead: None,
            source_ended: false,
            control,
        }
    }

    /// The next such scope; with `removes`, its migrated facets are removed.
    pub(in crate::snapshot) async fn next(&mut self, removes: bool) -> Result<Option<Scope>> {
        while let Some(found) = self.target.next().await? {
            self.control.go_on()?;
            if self.is_in_source(&found.scope).await? {
                continue;
            }
            let holds = self.holds(&found).await?;
            if !(holds.entries || holds.sql) {
                continue;
            }
            if removes {
                self.remove(&found.scope, holds).await?;
            }
            return Ok(Some(found.scope));
        }
        Ok(None)
    }

    /// Both walks follow the order of scopes.
    async fn is_in_source(&mut self, scope: &Scope) -> Result<bool> {
        while !self.source_ended && self.ahead.as_ref().is_none_or(|ahead| ahead < scope) {
            self.ahead = self.source.next().await?.map(|found| found.scope);
            self.source_ended = self.ahead.is_none();
        }
        Ok(self.ahead.as_ref() == Some(scope))
    }

    /// A listing may include a scope whose last entry has expired, or a database without tables.
    async fn holds(&self, found: &Found) -> Result<Holds> {
        let mut holds = Holds::default();
        if let (Some(_), Some(_), Some(backend)) = (found.entries, self.from.backend(), self.to.backend()) {
            let page = backend.list(&found.scope, ListQuery::default().with_limit(1)).await?;
            holds.entries = !page.entries.is_empty();
        }
        let is_moved = self.from.sql().is_some()
            && self.from.capabilities().sql_dialect == self.to.capabilities().sql_dialect;
        if let (Some(_), true, Some(sql)) = (found.sql, is_moved, self.to.sql()) {
            holds.sql = database(sql, &found.scope, self.control).await?.is_some();
        }
        Ok(holds)
    }

    async fn remove(&self, scope: &Scope, holds: Holds) -> Result<()> {
        if let (true, Some(backend)) = (holds.entries, self.to.backend()) {
            backend.drop_scope(scope).await?;
        }
        if let (true, Some(sql)) = (holds.sql, self.to.sql()) {
            sql.drop_sql_scope(scope).await?;
        }
        Ok(())
    }
}
