//! The result of a sweep.

use std::path::PathBuf;

use memory_core::{Reclaimed, Scope, Timestamp};
use serde::Serialize;

/// Most scopes listed per kind of outcome.
const NAMED: usize = 1_000;

/// Why a scope is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GcReason {
    /// It was not used for too long.
    Idle,
    /// All scopes together hold too much.
    MaxBytes,
}

impl GcReason {
    /// `idle` or `max_bytes`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::MaxBytes => "max_bytes",
        }
    }
}

/// A scope that was evicted, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GcVictim {
    /// The scope.
    pub scope: Scope,
    /// Bytes it held.
    pub bytes: u64,
    /// Its last use.
    pub last_used_at: Timestamp,
    /// Why it is evicted.
    pub reason: GcReason,
    /// The file it was saved to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<PathBuf>,
}

/// A scope that was not evicted, or whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotEvicted {
    /// The scope.
    pub scope: Scope,
    /// `used`, `in_use`, `absent`, or the code of an error.
    pub why: &'static str,
    /// The error's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its last snapshot, if the scope may be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<PathBuf>,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GcReport {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Whether it was stopped early.
    pub stopped: bool,
    /// Scopes checked.
    pub scopes: u64,
    /// Bytes they held.
    pub bytes: u64,
    /// Scopes that were evicted, or would be.
    pub evicted: u64,
    /// Bytes they held.
    pub evicted_bytes: u64,
    /// The first thousand of them.
    pub victims: Vec<GcVictim>,
    /// Scopes idle for long enough by their stored use, but possibly used since, within the slack. They are evicted
    /// later.
    pub within_slack: u64,
    /// Scopes that were not evicted: used in the meantime, in use, or already gone.
    pub kept: u64,
    /// The first thousand of them.
    pub kept_scopes: Vec<NotEvicted>,
    /// Scopes whose last snapshot or eviction failed. They are kept, except possibly those with `outcome_unknown` or a
    /// last snapshot.
    pub failed: u64,
    /// The first thousand of them.
    pub failed_scopes: Vec<NotEvicted>,
    /// Snapshots that were written.
    pub snapshots: u64,
    /// Bytes over `max_bytes` that could not be freed, because their scopes are in use or were used recently.
    pub over: u64,
    /// Space freed in addition; nothing in a dry run.
    pub reclaimed: Option<Reclaimed>,
}

impl GcReport {
    /// Whether every scope to evict was evicted and the rest fits.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.stopped && self.failed == 0 && self.over == 0
    }

    pub(super) fn add_evicted(&mut self, victim: GcVictim) {
        self.evicted += 1;
        self.evicted_bytes = self.evicted_bytes.saturating_add(victim.bytes);
        self.snapshots += u64::from(victim.snapshot.is_some());
        if self.victims.len() < NAMED {
            self.victims.push(victim);
        }
    }

    pub(super) fn add_kept(&mut self, scope: &Scope, why: &'static str) {
        self.kept += 1;
        if self.kept_scopes.len() < NAMED {
            self.kept_scopes.push(NotEvicted { scope: scope.clone(), why, message: None, snapshot: None });
        }
    }

    /// `snapshot` was kept, because the scope may be gone.
    pub(super) fn add_failed(
        &mut self,
        scope: &Scope,
        error: &memory_core::Error,
        snapshot: Option<PathBuf>,
    ) {
        self.failed += 1;
        self.snapshots += u64::from(snapshot.is_some());
        if self.failed_scopes.len() < NAMED {
            let message = Some(error.message().to_owned());
            let why = error.kind().code();
            self.failed_scopes.push(NotEvicted { scope: scope.clone(), why, message, snapshot });
        }
    }
}
