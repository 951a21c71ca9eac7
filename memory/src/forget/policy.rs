//! What to do with snapshots and audit records when forgetting.

use serde::{Deserialize, Serialize};

/// What to do with snapshots that contain the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotPolicy {
    /// Replace each by one without it.
    #[default]
    Rewrite,
    /// Delete each.
    Delete,
    /// Report each, but leave it.
    Report,
}

/// What to do with audit records about the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditPolicy {
    /// Keep them: an audit log is kept for a reason.
    #[default]
    Keep,
    /// Replace names and contents in them by [`FORGOTTEN`](super::FORGOTTEN).
    Redact,
}

/// What to do with snapshots and audit records when forgetting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ForgetPolicy {
    /// Snapshots.
    pub snapshots: SnapshotPolicy,
    /// Audit files.
    pub audit: AuditPolicy,
}

impl ForgetPolicy {
    memory_core::setters! {
        with_snapshots(snapshots: SnapshotPolicy);
        with_audit(audit: AuditPolicy);
    }
}
