//! The operator's eviction policy.

use std::path::PathBuf;
use std::time::Duration;

use memory_core::TenantId;

use crate::snapshot::Ledger;

/// Default idle time before a scope may be evicted to save space.
const MIN_IDLE: Duration = Duration::from_secs(86_400);

/// Which scopes to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcPolicy {
    /// Evict scopes unused for this long; `None`: never for that reason.
    pub idle: Option<Duration>,
    /// Bytes for all scopes together; `None`: unlimited.
    pub max_bytes: Option<u64>,
    /// Scopes used within this time are kept, however large they are. Default: one day.
    pub min_idle: Duration,
}

impl Default for GcPolicy {
    fn default() -> Self {
        Self { idle: None, max_bytes: None, min_idle: MIN_IDLE }
    }
}

impl GcPolicy {
    memory_core::setters! {
        with_idle(idle: Option<Duration>);
        with_max_bytes(max_bytes: Option<u64>);
        with_min_idle(min_idle: Duration);
    }

    /// Whether any scope may ever be evicted.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.idle.is_some() || self.max_bytes.is_some()
    }
}

/// Options of a sweep.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GcOptions {
    /// Which scopes to evict.
    pub policy: GcPolicy,
    /// Only this tenant's scopes; `max_bytes` then applies to them.
    pub tenant: Option<TenantId>,
    /// Report what would be evicted, and change nothing.
    pub dry_run: bool,
    /// The folder where each durable scope is saved before eviction; `None` to save nothing. Created if missing,
    /// readable only by its owner.
    pub snapshot_to: Option<PathBuf>,
    /// The ledger that records these snapshots.
    pub ledger: Option<Ledger>,
}

impl GcOptions {
    /// Options with a policy.
    #[must_use]
    pub fn new(policy: GcPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    memory_core::setters! {
        with_tenant(tenant: Option<TenantId>);
        with_dry_run(dry_run: bool);
    }

    /// Sets where scopes are saved before eviction, and the ledger that records the files.
    #[must_use]
    pub fn with_snapshots(mut self, folder: Option<PathBuf>, ledger: Option<Ledger>) -> Self {
        (self.snapshot_to, self.ledger) = (folder, ledger);
        self
    }
}
