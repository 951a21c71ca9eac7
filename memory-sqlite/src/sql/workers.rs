//! Threads that run statements. Nothing that waits for a lock waits here.

use std::collections::VecDeque;
use std::future::{Future as _, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Instant;

use memory_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use super::alarms::Alarms;
use crate::error::{closed, lost, overloaded};

/// Most statements that wait for a thread.
const QUEUE: usize = 4_096;
/// What the engine and this crate need beside the validator's stack.
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
    /// What wakes each thread that sleeps; the last to fall asleep, whose caches are warm, is woken first.
    asleep: Vec<Arc<Condvar>>,
    /// A thread that is out of work looks for more for some microseconds before it sleeps: nobody need wake it.
    looking: usize,
}

/// The threads and what waits for them. They start with the first statement.
pub(crate) struct Workers {
    queue: Mutex<Queue>,
    /// How many jobs wait, for who looks without the lock.
    waiting: AtomicUsize,
    alarms: Arc<Alarms>,
    threads: usize,
    /// Whether threads look for a while before they sleep.
    looks: bool,
    /// Whether a caller looks for its answer now. One at a time does: the others have better things to do.
    expects: AtomicBool,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Workers {
    pub(crate) fn new(threads: usize, alarms: Arc<Alarms>) -> Self {
        // On one processor whoever looks keeps the other from bringing work.
        let looks = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        Self {
            queue: Mutex::default(),
            waiting: AtomicUsize::new(0),
            alarms,
            threads,
            looks,
            expects: AtomicBool::new(false),
        }
    }

    /// Runs on a worker. Where no thread comes free before the deadline it is not run at all; once it runs, it keeps to
    /// the deadline itself. Work whose caller goes away while it waits is not run either.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, deadline: Instant, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_then(deadline, work, || {}).await
    }

    /// As [`Workers::run`], and then does what nobody waits for.
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
        let mut alarm = pin!(Some(self.alarms.at(deadline)));
        let answer = poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            if let Some(ringing) = alarm.as_mut().as_pin_mut()
                && ringing.poll(context).is_ready()
            {
                alarm.set(None);
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
            None => Err(Error::new(
                ErrorKind::Timeout,
                "every thread for statements was busy until the deadline; nothing was done, try again later",
            )),
        }
    }

    /// Runs on a worker, and nobody waits for it.
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
            // What was abandoned takes no room from what is not.
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
                    Error::new(
                        ErrorKind::Unavailable,
                        "no thread can be started for the statement; try again",
                    )
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
            // A bug in one statement must not take the thread from all others.
            if catch_unwind(AssertUnwindSafe(job.work)).is_err() {
                tracing::error!("a statement's thread panicked");
            }
        }
    }

    /// The next job; sleeps until there is one. `None`: closed.
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

    /// Waits some microseconds for a job.
    fn look(&self) {
        look_for(8, || self.waiting.load(Ordering::Acquire) > 0);
    }

    /// Waits some microseconds for an answer: most statements take no longer, and to put the caller's thread to sleep and
    /// wake it again does.
    fn expect(&self, state: &AtomicU8) {
        if self.looks && !self.expects.swap(true, Ordering::AcqRel) {
            look_for(9, || state.load(Ordering::Acquire) == DONE);
            self.expects.store(false, Ordering::Release);
        }
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Ends the threads once what they run has ended; what waits is not run.
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
                tracing::error!("a thread for statements panicked");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks again and again, after a time that doubles each time. In between it lets others run: who is to bring what is
/// looked for may wait for this very processor.
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

/// Keeps what still waits from running, as it is dropped.
struct Abandon(Arc<AtomicU8>);

impl Abandon {
    /// Whether it had not begun.
    fn abandon(&self) -> bool {
        self.0.compare_exchange(WAITS, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Drop for Abandon {
    fn drop(&mut self) {
        self.abandon();
    }
}
