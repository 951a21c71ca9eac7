//! The harness: how a provider under test is opened.

use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "hierarchical")]
use memory_core::{IdGen, TenantId};
use memory_core::{Provider, Result};
#[cfg(feature = "hierarchical")]
use memory_hierarchical::{GraphStore, SqlGraphs};

use crate::harness::executor::{self, BoxFuture};
use crate::harness::fixture::Fixture;

/// What a harness set up for the cases about SQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlSetup {
    /// Whether transactions are rolled back after lying idle for [`Fixture::tx_idle`], by the fixture's clock
    /// or by real time.
    pub obeys_tx_idle: bool,
    /// Whether [`SHARED_DATA`] is shared with every scope.
    pub shares_data: bool,
}

impl SqlSetup {
    /// Declares that the provider is opened with [`Fixture::tx_idle`].
    #[must_use]
    pub fn with_tx_idle(mut self) -> Self {
        self.obeys_tx_idle = true;
        self
    }

    /// Declares that [`SHARED_DATA`] is shared with every scope.
    #[must_use]
    pub fn with_shared_data(mut self) -> Self {
        self.shares_data = true;
        self
    }
}

/// The statements that create the data a harness may share with every scope, valid in either dialect.
pub const SHARED_DATA: [&str; 2] = [
    "CREATE TABLE conformance_shared (id INTEGER PRIMARY KEY, word TEXT NOT NULL)",
    "INSERT INTO conformance_shared (id, word) VALUES (1, 'one'), (2, 'two'), (3, 'three')",
];

/// Opens the provider under test.
///
/// # Behavior
/// - Each case calls [`open`](Harness::open) once, with its own fixture; cases run concurrently. The harness decides
///   whether they share one store: every case works in its own tenants and deletes nothing else.
/// - The provider uses the fixture's clock and ids, and its embedder if it embeds at all.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// The provider's name in reports.
    fn name(&self) -> &str;

    /// Opens a provider that is empty in the tenants named after [`Harness::namespace`].
    ///
    /// # Errors
    /// Any error of opening; the case then fails with it.
    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>>;

    /// Opens another handle on the store that `open` created for this fixture, while that handle is open or after it
    /// was dropped. `None` if the store cannot be opened twice, or ends with its handle; cases that need this are then
    /// skipped. The fixture's embedder may have changed: the handle then embeds with that model.
    ///
    /// # Errors
    /// As [`Harness::open`].
    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        let _ = fixture;
        Ok(None)
    }

    /// The prefix of every tenant's name. A store that outlives the run needs a new one for every run, or cases see
    /// data of earlier runs; at most 64 bytes, valid in a tenant id.
    fn namespace(&self) -> &str {
        "conformance"
    }

    /// What is set up for the cases about SQL beyond the minimum. Default: nothing, and the cases that need it are
    /// skipped.
    fn sql_setup(&self) -> SqlSetup {
        SqlSetup::default()
    }

    /// Whether the provider uses the fixture's clock. Default: it does. If not, the cases that read or move the clock
    /// are skipped.
    fn obeys_clock(&self) -> bool {
        true
    }

    /// Whether the provider uses its smallest possible caches when [`Fixture::small_caches`] asks for it. Default: it
    /// does not, and the cases that compare its answers with and without caches are skipped.
    fn takes_small_caches(&self) -> bool {
        false
    }

    /// Whether writes fail as on a full disk once the store would exceed roughly [`Fixture::disk_bytes`]. Such a
    /// harness gives each fixture its own store. Default: they do not, and the cases about a full disk, or that need a
    /// store to themselves, are skipped.
    fn obeys_disk_bytes(&self) -> bool {
        false
    }

    /// Runs a future to completion on the calling thread. Several threads call this concurrently. Default: inside one
    /// multi-threaded tokio runtime (feature `tokio`), otherwise on a plain executor.
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        executor::block_on(future);
    }

    /// Wraps the checked provider that cases call: used by mutants.
    #[doc(hidden)]
    fn wrap_checked(&self, checked: Arc<dyn Provider>) -> Arc<dyn Provider> {
        checked
    }

    /// A tenant's graphs, for the cases about them. Default: tables over the provider. Override it for a graph store
    /// that is not a provider.
    ///
    /// # Errors
    /// Any error of opening; the case then fails with it.
    #[cfg(feature = "hierarchical")]
    async fn open_graphs(
        &self,
        provider: Arc<dyn Provider>,
        tenant: &TenantId,
        ids: Arc<dyn IdGen>,
    ) -> Result<Arc<dyn GraphStore>> {
        Ok(Arc::new(SqlGraphs::open(provider, tenant, ids).await?))
    }

    /// Changes the stages of shared state that cases use: used by mutants.
    #[cfg(feature = "governed")]
    #[doc(hidden)]
    fn change_shared(&self, setup: &mut crate::governed::Setup) {
        let _ = setup;
    }
}
