//! Closes a provider: once, on a separate thread, and callers wait for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::lifecycle::upkeep::Upkeep;
#[cfg(not(feature = "sql"))]
use crate::no_sql::Engine;
#[cfg(feature = "sql")]
use crate::sql::Engine;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    Begun,
    Over,
}

/// What is left to do when a provider is closed or dropped.
#[derive(Debug)]
pub(crate) struct Closing {
    sql: Arc<Engine>,
    upkeep: Arc<Upkeep>,
    stage: Mutex<Stage>,
    over: Condvar,
}

impl Closing {
    pub(crate) fn new(sql: &Arc<Engine>, upkeep: &Arc<Upkeep>) -> Arc<Self> {
        Arc::new(Self {
            sql: Arc::clone(sql),
            upkeep: Arc::clone(upkeep),
            stage: Mutex::new(Stage::Open),
            over: Condvar::new(),
        })
    }

    /// Closes, or waits if another thread is already doing so. Blocks.
    pub(crate) fn run(&self) {
        struct Over<'c>(&'c Closing);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                *lock(&self.0.stage) = Stage::Over;
                self.0.over.notify_all();
            }
        }
        let mut stage = lock(&self.stage);
        if *stage == Stage::Open {
            *stage = Stage::Begun;
            drop(stage);
            let _over = Over(self);
            self.upkeep.store().refuse();
            self.sql.close();
            self.upkeep.close();
            return;
        }
        while *stage != Stage::Over {
            stage = self.over.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes on a separate thread, for which only [`wait_until_closed`] waits. Does nothing if closing has begun.
    pub(crate) fn hand_over(self: &Arc<Self>) {
        if *lock(&self.stage) != Stage::Open {
            return;
        }
        // Refuse calls from now on, not only once the thread gets to it.
        self.upkeep.store().refuse();
        // Done here because the program may end before the thread does. If a running statement is in the way, the
        // thread does it.
        self.sql.discard_temporary();
        let (closing, under_way) = (Arc::clone(self), UnderWay::begin());
        let run = move || {
            closing.run();
            // Whoever holds the files open last closes them.
            drop(closing);
            drop(under_way);
        };
        if std::thread::Builder::new().name("memory-sqlite-close".to_owned()).spawn(run).is_err() {
            // Nothing in it waits for an executor.
            self.run();
        }
    }
}

/// Dropped providers that are still closing, by number.
static UNDER_WAY: Mutex<Numbers> = Mutex::new(Numbers { next: 0, open: BTreeSet::new() });
static ONE_LESS: Condvar = Condvar::new();

struct Numbers {
    next: u64,
    open: BTreeSet<u64>,
}

struct UnderWay(u64);

impl UnderWay {
    fn begin() -> Self {
        let mut numbers = lock(&UNDER_WAY);
        let number = numbers.next;
        numbers.next += 1;
        numbers.open.insert(number);
        Self(number)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&UNDER_WAY).open.remove(&self.0);
        ONE_LESS.notify_all();
    }
}

/// Waits until every [`SqliteProvider`](crate::SqliteProvider) of this process dropped so far has closed its files;
/// returns false if that takes longer. Blocks: it is meant for the end of `main`, after the runtime.
#[must_use]
pub fn wait_until_closed(patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    let mut numbers = lock(&UNDER_WAY);
    let so_far = numbers.next;
    while numbers.open.first().is_some_and(|first| *first < so_far) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        numbers = ONE_LESS.wait_timeout(numbers, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    true
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
