//! What a backend hands over.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::capabilities::Capabilities;
use crate::erase::{EraseTarget, Erased, Tombstone, TombstoneId, TombstonesOf};
use crate::error::{Error, Result};
use crate::eviction::{EvictOutcome, Reclaimed, ScopeUsesPage, ScopeUsesQuery};
use crate::layer::MemoryLayer;
use crate::moment::Moment;
use crate::scope::{Scope, ScopeId, TenantId};
use crate::sql::SqlFacet;
use crate::time::Timestamp;

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
    /// one that stored nothing, succeeds. Where `Capabilities::run_fence`, later writes to the run's scope are refused with
    /// `run_ended`.
    ///
    /// # Behavior
    /// - SCO-5, RUN-1 to RUN-4.
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

    /// All entries as they are now, to be read in peace. Requires `Capabilities::moment`.
    ///
    /// # Behavior
    /// - MOM-1 to MOM-4.
    ///
    /// # Errors
    /// `capability_unsupported` where it is not advertised; `unavailable`.
    async fn moment(&self) -> Result<Arc<dyn Moment>> {
        Err(Error::unsupported("moment", self.name()))
    }

    /// Forgets a tenant, a scope or a key, in every facet but the conversational one, and leaves a tombstone. Returns when
    /// it is gone from the medium too, as far as `remains` does not say otherwise. For operators.
    /// Requires `Capabilities::erase`.
    ///
    /// # Behavior
    /// - FGT-1 to FGT-6, FGT-11, FGT-13, FGT-15, FGT-16.
    ///
    /// # Errors
    /// `capability_unsupported` where it is not advertised; `unavailable`, `outcome_unknown`: call again, which ends what
    /// was begun.
    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        let _ = target;
        Err(Error::unsupported("erase", self.name()))
    }

    /// Lists tombstones in the order of their ids: at most `limit` (1 to 1,000) that come after `after`. For operators.
    /// Requires `Capabilities::erase`.
    ///
    /// # Behavior
    /// - FGT-11.
    ///
    /// # Errors
    /// As [`Provider::tenants`].
    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        let _ = (of, after, limit);
        Err(Error::unsupported("tombstones", self.name()))
    }

    /// Adds up to 1,000 tombstones of another store, all or none; removes nothing. For operators.
    /// Requires `Capabilities::erase`.
    ///
    /// # Behavior
    /// - FGT-12.
    ///
    /// # Errors
    /// As [`Provider::erase`]; `too_large` over 1,000.
    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        let _ = tombstones;
        Err(Error::unsupported("bury", self.name()))
    }

    /// Lists a tenant's scopes that hold something, with their bytes and their last use. For operators, and no use itself.
    /// Requires `Capabilities::eviction`.
    ///
    /// # Behavior
    /// - GC-1 to GC-4.
    ///
    /// # Errors
    /// `capability_unsupported` where it is not advertised; `invalid_argument` for a foreign cursor or a limit of 0;
    /// `too_large` for a limit over 1,000; `unavailable`, `corrupt`.
    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        let _ = (tenant, query);
        Err(Error::unsupported("scope_uses", self.name()))
    }

    /// Removes a scope in every facet, if it was not used after `unused_since` and nobody uses it now, both judged at the
    /// moment of the removal. Requires `Capabilities::eviction`.
    ///
    /// # Behavior
    /// - GC-5 to GC-11, GC-13.
    ///
    /// # Errors
    /// `capability_unsupported` where it is not advertised; `unavailable`, `outcome_unknown`: call again; `corrupt` for a
    /// database that cannot be read, which stays.
    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        let _ = (scope, unused_since);
        Err(Error::unsupported("evict", self.name()))
    }

    /// Gives back the room of what nobody can read any more, at once instead of in time. Requires `Capabilities::eviction`.
    ///
    /// # Behavior
    /// - GC-12.
    ///
    /// # Errors
    /// `capability_unsupported` where it is not advertised; `unavailable`: what was given back stays so.
    async fn reclaim(&self) -> Result<Reclaimed> {
        Err(Error::unsupported("reclaim", self.name()))
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
            async fn moment(&self) -> Result<Arc<dyn Moment>> {
                (**self).moment().await
            }
            async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
                (**self).erase(target).await
            }
            async fn tombstones(
                &self,
                of: &TombstonesOf,
                after: Option<&TombstoneId>,
                limit: usize,
            ) -> Result<Vec<Tombstone>> {
                (**self).tombstones(of, after, limit).await
            }
            async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
                (**self).bury(tombstones).await
            }

            async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
                (**self).scope_uses(tenant, query).await
            }
            async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
                (**self).evict(scope, unused_since).await
            }
            async fn reclaim(&self) -> Result<Reclaimed> {
                (**self).reclaim().await
            }
        }
    )*};
}

forward_provider!(Arc, Box);
