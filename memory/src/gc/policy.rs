//! What an operator wants collected.

use std::path::PathBuf;
use std::time::Duration;

use memory_core::TenantId;

use crate::snapshot::Ledger;

/// How long a scope must lie idle, by default, before it goes for want of room.
const MIN_IDLE: Duration = Duration::from_secs(86_400);

/// Which scopes go.
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
    /// Sets how long a scope may lie idle.
    #[must_use]
    pub fn with_idle(mut self, idle: Option<Duration>) -> Self {
        self.idle = idle;
        self
    }

    /// Sets how much all scopes may hold.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: Option<u64>) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how long a scope must lie idle before it goes for want of room.
    #[must_use]
    pub fn with_min_idle(mut self, idle: Duration) -> Self {
        self.min_idle = idle;
        self
    }

    /// Whether any scope may ever go.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.idle.is_some() || self.max_bytes.is_some()
    }
}

/// How a sweep is done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GcOptions {
    /// Which scopes go.
    pub policy: GcPolicy,
    /// This tenant's scopes alone; `max_bytes` then is what they may hold.
    pub tenant: Option<TenantId>,
    /// Tells what would go, and changes nothing.
    pub dry_run: bool,
    /// The folder in which each durable scope is written before it goes; `None`: it is not. Made where it is missing,
    /// readable by its owner only.
    pub snapshot_to: Option<PathBuf>,
    /// Where these snapshots are noted.
    pub ledger: Option<Ledger>,
}

impl GcOptions {
    /// Options with a policy.
    #[must_use]
    pub fn new(policy: GcPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Limits it to a tenant.
    #[must_use]
    pub fn with_tenant(mut self, tenant: Option<TenantId>) -> Self {
        self.tenant = tenant;
        self
    }

    /// Tells what would go, and changes nothing.
    #[must_use]
    pub fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets where scopes are written before they go, and where that is noted.
    #[must_use]
    pub fn with_snapshots(mut self, folder: Option<PathBuf>, ledger: Option<Ledger>) -> Self {
        (self.snapshot_to, self.ledger) = (folder, ledger);
        self
    }
}
