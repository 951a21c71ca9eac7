//! The queue between operations and the auditor's thread.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use memory_core::{Clock, Error, Figure, Result};

use super::observation::Observation;
use super::queue::{Counters, Message};
use super::record::{AuditCounts, AuditEviction, AuditForget, AuditMode, AuditRecord, AuditRequest};
use super::redact::Redactor;
use super::sink::AuditSink;
use super::writer::Writer;

/// Most records waiting in the queue.
const QUEUE_RECORDS: usize = 8_192;
/// Most bytes of input waiting in the queue; further records are kept without their content.
const QUEUE_BYTES: usize = 16 << 20;

/// Takes a record of every operation and passes it to its sinks. Share it between tools with `Arc`; dropping the last
/// one writes what is still queued.
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

/// Builds an [`Auditor`].
#[derive(Debug)]
pub struct AuditorBuilder {
    clock: Arc<dyn Clock>,
    mode: AuditMode,
    redactor: Redactor,
    sinks: Vec<Box<dyn AuditSink>>,
    queue: usize,
}

impl AuditorBuilder {
    memory_core::setters! {
        /// Default: [`AuditMode::Metadata`].
        mode(mode: AuditMode);
        /// Default: [`Redactor::default`].
        redactor(redactor: Redactor);
        /// How many records may be queued: 1 to 1,000,000, clamped. Default 8,192.
        queue(queue: usize => queue.clamp(1, 1_000_000));
    }

    /// Adds a sink.
    #[must_use]
    pub fn sink(mut self, sink: impl AuditSink + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Starts the auditor's thread.
    ///
    /// # Errors
    /// `unavailable` if no thread can be started.
    pub fn start(self) -> Result<Auditor> {
        let (queue, receiver) = sync_channel(self.queue);
        let counters = Arc::new(Counters::default());
        let writer =
            Writer::new(self.mode, self.redactor, self.sinks, Arc::clone(&counters), Arc::clone(&self.clock));
        let thread = std::thread::Builder::new()
            .name("memory-audit".to_owned())
            .spawn(move || writer.work(&receiver))
            .map_err(|error| {
                Error::unavailable("no thread can be started for the audit; try again").with_source(error)
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
    /// Starts building an auditor. Without a sink its records are only counted.
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

    /// Counters of the records so far.
    #[must_use]
    pub fn counts(&self) -> AuditCounts {
        AuditCounts {
            written: self.counters.written.load(Ordering::Acquire),
            dropped: self.counters.dropped.load(Ordering::Acquire),
            failed: self.counters.failed.load(Ordering::Acquire),
        }
    }

    /// The same for `/metrics`.
    #[must_use]
    pub fn figures(&self) -> [Figure; 2] {
        let AuditCounts { written, dropped, failed } = self.counts();
        [
            Figure::counter("audit_records_total", "Records of the audit that were written.", written),
            Figure::counter(
                "audit_missing_total",
                "Those that were dropped or could not be written.",
                dropped + failed,
            ),
        ]
    }

    /// Waits, for at most `timeout`, until every record taken so far has reached the sinks and they are flushed.
    /// Returns whether that happened. Blocks.
    pub fn flush(&self, timeout: Duration) -> bool {
        let (done, finished) = sync_channel(1);
        let Some(queue) = self.lock().clone() else { return true };
        // The queue may be full, so another thread waits for space while this one waits for the answer.
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
    pub(super) fn take(&self, mut observation: Observation) {
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
        let sent = queue.is_some_and(|queue| queue.try_send(Message::Call(Box::new(observation))).is_ok());
        if !sent {
            self.counters.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.counters.dropped.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Takes the record of an answered request; never waits.
    pub fn requested(&self, mut record: AuditRequest) {
        record.time = self.now();
        self.send(AuditRecord::Request(Box::new(record)));
    }

    /// Takes the record of an eviction; never waits.
    pub(crate) fn evicted(&self, mut record: AuditEviction) {
        record.time = self.now();
        self.send(AuditRecord::Eviction(Box::new(record)));
    }

    /// Takes the record of a forget; never waits.
    pub(crate) fn forgot(&self, mut record: AuditForget) {
        record.time = self.now();
        self.send(AuditRecord::Forget(Box::new(record)));
    }

    fn send(&self, record: AuditRecord) {
        let sent = self.lock().clone().is_some_and(|queue| queue.try_send(Message::Record(record)).is_ok());
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
