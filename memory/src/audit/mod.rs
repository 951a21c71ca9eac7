//! Who did what to which memory: one record for every operation of the [`MemoryTool`](crate::MemoryTool), including
//! refused and cancelled calls. `docs/audit.md` describes the record.
//!
//! An operation never waits for its record, which goes to a bounded queue; if the queue is full, the record is dropped
//! and counted. The auditor's own thread redacts and writes. Dropped or unwritable records are reported in the stream
//! itself, by a record of kind `gap`.

mod auditor;
mod facts;
mod input;
mod json_lines;
mod observation;
mod queue;
mod record;
mod redact;
mod sink;
mod statement;
mod usage;
mod writer;

pub use auditor::{Auditor, AuditorBuilder};
pub use json_lines::JsonLines;
pub use record::{
    AuditCall, AuditCounts, AuditEviction, AuditFact, AuditForget, AuditGap, AuditMode, AuditRecord,
    AuditRequest,
};
pub use redact::{REDACTED, Redactor};
pub use sink::{AuditSink, TracingSink};
pub use usage::{OpUsage, missing, usage};

pub(crate) use facts::Facts;
