//! What calls wait for, so that a store that is stuck can say so.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A call that waits for so long is told of.
pub(crate) const LONG: Duration = Duration::from_secs(10);
/// The pause between two warnings about the same.
const AGAIN: Duration = Duration::from_secs(60);

/// What something is busy with, and since when.
#[derive(Debug, Default)]
pub(crate) struct Busy(Mutex<Option<(&'static str, Instant)>>);

impl Busy {
    /// It is busy until the guard is dropped.
    pub(crate) fn with(&self, what: &'static str) -> Ongoing<'_> {
        self.since(what, Instant::now())
    }

    /// As [`with`](Self::with), since then.
    pub(crate) fn since(&self, what: &'static str, since: Instant) -> Ongoing<'_> {
        *lock(&self.0) = Some((what, since));
        Ongoing(self)
    }

    fn now(&self) -> Option<(&'static str, Duration)> {
        lock(&self.0).map(|(what, since)| (what, since.elapsed()))
    }
}

/// While it lives, something is busy.
pub(crate) struct Ongoing<'b>(&'b Busy);

impl Drop for Ongoing<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}

/// Calls that have waited for long, and what for.
#[derive(Debug)]
pub(crate) struct Stuck {
    /// `writes` or `reads`.
    calls: &'static str,
    count: usize,
    longest: Duration,
    /// What keeps them waiting, each with its time.
    behind: Vec<(&'static str, Duration)>,
}

impl Stuck {
    /// Looks at calls of which so many wait, the longest since then, and at what they wait for.
    pub(crate) fn look<'b>(
        calls: &'static str,
        count: usize,
        oldest: Option<Instant>,
        busy: impl IntoIterator<Item = &'b Busy>,
    ) -> Self {
        let longest = oldest.map_or(Duration::ZERO, |oldest| oldest.elapsed());
        Self { calls, count, longest, behind: busy.into_iter().filter_map(Busy::now).collect() }
    }

    /// Itself, if a call has waited for long.
    pub(crate) fn if_calls_wait(self) -> Option<Self> {
        (self.longest >= LONG).then_some(self)
    }

    /// Itself, if a call has waited for long, or what calls wait for has been going on for long.
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

/// Warns of what is stuck, but not all the time.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Mutex<Option<Instant>>);

impl Alarm {
    pub(crate) fn raise(&self, stuck: &Stuck) {
        let mut last = lock(&self.0);
        if last.is_some_and(|last| last.elapsed() < AGAIN) {
            return;
        }
        *last = Some(Instant::now());
        drop(last);
        tracing::warn!(waits = %stuck, "calls to the database have waited for long");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
