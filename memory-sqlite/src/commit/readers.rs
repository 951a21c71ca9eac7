//! Reads: short ones on the caller's thread, long ones on worker threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use memory_core::{Error, Result};
use rusqlite::{Connection, InterruptHandle};
use tokio::sync::oneshot;

use super::waits::{Alarm, Busy, LONG, Stuck};
use super::writer::Writer;
use crate::error::{Unreadable, closed, is_busy, overloaded};

/// Most reads that wait for a thread.
const QUEUE: usize = 4_096;

/// A result, or `TooMuch` if the read is too long for a caller's thread.
#[derive(Debug)]
pub(crate) enum Step<T> {
    Done(T),
    TooMuch,
}

/// How much may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    Inline,
    Unlimited,
}

/// Connections that callers read with.
#[derive(Debug)]
pub(crate) enum Readers {
    /// The free ones.
    Pool(Mutex<Vec<Connection>>),
    /// A database in memory has one connection for everything.
    Shared(Arc<Writer>),
}

impl Readers {
    /// Reads on this thread if a connection is free and SQLite's lock is not taken; `None` means to read on a worker.
    pub(crate) fn inline<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Unreadable>,
    ) -> Option<Result<T>> {
        let read = match self {
            Self::Pool(pool) => {
                let connection = lock(pool).pop()?;
                let read = read(&connection);
                lock(pool).push(connection);
                read
            }
            Self::Shared(writer) => {
                let connection = writer.try_connection()?;
                read(&connection)
            }
        };
        match read {
            Err(Unreadable::Engine(error)) if is_busy(&error) => None,
            other => Some(other.map_err(Error::from)),
        }
    }
}

type Work = Box<dyn FnOnce(&Connection) + Send>;

#[derive(Default)]
struct Queue {
    work: VecDeque<(Instant, Work)>,
    closed: bool,
}

/// Threads that read, each with a connection.
pub(crate) struct Workers {
    queue: Mutex<Queue>,
    wake: Condvar,
    interrupts: Mutex<Vec<InterruptHandle>>,
    /// What each thread is doing.
    busy: Mutex<Vec<Arc<Busy>>>,
    alarm: Alarm,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workers")
    }
}

/// The connection of a worker.
pub(crate) enum WorkerConnection {
    Own(Connection),
    Shared(Arc<Writer>),
}

impl Workers {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::default(),
            wake: Condvar::new(),
            interrupts: Mutex::default(),
            busy: Mutex::default(),
            alarm: Alarm::default(),
        }
    }

    /// Reads on a worker.
    pub(crate) async fn run<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            // The caller may have gone away.
            if !reply.is_closed() {
                let _ = reply.send(read(connection));
            }
        });
        self.push(work)?;
        answer.await.unwrap_or_else(|_| {
            Err(if lock(&self.queue).closed {
                closed()
            } else {
                Error::internal("a read ended without an answer, which is a bug; please report it")
            })
        })
    }

    /// Whether a worker answers within this time.
    pub(crate) fn answers(
        &self,
        read: fn(&Connection) -> Result<()>,
        within: Duration,
    ) -> Option<Result<()>> {
        let (reply, answer) = mpsc::sync_channel(1);
        let work: Work = Box::new(move |connection| drop(reply.try_send(read(connection))));
        if let Err(error) = self.push(work) {
            return Some(Err(error));
        }
        match answer.recv_timeout(within) {
            Ok(read) => Some(read),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => Some(Err(closed())),
        }
    }

    fn push(&self, work: Work) -> Result<()> {
        let since = Instant::now();
        let mut queue = lock(&self.queue);
        if queue.closed {
            return Err(closed());
        }
        if queue.work.len() >= QUEUE {
            return Err(overloaded("reads"));
        }
        queue.work.push_back((since, work));
        let late =
            queue.work.front().is_some_and(|(first, _)| since.saturating_duration_since(*first) >= LONG);
        drop(queue);
        self.wake.notify_one();
        if late {
            self.warn_if_stuck();
        }
        Ok(())
    }

    /// Reads that have waited for long, and what they wait for.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        let (count, oldest) = {
            let queue = lock(&self.queue);
            (queue.work.len(), queue.work.front().map(|(since, _)| *since))
        };
        let busy = lock(&self.busy);
        Stuck::new("reads", count, oldest, busy.iter().map(|busy| &**busy)).if_calls_wait()
    }

    /// Warns if reads have waited for long.
    pub(crate) fn warn_if_stuck(&self) {
        self.stuck().iter().for_each(|stuck| self.alarm.raise(stuck));
    }

    /// A worker's thread: reads until [`close`](Self::close).
    pub(crate) fn work(&self, reads_with: &WorkerConnection) {
        if let WorkerConnection::Own(connection) = reads_with {
            lock(&self.interrupts).push(connection.get_interrupt_handle());
        }
        let busy = Arc::new(Busy::default());
        lock(&self.busy).push(Arc::clone(&busy));
        while let Some(work) = self.next() {
            let _busy = busy.with("a read");
            // A panic in one read must not end the thread.
            let worked = match reads_with {
                WorkerConnection::Own(connection) => catch_unwind(AssertUnwindSafe(|| work(connection))),
                WorkerConnection::Shared(writer) => {
                    let connection = writer.connection("a read");
                    catch_unwind(AssertUnwindSafe(|| work(&connection)))
                }
            };
            if worked.is_err() {
                tracing::error!("a read panicked");
            }
        }
    }

    fn next(&self) -> Option<Work> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            if let Some((_, work)) = queue.work.pop_front() {
                return Some(work);
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads that wait for a thread.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.queue).work.len()
    }

    /// Ends the threads. Waiting reads are dropped, running ones interrupted.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut queue = lock(&self.queue);
            queue.closed = true;
            std::mem::take(&mut queue.work)
        };
        self.wake.notify_all();
        drop(waiting);
        lock(&self.interrupts).iter().for_each(InterruptHandle::interrupt);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
