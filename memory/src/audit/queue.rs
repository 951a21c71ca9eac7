//! The queue of the auditor's thread.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::SyncSender;

use super::observation::Observation;
use super::record::AuditRecord;

/// Counters of records, and the bytes of queued input.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) written: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) waiting_bytes: AtomicUsize,
}

/// A message to the auditor's thread.
pub(super) enum Message {
    /// A call, which becomes a record on that thread.
    Call(Box<Observation>),
    /// A record that only lacks its number.
    Record(AuditRecord),
    /// Flush every sink and answer.
    Flush(SyncSender<()>),
}

/// Hides the content, because it is not redacted yet.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}
