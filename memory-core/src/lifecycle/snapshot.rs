//! A read-only snapshot of a store's entries.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::backend::{RecordStream, ScopePage, ScopesQuery};
use crate::error::Result;
use crate::scope::{Scope, TenantId};

/// The entries of a store, across all tenants and scopes, as they were when
/// [`Provider::read_snapshot`](crate::Provider::read_snapshot) was called.
///
/// Writes go on meanwhile, and a store may keep replaced data until the snapshot is dropped, so do not hold it for
/// long.
#[async_trait]
pub trait ReadSnapshot: Send + Sync + Debug {
    /// The tenants that had a scope at that time, as [`Provider::tenants`](crate::Provider::tenants) lists them.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>>;

    /// The tenant's scopes that held entries at that time, as [`Backend::scopes`](crate::Backend::scopes) lists them.
    ///
    /// # Errors
    /// As [`Backend::scopes`](crate::Backend::scopes).
    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage>;

    /// The entries that the scope held at that time, as [`Backend::export_scope`](crate::Backend::export_scope) streams
    /// them.
    ///
    /// # Errors
    /// As [`Backend::export_scope`](crate::Backend::export_scope).
    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream>;
}
