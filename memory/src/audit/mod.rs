//! Who did what to which memory: one record for every operation of the [`MemoryTool`](crate::MemoryTool), refusals and
//! cancelled calls included. `docs/audit.md` describes the record.
//!
//! An operation never waits for its record: it is handed to a bounded queue, and where that is full the record is
//! dropped and counted. Redaction and writing happen on the auditor's own thread. What was dropped is reported in the
//! stream itself, as a record of kind `gap`.

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
mod writer;

pub use auditor::{Auditor, AuditorBuilder};
pub use json_lines::JsonLines;
pub use record::{AuditCall, AuditCounts, AuditEviction, AuditForget, AuditGap, AuditMode, AuditRecord};
pub use redact::{REDACTED, Redactor};
pub use sink::{AuditSink, TracingSink};

pub(crate) use facts::Facts;
