//! A store's entries as of one moment.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::{RecordStream, ScopePage, ScopesQuery};
use crate::checked::check_limit;
use crate::error::Result;
use crate::limits::MAX_PAGE;
use crate::scope::{Scope, TenantId};

/// All entries of a store as they were when [`Provider::moment`](crate::Provider::moment) was called, over all tenants and
/// scopes, for as long as the value lives. Others write as before; a store may keep what they replace until then, so it is
/// not for holding on to.
#[async_trait]
pub trait Moment: Send + Sync + Debug {
    /// The tenants that had a scope then, as [`Provider::tenants`](crate::Provider::tenants) lists them.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>>;

    /// The tenant's scopes that held entries then, as [`Backend::scopes`](crate::Backend::scopes) lists them.
    ///
    /// # Errors
    /// As [`Backend::scopes`](crate::Backend::scopes).
    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage>;

    /// The entries that the scope held then, as [`Backend::export_scope`](crate::Backend::export_scope) streams them.
    ///
    /// # Errors
    /// As [`Backend::export_scope`](crate::Backend::export_scope).
    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream>;
}

/// A moment whose arguments are looked at.
#[derive(Debug)]
pub(crate) struct Checked(pub(crate) Arc<dyn Moment>);

#[async_trait]
impl Moment for Checked {
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        check_limit("limit", limit, MAX_PAGE)?;
        self.0.tenants(after, limit).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        check_limit("limit", query.limit, MAX_PAGE)?;
        if let Some(cursor) = &query.cursor {
            cursor.scope(tenant)?;
        }
        self.0.scopes(tenant, query).await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        self.0.export_scope(scope).await
    }
}
