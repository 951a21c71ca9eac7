//! The progress of a long operation, and how to stop it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memory_core::{Error, Result, Retry};

/// The progress of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Scopes finished.
    pub scopes: u64,
    /// Entries read so far, including those left unchanged.
    pub entries: u64,
    /// Lines of SQL dumps read so far.
    pub sql_lines: u64,
    /// Bytes of the file written or read so far; 0 for a migration.
    pub bytes: u64,
}

type Show = dyn Fn(&Progress) + Send + Sync;

/// Observes an operation, and stops it.
#[derive(Clone, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    show: Option<Arc<Show>>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("is_stopped", &self.is_stopped()).finish_non_exhaustive()
    }
}

impl Control {
    /// Calls `show` from time to time, at least after each scope. It should return immediately.
    #[must_use]
    pub fn with_progress(mut self, show: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.show = Some(Arc::new(show));
        self
    }

    /// Ends the operation soon, with `unavailable`; what was completed stays.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked to stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub(super) fn show(&self, progress: &Progress) {
        if let Some(show) = &self.show {
            show(progress);
        }
    }

    pub(super) fn go_on(&self) -> Result<()> {
        if self.is_stopped() {
            return Err(Error::unavailable(
                "the operation was stopped; what was completed stays, and running it again continues",
            )
            .with_retry(Retry::Now)
            .with_detail("stopped", true));
        }
        Ok(())
    }
}
