//! What a backend hands over.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::capabilities::Capabilities;
use crate::error::{Error, Result};
use crate::layer::MemoryLayer;
use crate::scope::{ScopeId, TenantId};
use crate::sql::SqlFacet;

/// Whether a provider can serve right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HealthStatus {
    /// Reads and writes are served.
    Ok,
    /// Something is served, something is not; `message` says what.
    Degraded,
    /// Nothing is served.
    Down,
}

/// The answer of [`Provider::health`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// In one word.
    pub status: HealthStatus,
    /// For a person; no secrets, no paths of other tenants.
    pub message: String,
}

impl Health {
    /// A state with its reason.
    #[must_use]
    pub fn new(status: HealthStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

/// One store behind the seam: some subset of the three facets, and an honest word about which.
///
/// A facet accessor is `Some` if and only if the facet's flag in [`Capabilities`] is set.
#[async_trait]
pub trait Provider: Send + Sync + Debug {
    /// A short stable name (`sqlite`, `postgres`, `mem0`), used in errors and reports.
    fn name(&self) -> &str;

    /// What is served; constant for the life of the provider.
    fn capabilities(&self) -> Capabilities;

    /// The key/value facet.
    fn backend(&self) -> Option<&dyn Backend> {
        None
    }

    /// The conversational facet.
    fn layer(&self) -> Option<&dyn MemoryLayer> {
        None
    }

    /// The SQL facet.
    fn sql(&self) -> Option<&dyn SqlFacet> {
        None
    }

    /// Asks the store whether it can serve; bounded in time.
    ///
    /// # Errors
    /// Where not even the question could be asked; a store that is down is an `Ok` answer.
    async fn health(&self) -> Result<Health>;

    /// Purges a run's scope in every facet and ends what the run left open. Ending a run again, or
    /// one that stored nothing, succeeds.
    ///
    /// # Errors
    /// `unavailable`, `outcome_unknown`: call again.
    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()>;

    /// Lists the tenants that ever stored something in the key/value or SQL facet, by the bytes of their ids: at most
    /// `limit` (1 to 1,000) that come after `after`. For operators: what an agent is told never comes from here.
    /// Requires `Capabilities::tenants`.
    ///
    /// # Behavior
    /// - SCO-6, SCO-7.
    ///
    /// # Errors
    /// `capability_unsupported` where it is not advertised; `unavailable`, `corrupt`.
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        let _ = (after, limit);
        Err(Error::unsupported("tenants", self.name()))
    }
}

macro_rules! forward_provider {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<T: Provider + ?Sized> Provider for $pointer<T> {
            fn name(&self) -> &str {
                (**self).name()
            }
            fn capabilities(&self) -> Capabilities {
                (**self).capabilities()
            }
            fn backend(&self) -> Option<&dyn Backend> {
                (**self).backend()
            }
            fn layer(&self) -> Option<&dyn MemoryLayer> {
                (**self).layer()
            }
            fn sql(&self) -> Option<&dyn SqlFacet> {
                (**self).sql()
            }
            async fn health(&self) -> Result<Health> {
                (**self).health().await
            }
            async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
                (**self).end_run(tenant, root_run).await
            }
            async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
                (**self).tenants(after, limit).await
            }
        }
    )*};
}

forward_provider!(Arc, Box);
