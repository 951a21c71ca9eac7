//! Group commit: a caller that finds the writing connection free runs all queued operations in one transaction.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use memory_core::{Error, Result};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::background::Signal;
use super::batch::{Batch, Context};
use super::combining::{self, Combiner, Guard, Runner};
use super::waits::{Alarm, Busy, LONG, Ongoing, Stuck};
use crate::config::Durability;
use crate::error::{self, Fault, closed, engine, locked, lost, overloaded};

/// Most operations of one transaction.
const BATCH_OPERATIONS: usize = 512;
/// Most bytes of one transaction that runs on a caller's thread.
const INLINE_BYTES: usize = 256 << 10;
/// Transactions a caller runs for others before it leaves the rest to the writer's thread.
const INLINE_ROUNDS: usize = 4;

/// What an operation costs, as estimated before it runs.
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

    /// Any longer operation.
    pub(crate) fn slow(bytes: usize) -> Self {
        Self { bytes, slow: true }
    }

    /// An operation that must not share its transaction: it fills the batch on its own, so it runs only once.
    pub(crate) fn alone() -> Self {
        Self { bytes: INLINE_BYTES + 1, slow: true }
    }
}

/// A queued operation. It is answered after the commit, and may run again after a rollback.
trait Job: Send {
    fn abandoned(&self) -> bool;
    fn run(&mut self, batch: &mut Batch<'_>) -> Result<(), rusqlite::Error>;
    /// Whether it ran and was refused.
    fn is_refused(&self) -> bool;
    fn answer(self: Box<Self>, failure: Option<Error>);
}

struct Pending<T, F> {
    operation: F,
    result: Option<Result<T>>,
    reply: Reply<T>,
}

/// Where the answer goes: to a future, or to a blocked thread. A thread never waits on anything that an executor must drive.
enum Reply<T> {
    Future(oneshot::Sender<Result<T>>),
    Thread(mpsc::SyncSender<Result<T>>),
}

impl<T, F> Job for Pending<T, F>
where
    T: Send,
    F: FnMut(&mut Batch<'_>) -> Result<T, Fault> + Send,
{
    fn abandoned(&self) -> bool {
        matches!(&self.reply, Reply::Future(reply) if reply.is_closed())
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
        // The caller may have gone away.
        match self.reply {
            Reply::Future(reply) => drop(reply.send(result)),
            Reply::Thread(reply) => drop(reply.try_send(result)),
        }
    }
}

struct Queued {
    job: Box<dyn Job>,
    cost: Cost,
    since: Instant,
}

struct Queue {
    jobs: VecDeque<Queued>,
    bytes: usize,
    signal: Arc<Signal>,
}

impl combining::Queue for Queue {
    type Batch = Vec<Queued>;

    fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    fn should_throttle(&self) -> bool {
        self.signal.is_far_ahead()
    }

    fn take(&mut self, runner: Runner) -> Option<Vec<Queued>> {
        let (mut count, mut bytes) = (0, 0_usize);
        for queued in &self.jobs {
            let cost = queued.cost;
            let fits = count < BATCH_OPERATIONS && bytes.saturating_add(cost.bytes) <= INLINE_BYTES;
            if runner == Runner::Caller && cost.slow || count > 0 && !fits {
                break;
            }
            count += 1;
            bytes = bytes.saturating_add(cost.bytes);
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        (count > 0).then(|| self.jobs.drain(..count).collect())
    }

    fn put_back(&mut self, jobs: Vec<Queued>) {
        for queued in jobs.into_iter().rev() {
            self.bytes += queued.cost.bytes;
            self.jobs.push_front(queued);
        }
    }
}

/// The only writing connection, and its queue of operations.
pub(crate) struct Writer {
    combiner: Combiner<Connection, Queue>,
    /// What the connection is in use for.
    busy: Busy,
    /// The running checkpoint, which writers may have to wait for.
    checkpoint: Busy,
    alarm: Alarm,
    context: Context,
    inline: bool,
    busy_timeout: Duration,
    max_operations: usize,
    max_bytes: usize,
}

/// The writing connection, until this is dropped.
pub(crate) struct WritingConnection<'w> {
    guard: Guard<'w, Connection, Queue>,
    _busy: Option<Ongoing<'w>>,
}

impl Deref for WritingConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.guard
    }
}

impl DerefMut for WritingConnection<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.guard
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("inline", &self.inline).finish_non_exhaustive()
    }
}

impl Writer {
    pub(crate) fn new(connection: Connection, in_memory: bool, context: Context) -> Result<Self> {
        // `begin` waits for other processes itself.
        connection.busy_timeout(Duration::ZERO).map_err(engine)?;
        let config = &context.config;
        let queue = Queue { jobs: VecDeque::new(), bytes: 0, signal: Arc::clone(&context.signal) };
        Ok(Self {
            combiner: Combiner::new(connection, queue),
            busy: Busy::default(),
            checkpoint: Busy::default(),
            alarm: Alarm::default(),
            // A sync blocks its thread, so it never happens on a caller's.
            inline: in_memory || config.durability == Durability::Normal,
            busy_timeout: config.busy_timeout(),
            max_operations: config.queue_operations,
            max_bytes: config.queue_bytes,
            context,
        })
    }

    /// Runs an operation in a transaction that it may share with others, and answers once that is committed.
    ///
    /// The operation must check before it writes: if it refuses, it must have written nothing. If the engine fails, everything
    /// is rolled back and the operation runs again, alone.
    pub(crate) async fn submit<T, F>(&self, cost: Cost, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Batch<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.enqueue(cost, operation, Reply::Future(reply))?;
        if self.inline && !cost.slow {
            // If another process holds SQLite's lock, the worker waits for it, not this thread.
            self.combiner.run_queued(INLINE_ROUNDS, |connection, jobs| {
                let _busy = self.busy.with("a write");
                self.run(connection, jobs, Duration::ZERO)
            });
        } else {
            self.combiner.wake_worker();
        }
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// As [`submit`](Self::submit), from one of this crate's threads.
    pub(crate) fn submit_blocking<T, F>(&self, cost: Cost, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Batch<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let (reply, answer) = mpsc::sync_channel(1);
        self.enqueue(cost, operation, Reply::Thread(reply))?;
        self.combiner.wake_worker();
        loop {
            match answer.recv_timeout(LONG) {
                Ok(result) => return result,
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(lost()),
                Err(mpsc::RecvTimeoutError::Timeout) => self.warn_if_stuck(),
            }
        }
    }

    fn enqueue<T, F>(&self, cost: Cost, operation: F, reply: Reply<T>) -> Result<()>
    where
        T: Send + 'static,
        F: FnMut(&mut Batch<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let since = Instant::now();
        let late = self.combiner.queue(|queue, is_closed| {
            if is_closed {
                return Err(closed());
            }
            let full = queue.jobs.len() >= self.max_operations
                || (!queue.jobs.is_empty() && queue.bytes.saturating_add(cost.bytes) > self.max_bytes);
            if full {
                return Err(overloaded("writes"));
            }
            queue.bytes += cost.bytes;
            let job = Box::new(Pending { operation, result: None, reply });
            queue.jobs.push_back(Queued { job, cost, since });
            Ok(queue.jobs.front().is_some_and(|first| since.saturating_duration_since(first.since) >= LONG))
        })?;
        if late {
            self.warn_if_stuck();
        }
        Ok(())
    }

    /// The writer's thread: runs the operations that callers do not run themselves, until the queue is closed and empty.
    pub(crate) fn work(&self) {
        self.combiner.run_worker(|connection, jobs| {
            let _busy = self.busy.with("a write");
            // A panic in one operation must not end the thread; its transaction is rolled back.
            let worked = catch_unwind(AssertUnwindSafe(|| {
                let left = self.run(connection, jobs, self.busy_timeout);
                left.into_iter().flatten().for_each(|queued| queued.job.answer(Some(locked())));
            }));
            if worked.is_err() {
                tracing::error!("a write panicked");
            }
        });
    }

    /// Refuses new operations; queued ones still run.
    pub(crate) fn close(&self) {
        self.combiner.close();
    }

    /// The writing connection, if it is free: for a short read of a database in memory, which has no other connection.
    pub(crate) fn try_connection(&self) -> Option<WritingConnection<'_>> {
        self.combiner.try_lock().map(|guard| WritingConnection { guard, _busy: None })
    }

    /// Waits for the writing connection. `what` names the use in reports of what calls wait for.
    pub(crate) fn connection(&self, what: &'static str) -> WritingConnection<'_> {
        let guard = self.combiner.lock();
        WritingConnection { guard, _busy: Some(self.busy.with(what)) }
    }

    /// Runs a checkpoint. Writers that get too far ahead of it wait for its end.
    pub(crate) fn checkpoint<T>(&self, work: impl FnOnce() -> T) -> T {
        self.combiner.throttle_during(|| {
            let _busy = self.checkpoint.with("a checkpoint");
            work()
        })
    }

    /// Runs work ahead of the queue, while nothing is written.
    pub(crate) fn run_first<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        self.combiner.run_first(|_| {
            let _busy = self.busy.with(what);
            work()
        })
    }

    /// Writes that have waited for long, and what they wait for.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        let (count, oldest) =
            self.combiner.queue(|queue, _| (queue.jobs.len(), queue.jobs.front().map(|first| first.since)));
        Stuck::new("writes", count, oldest, [&self.busy, &self.checkpoint]).if_anything_is_long()
    }

    /// How many of `count` operations of a failed transaction get no lock when they run again.
    #[cfg(test)]
    pub(crate) fn left_of(&self, count: usize, timeout: Duration) -> usize {
        let job = || Pending {
            operation: |_: &mut Batch<'_>| Ok(()),
            result: None,
            reply: Reply::Thread(mpsc::sync_channel(1).0),
        };
        let queued = |_| Queued { job: Box::new(job()), cost: Cost::entry(0), since: Instant::now() };
        let failed = rusqlite::Error::InvalidQuery;
        let left =
            self.fail(&self.combiner.lock(), (0..count).map(queued).collect(), failed, engine, timeout);
        left.map_or(0, |left| left.len())
    }

    #[cfg(test)]
    pub(crate) fn busy(&self) -> &Busy {
        &self.busy
    }

    /// Writes that wait for the connection.
    pub(crate) fn waiting(&self) -> usize {
        self.combiner.queue(|queue, _| queue.jobs.len())
    }

    /// Warns if writes have waited for long.
    pub(crate) fn warn_if_stuck(&self) {
        self.stuck().iter().for_each(|stuck| self.alarm.raise(stuck));
    }

    /// Runs the jobs in one transaction and answers them. If another process keeps the lock for longer than the timeout, returns
    /// them unanswered.
    fn run(&self, connection: &Connection, mut jobs: Vec<Queued>, timeout: Duration) -> Option<Vec<Queued>> {
        jobs.retain(|queued| !queued.job.abandoned());
        if jobs.is_empty() {
            return None;
        }
        if !connection.is_autocommit() {
            // An earlier operation panicked.
            rollback(connection);
        }
        match begin(connection, timeout) {
            Ok(()) => {}
            Err(error) if error::is_busy(&error) => return Some(jobs),
            Err(error) => return self.fail(connection, jobs, error, engine, timeout),
        }
        let mut batch = Batch::new(connection, &self.context);
        let ran = jobs
            .iter_mut()
            .try_for_each(|queued| queued.job.run(&mut batch))
            .and_then(|()| batch.write_back());
        if let Err(error) = ran {
            rollback(connection);
            return self.fail(connection, jobs, error, engine, timeout);
        }
        if batch.is_displaced() {
            // A commit would be lost.
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
                self.fail(connection, jobs, error, error::commit, timeout)
            }
        }
    }

    /// Answers the operations of a failed transaction. One failure must not fail the others, so each runs again alone and gets
    /// its own answer. Returns those that could not get the lock.
    fn fail(
        &self,
        connection: &Connection,
        jobs: Vec<Queued>,
        error: rusqlite::Error,
        to_error: fn(rusqlite::Error) -> Error,
        timeout: Duration,
    ) -> Option<Vec<Queued>> {
        if let Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) = error::code(&error) {
            // A checkpoint makes the log's space on the disk reusable.
            self.context.signal.checkpoint();
        }
        if jobs.len() > 1 && error::code(&error) != Some(ErrorCode::SystemIoFailure) {
            let mut left = Vec::new();
            // They wait for the lock together.
            let deadline = Instant::now() + timeout;
            for queued in jobs {
                let timeout = deadline.saturating_duration_since(Instant::now());
                left.extend(self.run(connection, vec![queued], timeout).into_iter().flatten());
            }
            return (!left.is_empty()).then_some(left);
        }
        // The engine's error cannot be cloned, only rebuilt from its code.
        let code = error.sqlite_error().copied();
        let mut first = Some(error);
        for queued in jobs {
            let error = first.take().or_else(|| Some(rusqlite::Error::SqliteFailure(code?, None)));
            queued.job.answer(Some(error.map_or_else(lost, to_error)));
        }
        None
    }
}

/// Takes the write lock, polling for it until the timeout. SQLite's own busy handler sleeps for up to 100 ms at a time,
/// so against a process that writes constantly it would keep finding the lock taken.
fn begin(connection: &Connection, timeout: Duration) -> Result<(), rusqlite::Error> {
    let mut begin = connection.prepare_cached("BEGIN IMMEDIATE")?;
    let mut pause = Duration::from_micros(50);
    let mut deadline = None;
    loop {
        match begin.execute([]) {
            Ok(_) => return Ok(()),
            Err(error) if error::is_busy(&error) && !timeout.is_zero() => {
                let now = Instant::now();
                if now >= *deadline.get_or_insert(now + timeout) {
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
