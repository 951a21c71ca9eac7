//! The auditor's thread: redacts, numbers and writes records.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use memory_core::Clock;

use super::queue::{Counters, Message};
use super::record::{AuditGap, AuditMode, AuditRecord};
use super::redact::Redactor;
use super::sink::AuditSink;

/// Idle time after which the sinks are flushed.
const IDLE: Duration = Duration::from_millis(200);

/// The state of the auditor's thread.
pub(super) struct Writer {
    mode: AuditMode,
    redactor: Redactor,
    outlets: Vec<Outlet>,
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
    /// Dropped records that the outlets were told about.
    known: u64,
    unflushed: bool,
}

/// A sink and what it is missing.
struct Outlet {
    sink: Box<dyn AuditSink>,
    /// The number of the last record for it.
    number: u64,
    /// Missing records that no gap has reported yet.
    missing: u64,
}

impl Outlet {
    /// Offers a record, unless a gap must come first. Returns whether the sink took it.
    fn offer(&mut self, record: &mut AuditRecord) -> bool {
        self.number += 1;
        record.set_number(self.number);
        let taken = self.missing == 0
            && self.sink.write(record).inspect_err(|error| {
                tracing::warn!(%error, "an audit record is lost, and so are those that follow until the audit can be written");
            })
            .is_ok();
        self.missing += u64::from(!taken);
        taken
    }

    /// Reports missing records; they count as reported once the sink takes the gap.
    fn report_gap(&mut self, clock: &dyn Clock) {
        if self.missing == 0 {
            return;
        }
        let gap = AuditGap { number: self.number + 1, time: clock.now(), dropped: self.missing };
        if self.sink.write(&AuditRecord::Gap(gap)).is_ok() {
            (self.number, self.missing) = (gap.number, 0);
        }
    }
}

impl Writer {
    pub(super) fn new(
        mode: AuditMode,
        redactor: Redactor,
        sinks: Vec<Box<dyn AuditSink>>,
        counters: Arc<Counters>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let outlets = sinks.into_iter().map(|sink| Outlet { sink, number: 0, missing: 0 }).collect();
        Self { mode, redactor, outlets, counters, clock, known: 0, unflushed: false }
    }

    /// Writes records until every sender is gone.
    pub(super) fn work(mut self, receiver: &Receiver<Message>) {
        loop {
            match receiver.recv_timeout(IDLE) {
                Ok(Message::Call(observation)) => {
                    self.report_gap();
                    let bytes = observation.content_bytes();
                    let record = observation.record(self.mode, &self.redactor);
                    self.counters.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
                    self.hand_over(AuditRecord::Call(Box::new(record)));
                }
                Ok(Message::Record(mut record)) => {
                    self.report_gap();
                    if let AuditRecord::Request(request) = &mut record {
                        let asked = request.input.take().filter(|_| self.mode == AuditMode::Full);
                        request.input = asked.map(|asked| self.redactor.input(&asked.to_string()));
                    }
                    self.hand_over(record);
                }
                Ok(Message::Flush(done)) => {
                    self.report_gap();
                    self.flush();
                    let _ = done.try_send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.report_gap();
                    self.flush();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.report_gap();
        self.flush();
    }

    /// Reports the records dropped or refused since the last gap.
    fn report_gap(&mut self) {
        let dropped = self.counters.dropped.load(Ordering::Acquire);
        let more = dropped.saturating_sub(std::mem::replace(&mut self.known, dropped));
        for outlet in &mut self.outlets {
            outlet.missing += more;
            self.unflushed |= outlet.missing > 0;
            outlet.report_gap(&*self.clock);
        }
    }

    fn hand_over(&mut self, mut record: AuditRecord) {
        self.unflushed = true;
        let refused =
            self.outlets.iter_mut().filter_map(|outlet| (!outlet.offer(&mut record)).then_some(1)).sum();
        self.counters.failed.fetch_add(refused, Ordering::AcqRel);
        self.counters.written.fetch_add(u64::from(refused == 0), Ordering::AcqRel);
    }

    fn flush(&mut self) {
        if !std::mem::take(&mut self.unflushed) {
            return;
        }
        for outlet in &mut self.outlets {
            if outlet.sink.flush().is_err() {
                self.counters.failed.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
}
