//! Who did what to which memory: one record for every operation of the [`MemoryTool`](crate::MemoryTool), refusals and
//! cancelled calls included. `docs/audit.md` describes the record.
//!
//! An operation never waits for its record: it is handed to a bounded queue, and where that is full the record is
//! dropped and counted. Redaction and writing happen on the auditor's own thread. What was dropped is reported in the
//! stream itself, as a record of kind `gap`.

mod content;
mod facts;
mod json_lines;
mod record;
mod redact;
mod sink;
mod statement;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use memory_core::{Clock, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

pub use json_lines::JsonLines;
pub use record::{AuditCall, AuditEviction, AuditForget, AuditGap, AuditRecord};
pub use redact::{REDACTED, Redactor};
pub use sink::{AuditSink, TracingSink};

pub(crate) use facts::{Facts, Observation};

/// Records that wait, at most.
const QUEUE_RECORDS: usize = 8_192;
/// Bytes of input that wait, at most; a record beyond it goes without its content.
const QUEUE_BYTES: usize = 16 << 20;
/// How long an idle auditor waits before it flushes its sinks.
const IDLE: Duration = Duration::from_millis(200);

/// How much a record says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditMode {
    /// Who, what, where, how much and how it ended; keys and prefixes redacted, no value, text or statement.
    #[default]
    Metadata,
    /// The redacted input of the call too.
    Full,
}

/// What has become of the records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditCounts {
    /// Taken by every sink.
    pub written: u64,
    /// Given up because the queue was full.
    pub dropped: u64,
    /// Refused by a sink (a full disk, say), counted once for each sink.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    waiting_bytes: AtomicUsize,
}

enum Message {
    Record(Box<Observation>),
    Eviction(Box<AuditEviction>),
    Forget(Box<AuditForget>),
    Flush(SyncSender<()>),
}

/// Takes a record of every operation and hands it to its sinks. Share it among tools with `Arc`; dropping the last one
/// writes what waits.
///
/// ```
/// use std::sync::Arc;
/// use memory::audit::{AuditMode, Auditor, TracingSink};
/// let auditor = Auditor::builder(Arc::new(memory::system::SystemClock))
///     .mode(AuditMode::Full)
///     .sink(TracingSink)
///     .start()?;
/// assert_eq!(auditor.counts().dropped, 0);
/// # Ok::<(), memory::Error>(())
/// ```
#[derive(Debug)]
pub struct Auditor {
    mode: AuditMode,
    clock: Arc<dyn Clock>,
    queue: Mutex<Option<SyncSender<Message>>>,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

/// Settings of an [`Auditor`].
#[derive(Debug)]
pub struct AuditorBuilder {
    clock: Arc<dyn Clock>,
    mode: AuditMode,
    redactor: Redactor,
    sinks: Vec<Box<dyn AuditSink>>,
    queue: usize,
}

impl AuditorBuilder {
    /// Sets how much a record says. Default: [`AuditMode::Metadata`].
    #[must_use]
    pub fn mode(mut self, mode: AuditMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what is redacted. Default: [`Redactor::default`].
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Adds a sink.
    #[must_use]
    pub fn sink(mut self, sink: impl AuditSink + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Sets how many records may wait: 1 to 1,000,000, clamped. Default 8,192.
    #[must_use]
    pub fn queue(mut self, records: usize) -> Self {
        self.queue = records.clamp(1, 1_000_000);
        self
    }

    /// Starts the auditor's thread.
    ///
    /// # Errors
    /// `unavailable` where no thread can be started.
    pub fn start(self) -> Result<Auditor> {
        let (queue, receiver) = sync_channel(self.queue);
        let counters = Arc::new(Counters::default());
        let desk = Desk {
            mode: self.mode,
            redactor: self.redactor,
            sinks: self.sinks,
            counters: Arc::clone(&counters),
            clock: Arc::clone(&self.clock),
            number: 0,
            reported: 0,
            unflushed: false,
        };
        let thread = std::thread::Builder::new()
            .name("memory-audit".to_owned())
            .spawn(move || desk.work(&receiver))
            .map_err(|error| {
                Error::new(ErrorKind::Unavailable, "no thread can be started for the audit; try again")
                    .with_source(error)
            })?;
        Ok(Auditor {
            mode: self.mode,
            clock: self.clock,
            queue: Mutex::new(Some(queue)),
            counters,
            thread: Mutex::new(Some(thread)),
        })
    }
}

impl Auditor {
    /// An auditor to be set up; without a sink its records go nowhere, and are counted.
    #[must_use]
    pub fn builder(clock: Arc<dyn Clock>) -> AuditorBuilder {
        AuditorBuilder {
            clock,
            mode: AuditMode::default(),
            redactor: Redactor::default(),
            sinks: Vec::new(),
            queue: QUEUE_RECORDS,
        }
    }

    /// What has become of the records so far.
    #[must_use]
    pub fn counts(&self) -> AuditCounts {
        AuditCounts {
            written: self.counters.written.load(Ordering::Acquire),
            dropped: self.counters.dropped.load(Ordering::Acquire),
            failed: self.counters.failed.load(Ordering::Acquire),
        }
    }

    /// Waits until every record taken before is with the sinks and they are flushed, at most `timeout`. Returns whether
    /// it came to that. Blocks.
    pub fn flush(&self, timeout: Duration) -> bool {
        let (done, finished) = sync_channel(1);
        let Some(queue) = self.lock().clone() else { return true };
        // The queue may be full for a moment; a thread of its own may wait for room, this one waits for the answer.
        let sent = std::thread::Builder::new()
            .name("memory-audit-flush".to_owned())
            .spawn(move || drop(queue.send(Message::Flush(done))))
            .is_ok();
        sent && finished.recv_timeout(timeout).is_ok()
    }

    pub(crate) fn mode(&self) -> AuditMode {
        self.mode
    }

    pub(crate) fn now(&self) -> memory_core::Timestamp {
        self.clock.now()
    }

    /// Takes a record; never waits.
    pub(crate) fn take(&self, mut observation: Observation) {
        let bytes = observation.content_bytes();
        let before = self.counters.waiting_bytes.fetch_add(bytes, Ordering::AcqRel);
        let bytes = if before.saturating_add(bytes) > QUEUE_BYTES {
            self.counters.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            observation.omit_content();
            0
        } else {
            bytes
        };
        let queue = self.lock().clone();
        let refused = match queue {
            Some(queue) => match queue.try_send(Message::Record(Box::new(observation))) {
                Ok(()) => return,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => true,
            },
            None => true,
        };
        if refused {
            self.counters.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.counters.dropped.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Takes the record of an eviction; never waits.
    pub(crate) fn evicted(&self, mut record: AuditEviction) {
        record.time = self.now();
        self.send(Message::Eviction(Box::new(record)));
    }

    /// Takes the record of something forgotten; never waits.
    pub(crate) fn forgot(&self, mut record: AuditForget) {
        record.time = self.now();
        self.send(Message::Forget(Box::new(record)));
    }

    fn send(&self, message: Message) {
        let sent = self.lock().clone().is_some_and(|queue| queue.try_send(message).is_ok());
        if !sent {
            self.counters.dropped.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<SyncSender<Message>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        drop(self.lock().take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A sink that panicked has ended the thread; there is nothing left to write.
            let _ = thread.join();
        }
    }
}

/// The auditor's thread.
struct Desk {
    mode: AuditMode,
    redactor: Redactor,
    sinks: Vec<Box<dyn AuditSink>>,
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
    /// Of the last record.
    number: u64,
    /// Dropped records that a gap has told of.
    reported: u64,
    unflushed: bool,
}

impl Desk {
    fn work(mut self, receiver: &Receiver<Message>) {
        loop {
            match receiver.recv_timeout(IDLE) {
                Ok(Message::Record(observation)) => {
                    self.report_gap();
                    let bytes = observation.content_bytes();
                    self.number += 1;
                    let record = observation.record(self.number, self.mode, &self.redactor);
                    self.counters.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
                    self.hand_over(&AuditRecord::Call(Box::new(record)));
                }
                Ok(Message::Eviction(mut record)) => {
                    self.report_gap();
                    self.number += 1;
                    record.number = self.number;
                    self.hand_over(&AuditRecord::Eviction(record));
                }
                Ok(Message::Forget(mut record)) => {
                    self.report_gap();
                    self.number += 1;
                    record.number = self.number;
                    self.hand_over(&AuditRecord::Forget(record));
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

    /// Tells of the records that were dropped since the last one.
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
