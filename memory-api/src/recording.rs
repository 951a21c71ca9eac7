//! The audit record of one request. It is written even if the request is cut off because it timed out or its client has
//! gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use memory::audit::{AuditRequest, Auditor};
use memory_core::layer::Fact;
use memory_core::{Error, Result, ScopeKind};
use tokio::time::Instant;

use crate::refusal::late;

/// Whether a request changes nothing. For a batch, that is known only once its body has arrived.
#[derive(Clone, Debug)]
pub struct Reads(Arc<AtomicBool>);

impl Reads {
    /// What its head says.
    #[must_use]
    pub fn new(reads: bool) -> Self {
        Self(Arc::new(AtomicBool::new(reads)))
    }

    /// Reports what the body says.
    pub fn tell(&self, reads: bool) {
        self.0.store(reads, Relaxed);
    }

    /// What was said last.
    #[must_use]
    pub fn told(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// A request in progress. If dropped before it has [ended](Self::ended), it was cut off.
#[derive(Debug)]
pub struct Recording<'a> {
    auditor: Option<&'a Arc<Auditor>>,
    record: AuditRequest,
    started: Instant,
    reads: bool,
}

impl<'a> Recording<'a> {
    /// `reads`: the request changes nothing, whatever happens to it.
    pub fn begin(auditor: Option<&'a Arc<Auditor>>, record: AuditRequest, reads: bool) -> Self {
        Self { auditor, record, started: Instant::now(), reads }
    }

    /// Records how many entries, hits, facts or rows the answer holds.
    pub fn found(&mut self, rows: Option<usize>) {
        self.record.rows = rows.and_then(|rows| u64::try_from(rows).ok());
    }

    /// Records the facts that a `recall` returned.
    pub(crate) fn recalled(&mut self, scope: ScopeKind, facts: &[Fact]) {
        self.record.recalled(scope, facts);
    }

    /// Records the outcome and returns it.
    pub fn ended<T>(mut self, outcome: Result<T>) -> Result<T> {
        self.tell(outcome.as_ref().err());
        outcome
    }

    fn tell(&mut self, failed: Option<&Error>) {
        if let Some(auditor) = self.auditor.take() {
            auditor.requested(self.record.clone().ended(failed, self.started.elapsed()));
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        self.tell(Some(&late(self.reads)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use memory::audit::{AuditRecord, AuditSink};
    use memory::system::SystemClock;

    use super::*;

    #[derive(Debug)]
    struct Outcomes(mpsc::Sender<&'static str>);

    impl AuditSink for Outcomes {
        fn write(&mut self, record: &AuditRecord) -> Result<()> {
            if let AuditRecord::Request(request) = record {
                self.0.send(request.outcome).unwrap();
            }
            Ok(())
        }
    }

    #[test]
    fn what_is_cut_off_is_recorded_and_a_read_changed_nothing() {
        let (outcomes, told) = mpsc::channel();
        let auditor = Auditor::builder(Arc::new(SystemClock)).sink(Outcomes(outcomes)).start().unwrap();
        let auditor = Arc::new(auditor);
        let begin =
            |reads| Recording::begin(Some(&auditor), AuditRequest::new("t-1", "op", None, None), reads);
        begin(true).ended(Ok(())).unwrap();
        drop(begin(true));
        drop(begin(false));
        assert!(auditor.flush(Duration::from_secs(30)));
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["ok", "timeout", "outcome_unknown"]);
    }
}
