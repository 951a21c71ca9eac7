//! Group commit: a caller that finds the connection free runs all queued operations in one transaction.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use memory_core::{Error, Result};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::batch::{Batch, Context};
use super::threads::block_on;
use crate::config::Durability;
use crate::error::{self, Fault, closed, engine, locked, lost, overloaded};

/// Most operations of one transaction.
const BATCH_OPERATIONS: usize = 512;
/// Most bytes of one transaction that runs on a caller's thread.
const INLINE_BYTES: usize = 256 << 10;
/// Transactions a caller runs for others before it leaves the rest to the writer's thread.
const INLINE_ROUNDS: usize = 4;

/// What an operation costs, as far as can be told before it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Memory it holds while it waits.
    pub(crate) bytes: usize,
    /// Whether it may take longer than a caller's thread should be held.
    pub(crate) slow: bool,
}

impl Cost {
    /// A write of one entry of about this many bytes.
    pub(crate) fn entry(bytes: usize) -> Self {
        Self { bytes, slow: bytes > INLINE_BYTES }
    }

    /// Anything longer.
    pub(crate) fn slow(bytes: usize) -> Self {
        Self { bytes, slow: true }
    }

    /// What shares its transaction with nothing, and so runs once.
    pub(crate) fn alone() -> Self {
        Self { bytes: INLINE_BYTES + 1, slow: true }
    }
}

/// A queued operation. It is answered after the commit, and may run again after a rollback.
trait Job: Send {
    fn abandoned(&self) -> bool;
    fn run(&mut self, batch: &mut Batch<'_>) -> Result<(), rusqlite::Error>;
    /// Whether it ran and refused.
    fn is_refused(&self) -> bool;
    fn answer(self: Box<Self>, failure: Option<Error>);
}

struct Pending<T, F> {
    operation: F,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for Pending<T, F>
where
    T: Send,
    F: FnMut(&mut Batch<'_>) -> Result<T, Fault> + Send,
{
    fn abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, batch: &mut Batch<'_>) -> Result<(), rusqlite::Error> {
        self.result = Some(match (self.operation)(batch) {
            Ok(value) => Ok(value),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Engine(error)) => return Err(error),
        });
        Ok(())
    }

    fn is_refused(&self) -> bool {
        matches!(self.result, Some(Err(_)))
    }

    fn answer(self: Box<Self>, failure: Option<Error>) {
        let result = match failure {
            Some(error) => Err(error),
            None => self.result.unwrap_or_else(|| Err(lost())),
        };
        // A caller that went away does not care.
        let _ = self.reply.send(result);
    }
}

struct Queued {
    job: Box<dyn Job>,
    cost: Cost,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Queued>,
    bytes: usize,
    closed: bool,
}

enum Taken {
    Jobs(Vec<Queued>),
    Empty,
    /// The next one is not for a caller's thread.
    Slow,
}

/// The one writing connection and the queue of operations for it.
pub(crate) struct Writer {
    queue: Mutex<Queue>,
    /// Wakes the writer's thread.
    wake: Condvar,
    /// Held to get the connection ahead of the queue.
    gate: Mutex<()>,
    connection: Mutex<Connection>,
    context: Context,
    inline: bool,
    busy_timeout: Duration,
    max_operations: usize,
    max_bytes: usize,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("inline", &self.inline).finish_non_exhaustive()
    }
}

impl Writer {
    pub(crate) fn new(connection: Connection, in_memory: bool, context: Context) -> Result<Self> {
        // Waiting for another process happens in `begin`, where it can be told from the time limit.
        connection.busy_timeout(Duration::ZERO).map_err(engine)?;
        let config = &context.config;
        Ok(Self {
            queue: Mutex::default(),
            wake: Condvar::new(),
            gate: Mutex::default(),
            connection: Mutex::new(connection),
            // A sync stalls the thread that asks for it, so it never happens on a caller's.
            inline: in_memory || config.durability == Durability::Normal,
            busy_timeout: config.busy_timeout(),
            max_operations: config.queue_operations,
            max_bytes: config.queue_bytes,
            context,
        })
    }

    /// Runs an operation in a transaction that it may share with others, and answers once that is committed.
    ///
    /// The operation must check before it writes: where it refuses, it has written nothing. Where the engine
    /// fails it, everything is rolled back and it runs again, alone.
    pub(crate) async fn submit<T, F>(&self, cost: Cost, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Batch<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let answer = self.enqueue(cost, operation)?;
        if self.inline && !cost.slow {
            self.lead();
        } else {
            self.wake.notify_one();
        }
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// As [`submit`](Self::submit), from a thread of this crate's own.
    pub(crate) fn submit_blocking<T, F>(&self, cost: Cost, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Batch<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let answer = self.enqueue(cost, operation)?;
        self.wake.notify_one();
        block_on(answer).unwrap_or_else(|_| Err(lost()))
    }

    fn enqueue<T, F>(&self, cost: Cost, operation: F) -> Result<oneshot::Receiver<Result<T>>>
    where
        T: Send + 'static,
        F: FnMut(&mut Batch<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let mut queue = self.queue();
        if queue.closed {
            return Err(closed());
        }
        let full = queue.jobs.len() >= self.max_operations
            || (!queue.jobs.is_empty() && queue.bytes.saturating_add(cost.bytes) > self.max_bytes);
        if full {
            return Err(overloaded("writes"));
        }
        queue.bytes += cost.bytes;
        queue.jobs.push_back(Queued { job: Box::new(Pending { operation, result: None, reply }), cost });
        Ok(answer)
    }

    /// Runs queued operations if the connection is free. If it is not, its holder checks the queue when it releases it.
    fn lead(&self) {
        for _ in 0..INLINE_ROUNDS {
            // In both cases the queue is checked again afterwards.
            if matches!(self.gate.try_lock(), Err(TryLockError::WouldBlock))
                || self.context.signal.is_behind()
            {
                return;
            }
            let Some(connection) = self.try_connection() else { return };
            match self.take(true) {
                Taken::Empty => {}
                Taken::Slow => {
                    drop(connection);
                    self.wake.notify_one();
                    return;
                }
                Taken::Jobs(jobs) => {
                    if let Some(jobs) = self.run(&connection, jobs, Duration::ZERO) {
                        // Another process has the lock; waiting is for the thread.
                        self.put_back(jobs);
                        drop(connection);
                        self.wake.notify_one();
                        return;
                    }
                }
            }
            drop(connection);
            if self.queue().jobs.is_empty() {
                return;
            }
        }
        self.wake.notify_one();
    }

    /// The writer's thread: runs the operations that callers leave to it, until the queue is closed and empty.
    pub(crate) fn work(&self) {
        loop {
            let mut queue = self.queue();
            while queue.jobs.is_empty() || self.context.signal.is_behind() {
                if queue.closed && queue.jobs.is_empty() {
                    return;
                }
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            drop(queue);
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            let connection = self.connection();
            // A bug in one operation must not take the thread from all others; what it left is rolled back.
            let worked = catch_unwind(AssertUnwindSafe(|| {
                if let Taken::Jobs(jobs) = self.take(false)
                    && let Some(jobs) = self.run(&connection, jobs, self.busy_timeout)
                {
                    jobs.into_iter().for_each(|queued| queued.job.answer(Some(locked())));
                }
            }));
            if worked.is_err() {
                tracing::error!("a write panicked");
            }
        }
    }

    /// Refuses new operations; queued ones still run.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.wake.notify_all();
    }

    /// The writing connection, for reads where it is the only one. Hand it back with [`release`](Self::release).
    pub(crate) fn try_connection(&self) -> Option<MutexGuard<'_, Connection>> {
        match self.connection.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// As [`try_connection`](Self::try_connection), but waits.
    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the connection and wakes the writer if operations were queued meanwhile: their callers found it taken.
    pub(crate) fn release(&self, connection: MutexGuard<'_, Connection>) {
        drop(connection);
        if !self.queue().jobs.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Runs a checkpoint. Writers that get too far ahead of it wait for its end.
    pub(crate) fn checkpoint<T>(&self, work: impl FnOnce() -> T) -> T {
        self.context.signal.checkpoint_runs(true);
        let done = work();
        self.context.signal.checkpoint_runs(false);
        drop(self.queue());
        self.wake.notify_all();
        done
    }

    /// Does something while nothing is written, ahead of the queue. Locks are not fair: without the gate, busy writers
    /// would keep taking the connection.
    pub(crate) fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = self.connection();
        let done = work();
        // The gate opens before the queue is checked: a caller that found it closed has queued its operation.
        drop(gate);
        self.release(connection);
        done
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, inline: bool) -> Taken {
        let mut queue = self.queue();
        let (mut count, mut bytes) = (0, 0_usize);
        for queued in &queue.jobs {
            let cost = queued.cost;
            let fits = count < BATCH_OPERATIONS && bytes.saturating_add(cost.bytes) <= INLINE_BYTES;
            if inline && cost.slow || count > 0 && !fits {
                break;
            }
            count += 1;
            bytes = bytes.saturating_add(cost.bytes);
        }
        if count == 0 {
            return if queue.jobs.is_empty() { Taken::Empty } else { Taken::Slow };
        }
        queue.bytes = queue.bytes.saturating_sub(bytes);
        Taken::Jobs(queue.jobs.drain(..count).collect())
    }

    fn put_back(&self, jobs: Vec<Queued>) {
        let mut queue = self.queue();
        for queued in jobs.into_iter().rev() {
            queue.bytes += queued.cost.bytes;
            queue.jobs.push_front(queued);
        }
    }

    /// Runs the jobs in one transaction and answers them. Returns them where the lock could not be had.
    fn run(&self, connection: &Connection, mut jobs: Vec<Queued>, patience: Duration) -> Option<Vec<Queued>> {
        jobs.retain(|queued| !queued.job.abandoned());
        if jobs.is_empty() {
            return None;
        }
        if !connection.is_autocommit() {
            // An operation panicked in here before.
            rollback(connection);
        }
        match begin(connection, patience) {
            Ok(()) => {}
            Err(error) if error::is_busy(&error) => return Some(jobs),
            Err(error) => return self.fail(connection, jobs, error, engine, patience),
        }
        let mut batch = Batch::new(connection, &self.context);
        let ran = jobs
            .iter_mut()
            .try_for_each(|queued| queued.job.run(&mut batch))
            .and_then(|()| batch.write_back());
        if let Err(error) = ran {
            rollback(connection);
            return self.fail(connection, jobs, error, engine, patience);
        }
        if batch.is_displaced() {
            // What this committed would be lost.
            drop(batch);
            rollback(connection);
            self.context.signal.checkpoint();
            for queued in jobs {
                let failure = (!queued.job.is_refused()).then(error::displaced);
                queued.job.answer(failure);
            }
            return None;
        }
        match batch.commit() {
            Ok(()) => {
                jobs.into_iter().for_each(|queued| queued.job.answer(None));
                None
            }
            Err(error) => {
                rollback(connection);
                self.fail(connection, jobs, error, error::commit, patience)
            }
        }
    }

    /// Answers the operations of a transaction that failed. One failure must not fail the others: each runs again alone and
    /// gets its own answer. Returns those that found the lock taken.
    fn fail(
        &self,
        connection: &Connection,
        jobs: Vec<Queued>,
        error: rusqlite::Error,
        told: fn(rusqlite::Error) -> Error,
        patience: Duration,
    ) -> Option<Vec<Queued>> {
        if let Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) = error::code(&error) {
            // The log has the room that the disk lacks, once it is moved into the file.
            self.context.signal.checkpoint();
        }
        if jobs.len() > 1 && error::code(&error) != Some(ErrorCode::SystemIoFailure) {
            let mut left = Vec::new();
            for queued in jobs {
                left.extend(self.run(connection, vec![queued], patience).into_iter().flatten());
            }
            return (!left.is_empty()).then_some(left);
        }
        // The engine's error cannot be cloned, but made again from its parts.
        let code = error.sqlite_error().copied();
        let mut first = Some(error);
        for queued in jobs {
            let error = first.take().or_else(|| Some(rusqlite::Error::SqliteFailure(code?, None)));
            queued.job.answer(Some(error.map_or_else(lost, told)));
        }
        None
    }
}

/// Takes the write lock, polling for it until the patience ends. SQLite's own handler sleeps for up to 100 ms at a
/// time, and a process that writes all the time would be found busy again and again.
fn begin(connection: &Connection, patience: Duration) -> Result<(), rusqlite::Error> {
    let mut begin = connection.prepare_cached("BEGIN IMMEDIATE")?;
    let mut pause = Duration::from_micros(50);
    let mut deadline = None;
    loop {
        match begin.execute([]) {
            Ok(_) => return Ok(()),
            Err(error) if error::is_busy(&error) && !patience.is_zero() => {
                let now = Instant::now();
                if now >= *deadline.get_or_insert(now + patience) {
                    return Err(error);
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(2));
            }
            Err(error) => return Err(error),
        }
    }
}

fn rollback(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::warn!(%error, "rolling back failed");
    }
}
