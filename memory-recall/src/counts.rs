//! What the layer counts for the operator.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use memory_core::{Error, Figure};

/// Counters of a layer. They say nothing about any tenant.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    recalls_failed: AtomicU64,
    recall_micros: AtomicU64,
    adds: AtomicU64,
    adds_failed: AtomicU64,
    add_micros: AtomicU64,
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

impl Counts {
    /// Counts a recall by how many facts it found.
    pub(crate) fn recalled(&self, found: Result<usize, &Error>, took: Duration) {
        match found {
            Ok(0) => &self.misses,
            Ok(_) => &self.hits,
            Err(_) => &self.recalls_failed,
        }
        .fetch_add(1, Relaxed);
        self.recall_micros.fetch_add(micros(took), Relaxed);
    }

    /// Counts an add.
    pub(crate) fn added(&self, stored: Result<usize, &Error>, took: Duration) {
        match stored {
            Ok(_) => &self.adds,
            Err(_) => &self.adds_failed,
        }
        .fetch_add(1, Relaxed);
        self.add_micros.fetch_add(micros(took), Relaxed);
    }

    pub(crate) fn figures(&self) -> [Figure; 7] {
        let of = |name, help, counter: &AtomicU64| Figure::counter(name, help, counter.load(Relaxed));
        [
            of("recall_hits_total", "Recalls that found something.", &self.hits),
            of("recall_misses_total", "Recalls that found nothing.", &self.misses),
            of("recall_failed_total", "Recalls that failed.", &self.recalls_failed),
            of("recall_microseconds_total", "Time that recalls took.", &self.recall_micros),
            of("add_done_total", "Calls that added messages.", &self.adds),
            of("add_failed_total", "Calls that failed to add messages.", &self.adds_failed),
            of("add_microseconds_total", "Time that adding messages took.", &self.add_micros),
        ]
    }
}
