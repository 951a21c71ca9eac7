//! Which scopes the operator wants evicted.

use std::path::PathBuf;
use std::time::Duration;

use memory_core::TenantId;

use crate::setters::setters;
use crate::snapshot::Ledger;

/// How long a scope must be idle, by default, before it may be evicted for lack of space.
const MIN_IDLE: Duration = Duration::from_secs(86_400);

/// Which scopes are evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcPolicy {
    /// Scopes that were not used for so long; `None`: none for that reason.
    pub idle: Option<Duration>,
    /// Bytes that all scopes may hold together; `None`: any.
    pub max_bytes: Option<u64>,
    /// Scopes that were used within this time stay, however large they are. Default: a day.
    pub min_idle: Duration,
}

impl Default for GcPolicy {
    fn default() -> Self {
        Self { idle: None, max_bytes: None, min_idle: MIN_IDLE }
    }
}

impl GcPolicy {
    setters! {
        /// Sets how long a scope may be idle.
        with_idle(idle: Option<Duration>);
        /// Sets how much all scopes may hold.
        with_max_bytes(max_bytes: Option<u64>);
        /// Sets how long a scope must be idle before it may be evicted for lack of space.
        with_min_idle(min_idle: Duration);
    }

    /// Whether any scope may ever be evicted.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.idle.is_some() || self.max_bytes.is_some()
    }
}

/// How a sweep is done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GcOptions {
    /// Which scopes are evicted.
    pub policy: GcPolicy,
    /// This tenant's scopes alone; `max_bytes` then is what they may hold.
    pub tenant: Option<TenantId>,
    /// Reports what would be evicted, and changes nothing.
    pub dry_run: bool,
    /// The folder in which each durable scope is saved before it is evicted; `None`: it is not. Created if it is missing,
    /// readable by its owner only.
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

    setters! {
        /// Limits it to a tenant.
        with_tenant(tenant: Option<TenantId>);
        /// Reports what would be evicted, and changes nothing.
        with_dry_run(dry_run: bool);
    }

    /// Sets where scopes are saved before they are evicted, and the ledger that records it.
    #[must_use]
    pub fn with_snapshots(mut self, folder: Option<PathBuf>, ledger: Option<Ledger>) -> Self {
        (self.snapshot_to, self.ledger) = (folder, ledger);
        self
    }
}
