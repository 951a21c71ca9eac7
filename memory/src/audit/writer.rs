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
    sinks: Vec<Box<dyn AuditSink>>,
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
    /// The number of the last record.
    number: u64,
    /// Dropped records already reported by a gap.
    reported: u64,
    unflushed: bool,
}

impl Writer {
    pub(super) fn new(
        mode: AuditMode,
        redactor: Redactor,
        sinks: Vec<Box<dyn AuditSink>>,
        counters: Arc<Counters>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { mode, redactor, sinks, counters, clock, number: 0, reported: 0, unflushed: false }
    }

    /// Writes records until every sender is gone.
    pub(super) fn work(mut self, receiver: &Receiver<Message>) {
        loop {
            match receiver.recv_timeout(IDLE) {
                Ok(Message::Call(observation)) => {
                    self.report_gap();
                    let bytes = observation.content_bytes();
                    self.number += 1;
                    let record = observation.record(self.number, self.mode, &self.redactor);
                    self.counters.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
                    self.hand_over(&AuditRecord::Call(Box::new(record)));
                }
                Ok(Message::Record(mut record)) => {
                    self.report_gap();
                    self.number += 1;
                    record.set_number(self.number);
                    self.hand_over(&record);
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

    /// Reports the records that were dropped since the last gap.
    fn report_gap(&mut self) {
        let dropped = self.counters.dropped.load(Ordering::Acquire);
        let records = dropped.saturating_sub(self.reported);
        if records > 0 {
            self.number += 1;
            let gap = AuditGap { number: self.number, time: self.clock.now(), dropped: records };
            self.reported = dropped;
            self.hand_over(&AuditRecord::Gap(gap));
        }
    }

    fn hand_over(&mut self, record: &AuditRecord) {
        self.unflushed = true;
        let mut taken = true;
        for sink in &mut self.sinks {
            if sink.write(record).is_err() {
                taken = false;
                self.counters.failed.fetch_add(1, Ordering::AcqRel);
            }
        }
        if taken && !matches!(record, AuditRecord::Gap(_)) {
            self.counters.written.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn flush(&mut self) {
        if !std::mem::take(&mut self.unflushed) {
            return;
        }
        for sink in &mut self.sinks {
            if sink.flush().is_err() {
                self.counters.failed.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
}
