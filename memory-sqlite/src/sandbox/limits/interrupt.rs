//! Ends a statement from within the engine: at its deadline, when cancelled, or when the log grows too long.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::sandbox::statement::Cancel;

/// How often the log's length is checked while a statement runs.
const CHECK_LOG_EVERY: Duration = Duration::from_millis(10);

/// The reasons to end a statement from within the engine; shared with the progress handler.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct Interrupt {
    pub(in crate::sandbox) deadline: Option<Instant>,
    pub(in crate::sandbox) cancel: Cancel,
    /// The write-ahead log, on a connection that writes.
    pub(in crate::sandbox) log: Option<Log>,
    pub(in crate::sandbox) interrupted: Option<Interrupted>,
}

/// A write-ahead log, which cannot shrink while a statement runs.
#[derive(Clone, Debug)]
pub(in crate::sandbox) struct Log {
    pub(in crate::sandbox) file: PathBuf,
    pub(in crate::sandbox) most_bytes: u64,
    pub(in crate::sandbox) checked: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sandbox) enum Interrupted {
    Deadline,
    Cancelled,
    LogFull,
}

impl Interrupt {
    pub(in crate::sandbox) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if self.cancel.is_cancelled() {
            self.interrupted.get_or_insert(Interrupted::Cancelled);
        } else if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.interrupted.get_or_insert(Interrupted::Deadline);
        } else if self.log.as_mut().is_some_and(|log| log.is_full(now)) {
            self.interrupted.get_or_insert(Interrupted::LogFull);
        }
        self.interrupted.is_some()
    }
}

impl Log {
    fn is_full(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.checked) < CHECK_LOG_EVERY {
            return false;
        }
        self.checked = now;
        std::fs::metadata(&self.file).is_ok_and(|found| found.len() > self.most_bytes)
    }
}
