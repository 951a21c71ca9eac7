//! What calls are waiting for, so that a stuck store can report it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A call that waits this long is reported.
pub(crate) const LONG: Duration = Duration::from_secs(10);
/// Least time between two warnings about the same thing.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// What a resource is in use for, and since when.
#[derive(Debug, Default)]
pub(crate) struct Busy(Mutex<Option<(&'static str, Instant)>>);

impl Busy {
    /// Marks the resource as in use until the guard is dropped.
    pub(crate) fn with(&self, what: &'static str) -> Ongoing<'_> {
        self.since(what, Instant::now())
    }

    /// As [`with`](Self::with), from an earlier time.
    pub(crate) fn since(&self, what: &'static str, since: Instant) -> Ongoing<'_> {
        *lock(&self.0) = Some((what, since));
        Ongoing(self)
    }

    fn now(&self) -> Option<(&'static str, Duration)> {
        lock(&self.0).map(|(what, since)| (what, since.elapsed()))
    }
}

/// Marks a resource as in use until it is dropped.
pub(crate) struct Ongoing<'b>(&'b Busy);

impl Drop for Ongoing<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}

/// Calls that wait, and what they wait for.
#[derive(Debug)]
pub(crate) struct Stuck {
    /// `writes` or `reads`.
    calls: &'static str,
    count: usize,
    longest: Duration,
    /// What keeps them waiting, and for how long already.
    behind: Vec<(&'static str, Duration)>,
}

impl Stuck {
    /// `count` waiting calls, the first since `oldest`, and what they wait for.
    pub(crate) fn new<'b>(
        calls: &'static str,
        count: usize,
        oldest: Option<Instant>,
        busy: impl IntoIterator<Item = &'b Busy>,
    ) -> Self {
        let longest = oldest.map_or(Duration::ZERO, |oldest| oldest.elapsed());
        Self { calls, count, longest, behind: busy.into_iter().filter_map(Busy::now).collect() }
    }

    /// `Some` if a call has been waiting for long.
    pub(crate) fn if_calls_wait(self) -> Option<Self> {
        (self.longest >= LONG).then_some(self)
    }

    /// `Some` if a call, or what calls wait for, has been taking long.
    pub(crate) fn if_anything_is_long(self) -> Option<Self> {
        (self.longest >= LONG || self.behind.iter().any(|(_, since)| *since >= LONG)).then_some(self)
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} wait", self.count, self.calls)?;
        if self.count > 0 {
            write!(f, ", the longest for {} s", self.longest.as_secs())?;
        }
        for (what, since) in &self.behind {
            write!(f, "; {what} has been going on for {} s", since.as_secs())?;
        }
        Ok(())
    }
}

/// Warns about one matter, at most once per interval.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Mutex<Option<Instant>>);

impl Alarm {
    /// Whether to warn now.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = lock(&self.0);
        let is_due = last.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }

    pub(crate) fn raise(&self, stuck: &Stuck) {
        if self.is_due() {
            tracing::warn!(waits = %stuck, "calls to the database have waited for long");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
