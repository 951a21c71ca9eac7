//! The signal that wakes the background thread, and its schedule.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Writers wait for a running checkpoint once they have written this many times the rows that trigger one.
const THROTTLE_FACTOR: usize = 8;

#[derive(Debug, Default)]
struct Wanted {
    checkpoint: bool,
    garbage: bool,
    accesses: bool,
    texts: bool,
    closed: bool,
    /// Alarms and their times, the earliest first.
    alarms: VecDeque<(Instant, oneshot::Sender<()>)>,
}

impl Wanted {
    /// Rings the alarms that are due.
    fn ring(&mut self, now: Instant) {
        while let Some((at, waiting)) = self.alarms.front() {
            if *at > now && !waiting.is_closed() {
                break;
            }
            if let Some((_, waiting)) = self.alarms.pop_front() {
                let _ = waiting.send(());
            }
        }
    }
}

/// Wakes the background thread.
#[derive(Debug)]
pub(crate) struct Signal {
    wanted: Mutex<Wanted>,
    wake: Condvar,
    written: AtomicUsize,
    checkpoint_rows: usize,
}

/// The work that is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) checkpoint: bool,
    pub(crate) garbage: bool,
    pub(crate) accesses: bool,
    /// Text indexes whose segments should be rebuilt.
    pub(crate) texts: bool,
    pub(crate) sweep: bool,
    pub(crate) closed: bool,
}

impl Signal {
    pub(crate) fn new(checkpoint_pages: u32) -> Self {
        Self {
            wanted: Mutex::default(),
            wake: Condvar::new(),
            written: AtomicUsize::new(0),
            checkpoint_rows: usize::try_from(checkpoint_pages).unwrap_or(usize::MAX),
        }
    }

    /// Counts committed rows; each dirties about a page.
    pub(crate) fn wrote(&self, rows: usize) {
        let before = self.written.fetch_add(rows, Ordering::Relaxed);
        if before < self.checkpoint_rows && before + rows >= self.checkpoint_rows {
            self.want(|wanted| wanted.checkpoint = true);
        }
    }

    /// Whether writers are so far ahead of a running checkpoint that they must wait for it. Otherwise the log would
    /// grow without bound if they write faster than the disk syncs.
    pub(crate) fn is_far_ahead(&self) -> bool {
        self.written.load(Ordering::Relaxed) / THROTTLE_FACTOR >= self.checkpoint_rows
    }

    pub(crate) fn checkpoint(&self) {
        self.want(|wanted| wanted.checkpoint = true);
    }

    pub(crate) fn garbage(&self) {
        self.want(|wanted| wanted.garbage = true);
    }

    pub(crate) fn accesses(&self) {
        self.want(|wanted| wanted.accesses = true);
    }

    pub(crate) fn texts(&self) {
        self.want(|wanted| wanted.texts = true);
    }

    pub(crate) fn close(&self) {
        self.want(|wanted| {
            wanted.closed = true;
            // Dropping an alarm tells its waiter that the database is closed.
            wanted.alarms.clear();
        });
    }

    /// A timer that completes after this time, which must be the same in every call. Fails if the database is closed
    /// first.
    pub(crate) fn alarm(&self, after: Duration) -> oneshot::Receiver<()> {
        let (ring, rung) = oneshot::channel();
        let now = Instant::now();
        let mut wanted = self.lock();
        if wanted.closed {
            return rung;
        }
        wanted.ring(now);
        let first = wanted.alarms.is_empty();
        wanted.alarms.push_back((now + after, ring));
        drop(wanted);
        if first {
            self.wake.notify_all();
        }
        rung
    }

    fn want(&self, set: impl FnOnce(&mut Wanted)) {
        set(&mut self.lock());
        self.wake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until work is requested or scheduled.
    pub(crate) fn wait(&self, schedule: &mut Schedule) -> Due {
        let mut wanted = self.lock();
        loop {
            let now = Instant::now();
            wanted.ring(now);
            let sweep = schedule.sweep.is_some_and(|(_, at)| at <= now);
            let flush = schedule.flush.1 <= now;
            let due = Due {
                checkpoint: wanted.checkpoint,
                garbage: wanted.garbage || sweep,
                accesses: wanted.accesses || flush,
                texts: wanted.texts,
                sweep,
                closed: wanted.closed,
            };
            if due != Due::default() {
                let alarms = std::mem::take(&mut wanted.alarms);
                *wanted = Wanted { closed: wanted.closed, alarms, ..Wanted::default() };
                if due.checkpoint {
                    self.written.store(0, Ordering::Relaxed);
                }
                if let Some((every, at)) = &mut schedule.sweep
                    && sweep
                {
                    *at = now + *every;
                }
                if due.accesses {
                    schedule.flush.1 = now + schedule.flush.0;
                }
                return due;
            }
            let alarm = wanted.alarms.front().map(|(at, _)| *at);
            let sweep = schedule.sweep.map(|(_, at)| at);
            let next = [alarm, sweep].into_iter().flatten().fold(schedule.flush.1, Instant::min);
            wanted = self
                .wake
                .wait_timeout(wanted, next.saturating_duration_since(now))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// When regular work is due next, with its interval.
#[derive(Debug)]
pub(crate) struct Schedule {
    sweep: Option<(Duration, Instant)>,
    flush: (Duration, Instant),
}

impl Schedule {
    pub(crate) fn new(config: &crate::SqliteConfig) -> Self {
        let now = Instant::now();
        let every = |millis| {
            let interval = Duration::from_millis(millis);
            (interval, now + interval)
        };
        Self {
            sweep: (config.sweep_interval_ms > 0).then(|| every(config.sweep_interval_ms)),
            flush: every(config.access_flush_ms),
        }
    }
}
