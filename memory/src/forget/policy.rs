//! How far forgetting goes.

use serde::{Deserialize, Serialize};

/// What happens to snapshots that hold the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotPolicy {
    /// Each is replaced by one without it.
    #[default]
    Rewrite,
    /// Each is deleted.
    Delete,
    /// Each is reported and left.
    Report,
}

/// What happens to audit records about the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditPolicy {
    /// They stay: an audit is kept for a reason.
    #[default]
    Keep,
    /// Names and contents in them are replaced by [`FORGOTTEN`](super::FORGOTTEN).
    Redact,
}

/// How far forgetting goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ForgetPolicy {
    /// Snapshots.
    pub snapshots: SnapshotPolicy,
    /// Audit files.
    pub audit: AuditPolicy,
}

impl ForgetPolicy {
    /// Sets what happens to snapshots.
    #[must_use]
    pub const fn with_snapshots(mut self, snapshots: SnapshotPolicy) -> Self {
        self.snapshots = snapshots;
        self
    }

    /// Sets what happens to audit records.
    #[must_use]
    pub const fn with_audit(mut self, audit: AuditPolicy) -> Self {
        self.audit = audit;
        self
    }
}
