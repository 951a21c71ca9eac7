//! Worker threads that run statements. They never wait for a lock.

use std::collections::VecDeque;
use std::future::{Future as _, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Instant;

use memory_core::{Error, Result};
use tokio::sync::oneshot;

use super::timers::Timers;
use crate::error::{closed, lost, overloaded};

/// Most statements waiting for a thread.
const QUEUE: usize = 4_096;
/// Stack for the engine and this crate, in addition to the validator's.
const ROOM_BYTES: usize = 8 << 20;

const WAITS: u8 = 0;
const RUNS: u8 = 1;
const ABANDONED: u8 = 2;
const DONE: u8 = 3;

struct Job {
    state: Arc<AtomicU8>,
    work: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
    threads: Vec<JoinHandle<()>>,
    started: bool,
    /// The sleeping threads. The last to fall asleep, whose caches are warm, is woken first.
    asleep: Vec<Arc<Condvar>>,
    /// Threads that spin for some microseconds before they sleep; they need not be woken.
    looking: usize,
}

/// The threads and their queue. They start with the first statement.
pub(crate) struct Workers {
    queue: Mutex<Queue>,
    /// The length of the queue, readable without the lock.
    waiting: AtomicUsize,
    timers: Arc<Timers>,
    threads: usize,
    /// Whether threads spin before they sleep.
    looks: bool,
    /// Whether a caller spins for its answer. Only one at a time does.
    expects: AtomicBool,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Workers {
    pub(crate) fn new(threads: usize, timers: Arc<Timers>) -> Self {
        // On a single processor, a spinning thread would keep the others from running.
        let looks = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        Self {
            queue: Mutex::default(),
            waiting: AtomicUsize::new(0),
            timers,
            threads,
            looks,
            expects: AtomicBool::new(false),
        }
    }

    /// Runs work on a worker. It is not run if no thread is free before the deadline, or if its caller goes away first.
    /// Once running, it must observe the deadline itself.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, deadline: Instant, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_then(deadline, work, || {}).await
    }

    /// As [`Workers::run`]; `then` runs after the caller has its answer.
    pub(crate) async fn run_then<T, F, G>(self: &Arc<Self>, deadline: Instant, work: F, then: G) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
        G: FnOnce() + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let state = Arc::new(AtomicU8::new(WAITS));
        let told = Arc::clone(&state);
        let work = Box::new(move || {
            let done = work();
            let _ = reply.send(done);
            told.store(DONE, Ordering::Release);
            then();
        });
        self.push(Job { state: Arc::clone(&state), work })?;
        self.expect(&state);
        let waiting = Abandon(state);
        let mut answer = pin!(answer);
        let mut timer = pin!(Some(self.timers.at(deadline)));
        let answer = poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            if let Some(ringing) = timer.as_mut().as_pin_mut()
                && ringing.poll(context).is_ready()
            {
                timer.set(None);
                if waiting.abandon() {
                    return Poll::Ready(None);
                }
            }
            Poll::Pending
        })
        .await;
        match answer {
            Some(Ok(done)) => Ok(done),
            Some(Err(_)) => Err(if self.is_closed() { closed() } else { lost() }),
            None if self.is_closed() => Err(closed()),
            None => Err(Error::timeout(
                "every SQL worker was busy until the deadline; nothing was done, try again later",
            )),
        }
    }

    /// Runs work in the background.
    pub(crate) fn detach(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) -> Result<()> {
        self.push(Job { state: Arc::new(AtomicU8::new(WAITS)), work: Box::new(work) })
    }

    fn push(self: &Arc<Self>, job: Job) -> Result<()> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(closed());
        }
        if !queue.started {
            self.start(&mut queue)?;
        }
        if queue.jobs.len() >= QUEUE {
            // Abandoned jobs do not count against the limit.
            queue.jobs.retain(|job| job.state.load(Ordering::Relaxed) != ABANDONED);
        }
        if queue.jobs.len() >= QUEUE {
            return Err(overloaded("statements"));
        }
        queue.jobs.push_back(job);
        self.waiting.store(queue.jobs.len(), Ordering::Release);
        let wakes = if queue.jobs.len() > queue.looking { queue.asleep.pop() } else { None };
        drop(queue);
        if let Some(thread) = wakes {
            thread.notify_one();
        }
        Ok(())
    }

    fn start(self: &Arc<Self>, queue: &mut Queue) -> Result<()> {
        for _ in queue.threads.len()..self.threads {
            let workers = Arc::clone(self);
            let thread = std::thread::Builder::new()
                .name("memory-sqlite-sql".to_owned())
                .stack_size(memory_validator::STACK_BYTES + ROOM_BYTES)
                .spawn(move || workers.work())
                .map_err(|error| {
                    Error::unavailable("no thread can be started for the statement; try again")
                        .with_source(error)
                })?;
            queue.threads.push(thread);
        }
        queue.started = true;
        Ok(())
    }

    fn work(&self) {
        let bell = Arc::new(Condvar::new());
        while let Some(job) = self.next(&bell) {
            if job.state.compare_exchange(WAITS, RUNS, Ordering::AcqRel, Ordering::Acquire).is_err() {
                continue;
            }
            // A panic in one statement must not end the thread.
            if catch_unwind(AssertUnwindSafe(job.work)).is_err() {
                tracing::error!("a statement's thread panicked");
            }
        }
    }

    /// Waits for the next job; `None` once closed.
    fn next(&self, bell: &Arc<Condvar>) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if self.looks && queue.jobs.is_empty() && queue.looking == 0 && !queue.closed {
                queue.looking += 1;
                drop(queue);
                self.look();
                queue = self.lock();
                queue.looking -= 1;
            }
            if let Some(job) = queue.jobs.pop_front() {
                self.waiting.store(queue.jobs.len(), Ordering::Release);
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.asleep.push(Arc::clone(bell));
            while !queue.closed && queue.asleep.iter().any(|asleep| Arc::ptr_eq(asleep, bell)) {
                queue = bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Spins some microseconds for a job.
    fn look(&self) {
        look_for(8, || self.waiting.load(Ordering::Acquire) > 0);
    }

    /// Spins some microseconds for an answer: most statements take less time than putting the caller's thread to sleep
    /// and waking it again.
    fn expect(&self, state: &AtomicU8) {
        if self.looks && !self.expects.swap(true, Ordering::AcqRel) {
            look_for(9, || state.load(Ordering::Acquire) == DONE);
            self.expects.store(false, Ordering::Release);
        }
    }

    /// Statements that wait for a thread.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Ends the threads after their current jobs. Queued jobs are dropped.
    pub(crate) fn close(&self) {
        let (jobs, threads, asleep) = {
            let mut queue = self.lock();
            queue.closed = true;
            let Queue { jobs, threads, asleep, .. } = &mut *queue;
            (std::mem::take(jobs), std::mem::take(threads), std::mem::take(asleep))
        };
        asleep.iter().for_each(|thread| thread.notify_one());
        drop(jobs);
        let this = std::thread::current().id();
        for thread in threads {
            if thread.thread().id() != this && thread.join().is_err() {
                tracing::error!("a SQL worker panicked");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spins with exponential backoff. Later rounds yield, since the awaited thread may need this very processor.
fn look_for(doublings: u32, found: impl Fn() -> bool) {
    for step in 0..doublings {
        if found() {
            return;
        }
        (0..1 << step).for_each(|_| std::hint::spin_loop());
        if step >= 4 {
            std::thread::yield_now();
        }
    }
}

/// Abandons a queued job when it is dropped.
struct Abandon(Arc<AtomicU8>);

impl Abandon {
    /// Returns whether the job had not begun.
    fn abandon(&self) -> bool {
        self.0.compare_exchange(WAITS, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Drop for Abandon {
    fn drop(&mut self) {
        self.abandon();
    }
}
