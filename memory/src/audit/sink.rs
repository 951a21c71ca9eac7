//! Destinations of records.

use std::fmt::Debug;

use memory_core::Result;

use super::record::AuditRecord;

/// Takes records in order, on the auditor's own thread, so it may be slow.
pub trait AuditSink: Send + Debug {
    /// Takes a record.
    ///
    /// # Errors
    /// If the record cannot be written: it counts as failed and is not offered again. The next record offered is a gap.
    fn write(&mut self, record: &AuditRecord) -> Result<()>;

    /// Makes everything taken so far survive the process, as far as the sink can.
    ///
    /// # Errors
    /// If it cannot.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Emits each record as a `tracing` event of level INFO (WARN for a gap) with the target `memory::audit`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingSink;

impl AuditSink for TracingSink {
    fn write(&mut self, record: &AuditRecord) -> Result<()> {
        match record {
            AuditRecord::Call(call) => tracing::info!(
                target: "memory::audit",
                number = call.number,
                time = %call.time,
                tenant = call.tenant,
                agent = call.agent,
                user = call.user,
                run = call.run,
                trace = call.trace,
                op = call.op,
                scope = call.scope.map(|scope| scope.as_str()),
                key = call.key,
                prefix = call.prefix,
                rows = call.rows,
                bytes_in = call.bytes_in,
                bytes_out = call.bytes_out,
                micros = call.micros,
                outcome = call.outcome,
                fallback = call.fallback,
                input = call.input.as_ref().map(tracing::field::display),
            ),
            AuditRecord::Request(request) => tracing::info!(
                target: "memory::audit",
                number = request.number,
                time = %request.time,
                op = request.op,
                token = request.token,
                tenant = request.tenant,
                scope = request.scope.map(|scope| scope.as_str()),
                scope_id = request.scope_id,
                micros = request.micros,
                outcome = request.outcome,
            ),
            AuditRecord::Eviction(eviction) => tracing::info!(
                target: "memory::audit",
                number = eviction.number,
                time = %eviction.time,
                op = eviction.op,
                tenant = eviction.tenant,
                scope = eviction.scope.as_str(),
                scope_id = eviction.scope_id,
                bytes = eviction.bytes,
                reason = eviction.reason,
                outcome = eviction.outcome,
            ),
            AuditRecord::Forget(forget) => tracing::info!(
                target: "memory::audit",
                number = forget.number,
                time = %forget.time,
                op = forget.op,
                forgotten = forget.target,
                digest = forget.digest,
                entries = forget.entries,
                left = forget.left,
                outcome = forget.outcome,
            ),
            AuditRecord::Gap(gap) => tracing::warn!(
                target: "memory::audit",
                number = gap.number,
                time = %gap.time,
                dropped = gap.dropped,
                "audit records were dropped"
            ),
        }
        Ok(())
    }
}
