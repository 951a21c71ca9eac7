//! The provider: what a backend implements.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::capabilities::Capabilities;
use crate::error::{Error, Result};
use crate::layer::MemoryLayer;
use crate::lifecycle::erase::{EraseTarget, Erased, Tombstone, TombstoneId, TombstonesOf};
use crate::lifecycle::eviction::{EvictOutcome, Reclaimed, ScopeUsesPage, ScopeUsesQuery};
use crate::lifecycle::snapshot::ReadSnapshot;
use crate::scope::{Scope, ScopeId, ScopeKind, TenantId};
use crate::sql::SqlFacet;
use crate::time::Timestamp;

/// Whether a provider can serve right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HealthStatus {
    /// Reads and writes are served.
    Ok,
    /// Some operations are served and some not; `message` says which.
    Degraded,
    /// Nothing is served.
    Down,
}

/// The result of [`Provider::health`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Health {
    /// The status.
    pub status: HealthStatus,
    /// For people; no secrets, no paths of other tenants.
    pub message: String,
    /// The processes that use the store, as far as it knows them, the longest connected first. For the operator alone: the
    /// server shows them to no token of a tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<StoreProcess>,
}

/// A process that uses a store, among [`Health::processes`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StoreProcess {
    /// What it calls itself.
    pub name: String,
    /// The network address that it connects from; `None`: it is on the store's machine.
    pub address: Option<String>,
    /// Its open connections.
    pub connections: u64,
    /// When the oldest of them began.
    pub since: Timestamp,
}

impl StoreProcess {
    /// A process with its number of open connections, the oldest opened at `since`.
    #[must_use]
    pub fn new(name: String, address: Option<String>, connections: u64, since: Timestamp) -> Self {
        Self { name, address, connections, since }
    }
}

impl Health {
    /// A status with its reason.
    #[must_use]
    pub fn new(status: HealthStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), processes: Vec::new() }
    }

    /// The same with the processes that use the store.
    #[must_use]
    pub fn with_processes(self, processes: Vec<StoreProcess>) -> Self {
        Self { processes, ..self }
    }
}

/// A number that a store reports for the operator's metrics: the length of a queue, the hits of a cache. It must reveal
/// nothing about any tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure {
    /// Lower-case words joined by `_`, starting with the kind of store; a counter's name ends in `_total`.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// Whether it only grows as long as the store is open.
    pub is_counter: bool,
    /// The value.
    pub value: u64,
}

impl Figure {
    /// A value that rises and falls.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str, value: usize) -> Self {
        Self { name, help, is_counter: false, value: value as u64 }
    }

    /// A value that only grows.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, is_counter: true, value }
    }
}

/// One store: some of the three facets, as stated by its [`Capabilities`].
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

    /// Asks the store whether it can serve, with a timeout.
    ///
    /// # Errors
    /// If the store could not even be asked. A store that is down is an `Ok` result.
    async fn health(&self) -> Result<Health>;

    /// What the store counts about itself. Must be cheap to call. Default: nothing.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Purges a run's scope in every facet and ends everything the run left open. Ending a run again, or one that
    /// stored nothing, succeeds. With `Capabilities::run_fence`, later writes to the run's scope are refused with
    /// `run_ended`.
    ///
    /// # Behavior
    /// - SCO-5: `end_run` removes the run's scope and no other; ending a run twice succeeds.
    /// - RUN-1: After `end_run`, every write to the run's scope is refused with `run_ended` and changes nothing:
    ///   entries, imports, SQL statements and transactions, through any handle. This comes before whatever else would
    ///   refuse the write, and names no item.
    /// - RUN-2: Reading an ended run's scope is like reading an empty one; ending it again succeeds.
    /// - RUN-3: Other runs, and scopes of other kinds and tenants with the same id, can still be written.
    /// - RUN-4: The fence lasts for a day by default, and can be configured. After that the id may be used again,
    ///   and the record kept for the fence is removed.
    ///
    /// The default drops the run's scope of entries. Sufficient for providers with only that facet and no fence.
    ///
    /// # Errors
    /// `unavailable`, `outcome_unknown`; call again.
    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        let Some(backend) = self.backend() else { return Ok(()) };
        backend.drop_scope(&Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone())).await.map(drop)
    }

    /// Lists the tenants that ever stored something in the key/value or SQL facet, in byte order of their ids: at most
    /// `limit` (1 to 1,000) after `after`. For operators only: agents never see this list. Requires
    /// `Capabilities::tenants`.
    ///
    /// # Behavior
    /// - SCO-6: `tenants` lists each tenant once that has a scope with live entries or a SQL database, ordered by
    ///   id bytes. It may list a tenant whose scopes have become empty.
    /// - SCO-7: `tenants` returns at most `limit` tenants (0 is `invalid_argument`, over 1,000 `too_large`) that
    ///   come after the one named.
    ///
    /// # Errors
    /// `capability_unsupported` if not advertised; `unavailable`, `corrupt`.
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        let _ = (after, limit);
        Err(Error::unsupported("tenants", self.name()))
    }

    /// Takes a read-only snapshot of all entries, unaffected by later writes. Requires `Capabilities::read_snapshot`.
    ///
    /// # Behavior
    /// - MOM-1: The snapshot exports what `export_scope` would have streamed at that moment, for every scope, as
    ///   often as it is called.
    /// - MOM-2: Its `scopes` and `tenants` list, in pages, what they would have listed at that moment.
    /// - MOM-3: Other callers keep writing meanwhile, and see what they wrote.
    /// - MOM-4: The snapshot ends when its handle is dropped. If the store ends it earlier (its connection is
    ///   gone), its calls fail with `unavailable`; they never show another moment.
    ///
    /// # Errors
    /// `capability_unsupported` if not advertised; `unavailable`.
    async fn read_snapshot(&self) -> Result<Arc<dyn ReadSnapshot>> {
        Err(Error::unsupported("moment", self.name()))
    }

    /// Erases a tenant, a scope or a key in every facet except the conversational one, and leaves a tombstone. When it
    /// returns, the data is gone from the storage medium too, except for what `remains` lists. For operators. Requires
    /// `Capabilities::erase`.
    ///
    /// # Behavior
    /// - FGT-1: Erasing a scope removes its entries, live and expired, with vectors, words and access counts.
    /// - FGT-2: Erasing a tenant does the same for each of its scopes, and `tenants` no longer lists it.
    /// - FGT-3: Erasing a key removes that entry and no other.
    /// - FGT-4: The outcome counts the scopes and entries that were removed, including expired ones. Erasing again,
    ///   or erasing what does not exist, succeeds and counts nothing.
    /// - FGT-5: No version is reused in an erased scope: the next write gets one above all earlier versions. The
    ///   tombstone says so, that of a key too.
    /// - FGT-6: Writes after an erasure behave normally: they are stored, found and counted.
    /// - FGT-11: Every erasure leaves a tombstone; `tombstones` lists them for the store, a tenant or a scope, in
    ///   the order of their digests.
    /// - FGT-13: Erasing a scope or a tenant removes its SQL databases; erasing a key leaves SQL alone.
    /// - FGT-15: A handle that was opened before the erasure also sees what FGT-1 says. Tombstones survive the
    ///   process that wrote them.
    /// - FGT-16: `remains` says, without names, what is left on the medium and until when.
    ///
    /// # Errors
    /// `capability_unsupported` if not advertised; `unavailable`, `outcome_unknown`: calling again finishes the
    /// erasure.
    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        let _ = target;
        Err(Error::unsupported("erase", self.name()))
    }

    /// Lists tombstones in order of their ids: at most `limit` (1 to 1,000) after `after`. For operators.
    /// Requires `Capabilities::erase`.
    ///
    /// # Behavior
    /// - FGT-11: Every erasure leaves a tombstone; `tombstones` lists them for the store, a tenant or a scope, in
    ///   the order of their digests.
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

    /// Adds up to 1,000 tombstones of another store, all or none; removes no data. For operators.
    /// Requires `Capabilities::erase`.
    ///
    /// # Behavior
    /// - FGT-12: Added tombstones apply as if they were the store's own; of two for one target the later time and
    ///   the higher version win.
    ///
    /// # Errors
    /// Those of [`Provider::erase`]; `too_large` over 1,000.
    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        let _ = tombstones;
        Err(Error::unsupported("bury", self.name()))
    }

    /// Lists a tenant's scopes that are not empty, with their size and last use. For operators; listing does not count
    /// as use. Requires `Capabilities::eviction`.
    ///
    /// # Behavior
    /// - GC-1: It lists a tenant's scopes that hold something, each once, ordered by kind (agent, user, run) and id
    ///   bytes.
    /// - GC-2: It pages as `scopes` does: at most `limit` scopes (0 is `invalid_argument`, over 1,000 `too_large`).
    ///   A cursor that is malformed or of another tenant is `invalid_argument`.
    /// - GC-3: The reported last use is not after the real one, and less than the slack before it; `latest_use` is
    ///   later by the slack.
    /// - GC-4: An agent's activity counts as use; inspection from outside (`scopes`, `stats`, `export_scope`,
    ///   `dump`) does not.
    ///
    /// # Errors
    /// `capability_unsupported` if not advertised; `invalid_argument` for a foreign cursor or a limit of 0; `too_large`
    /// for a limit over 1,000; `unavailable`, `corrupt`.
    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        let _ = (tenant, query);
        Err(Error::unsupported("scope_uses", self.name()))
    }

    /// Removes a scope in every facet, unless it was used after `unused_since` or is in use. Both are checked in the
    /// transaction that removes it. Requires `Capabilities::eviction`.
    ///
    /// # Behavior
    /// - GC-5: `evict` with `unused_since` removes a scope that was not used since then, in every facet at once:
    ///   entries, vectors, the database. It returns how many bytes were removed.
    /// - GC-6: A scope that was used after `unused_since` stays whole, and the answer is `used` with the last known
    ///   use.
    /// - GC-7: A scope with an open SQL transaction, of any handle, stays whole, and the answer says so.
    /// - GC-8: For a scope that holds nothing the answer is `absent`; nothing is created.
    /// - GC-9: No other scope changes, including those of the same id with another kind or tenant.
    /// - GC-10: An evicted scope is like a dropped one: writing to it again starts anew, and versions of its keys
    ///   are not reused.
    /// - GC-11: A write that races with an eviction survives either in the scope, which then stays, or in a new
    ///   one.
    /// - GC-13: If a process dies during an eviction, every process sees the scope either whole or gone in every
    ///   facet, and whoever next opens or uses it finishes the work.
    ///
    /// # Errors
    /// `capability_unsupported` if not advertised; `unavailable`; `outcome_unknown`: call again; `corrupt` for a
    /// database that cannot be read, which is kept.
    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        let _ = (scope, unused_since);
        Err(Error::unsupported("evict", self.name()))
    }

    /// Frees the space of data that nobody can read any more, immediately instead of in the background. Requires
    /// `Capabilities::eviction`.
    ///
    /// # Behavior
    /// - GC-12: `reclaim` frees the space of data that nobody can read any more, returns how much it found, and
    ///   changes nothing that can be read.
    ///
    /// # Errors
    /// `capability_unsupported` if not advertised; `unavailable`: space already freed stays free.
    async fn reclaim(&self) -> Result<Reclaimed> {
        Err(Error::unsupported("reclaim", self.name()))
    }

    /// Closes this handle: waits until everything buffered, such as access counts, is stored, and releases its
    /// resources. It is not an operation: no server offers it to clients. A provider that buffers nothing need not
    /// implement it; one that wraps another passes it on.
    ///
    /// # Behavior
    /// - CLO-1: When `close` returns, everything that the handle acknowledged or counted is stored, and other handles
    ///   see it.
    /// - CLO-2: It ends no other handle on the store. Closing again succeeds.
    /// - CLO-3: A later call through this handle is either served as before or refused with `unavailable`; a write
    ///   that is refused changes nothing.
    ///
    /// # Errors
    /// `unavailable` if buffered data could not be stored; the handle is closed nevertheless.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
