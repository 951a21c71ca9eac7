//! Flat combining: a queue of jobs for one exclusive resource. Whichever thread holds the resource runs the queued jobs of all.
//!
//! Any thread may queue a job. A caller that finds the resource free runs what is queued; a worker thread runs the rest. No job
//! is forgotten, because **whoever releases the resource looks at the queue afterwards** and wakes the worker if it is not
//! empty. So a caller that finds the resource taken can leave its job in the queue and wait for the answer.
//!
//! Lock order: priority, resource, state. The state's lock is never held while waiting for another.
//!
//! `loom/lib.rs` compiles this file with the primitives of a model checker, runs every interleaving of a few threads,
//! and shows that each wake-up is needed.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError};

use super::sync::{Condvar, Mutex, MutexGuard};

/// The waiting jobs, and how many of them run together.
pub(crate) trait Queue {
    type Batch;

    fn is_empty(&self) -> bool;

    /// Whether jobs must wait for the work of [`throttle_during`](Combiner::throttle_during).
    fn should_throttle(&self) -> bool;

    /// Takes the next batch that this kind of thread may run. The worker may run every job.
    fn take(&mut self, runner: Runner) -> Option<Self::Batch>;

    /// Puts a batch back at the front.
    fn put_back(&mut self, batch: Self::Batch);
}

/// The thread that runs a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Caller,
    Worker,
}

struct State<Q> {
    queue: Q,
    /// Work that jobs may have to wait for is in progress.
    throttling: bool,
    closed: bool,
}

/// The resource and its queue.
pub(crate) struct Combiner<R, Q> {
    state: Mutex<State<Q>>,
    wake_worker: Condvar,
    /// Held by a thread that wants the resource ahead of the queue.
    priority: Mutex<()>,
    resource: Mutex<R>,
}

impl<R, Q: Queue> Combiner<R, Q> {
    pub(crate) fn new(resource: R, queue: Q) -> Self {
        Self {
            state: Mutex::new(State { queue, throttling: false, closed: false }),
            wake_worker: Condvar::new(),
            priority: Mutex::new(()),
            resource: Mutex::new(resource),
        }
    }

    /// Reads or changes the queue; the second argument says whether it is closed. After adding a job, call
    /// [`run_queued`](Self::run_queued) or [`wake_worker`](Self::wake_worker).
    pub(crate) fn queue<T>(&self, change: impl FnOnce(&mut Q, bool) -> T) -> T {
        let mut state = self.state();
        let closed = state.closed;
        change(&mut state.queue, closed)
    }

    /// Leaves the queued jobs to the worker.
    pub(crate) fn wake_worker(&self) {
        self.wake_worker.notify_one();
    }

    /// Runs queued jobs on the calling thread if the resource is free, at most this many batches. `run` returns the jobs that
    /// it could not run; they are left to the worker.
    pub(crate) fn run_queued(&self, batches: usize, mut run: impl FnMut(&R, Q::Batch) -> Option<Q::Batch>) {
        for _ in 0..batches {
            // The thread that holds the priority lock looks at the queue after releasing it.
            if matches!(self.priority.try_lock(), Err(TryLockError::WouldBlock)) {
                return;
            }
            let Some(guard) = self.try_lock() else { return };
            // From here on, dropping the guard wakes the worker if jobs are left, even after a panic.
            let Some(batch) = self.take(Runner::Caller) else { return };
            if let Some(left) = run(&guard, batch) {
                self.state().queue.put_back(left);
                return;
            }
            guard.release();
            if self.state().queue.is_empty() {
                return;
            }
        }
        self.wake_worker.notify_one();
    }

    /// The worker's thread: runs jobs until the queue is closed and empty.
    pub(crate) fn run_worker(&self, mut run: impl FnMut(&R, Q::Batch)) {
        loop {
            self.wait();
            // Lets threads pass that want the resource ahead of the queue.
            drop(unpoisoned(self.priority.lock()));
            let guard = self.lock();
            match self.take(Runner::Worker) {
                Some(batch) => run(&guard, batch),
                // The resource is held here, so no caller has a batch that it might still put back.
                None if self.is_finished() => return,
                None => {}
            }
            // No wake-up: this thread looks at the queue itself.
            guard.release();
        }
    }

    /// Waits until the worker has jobs to run, or there will be no more.
    fn wait(&self) {
        let mut state = self.state();
        while !(state.closed && state.queue.is_empty()) && (state.queue.is_empty() || state.is_throttled()) {
            state = unpoisoned(self.wake_worker.wait(state));
        }
    }

    fn is_finished(&self) -> bool {
        let state = self.state();
        state.closed && state.queue.is_empty()
    }

    /// Ends the worker once all queued jobs have run.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.wake_worker.notify_one();
    }

    /// Takes the resource if it is free.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, R, Q>> {
        let resource = match self.resource.try_lock() {
            Ok(resource) => resource,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Guard { resource, on_release: WakeOnDrop { combiner: self, enabled: true } })
    }

    /// Waits for the resource.
    pub(crate) fn lock(&self) -> Guard<'_, R, Q> {
        let resource = unpoisoned(self.resource.lock());
        Guard { resource, on_release: WakeOnDrop { combiner: self, enabled: true } }
    }

    /// Takes the resource ahead of the queue. Locks are not fair: without the priority lock, busy callers would keep taking
    /// the resource.
    pub(crate) fn run_first<T>(&self, work: impl FnOnce(&R) -> T) -> T {
        // Declared first, so dropped last, even if the work panics: a caller that found the priority lock taken has queued its
        // job by the time the guard looks at the queue.
        let guard;
        let _priority = unpoisoned(self.priority.lock());
        guard = self.lock();
        work(&guard)
    }

    /// While the work runs, jobs wait whenever [`Queue::should_throttle`] says so.
    pub(crate) fn throttle_during<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Throttle<'c, R, Q: Queue>(&'c Combiner<R, Q>);
        impl<R, Q: Queue> Drop for Throttle<'_, R, Q> {
            fn drop(&mut self) {
                self.0.state().throttling = false;
                self.0.wake_worker.notify_one();
            }
        }
        self.state().throttling = true;
        let _throttle = Throttle(self);
        work()
    }

    fn take(&self, runner: Runner) -> Option<Q::Batch> {
        let mut state = self.state();
        if state.is_throttled() { None } else { state.queue.take(runner) }
    }

    fn state(&self) -> MutexGuard<'_, State<Q>> {
        unpoisoned(self.state.lock())
    }
}

impl<Q: Queue> State<Q> {
    fn is_throttled(&self) -> bool {
        self.throttling && self.queue.should_throttle()
    }
}

/// The resource, until this is dropped. Fields are dropped in their order, so the queue is looked at once the resource is free.
pub(crate) struct Guard<'c, R, Q: Queue> {
    resource: MutexGuard<'c, R>,
    on_release: WakeOnDrop<'c, R, Q>,
}

struct WakeOnDrop<'c, R, Q: Queue> {
    combiner: &'c Combiner<R, Q>,
    enabled: bool,
}

impl<R, Q: Queue> Deref for Guard<'_, R, Q> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.resource
    }
}

impl<R, Q: Queue> DerefMut for Guard<'_, R, Q> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.resource
    }
}

impl<R, Q: Queue> Guard<'_, R, Q> {
    /// Releases the resource without a wake-up: the caller looks at the queue itself.
    fn release(mut self) {
        self.on_release.enabled = false;
    }
}

impl<R, Q: Queue> Drop for WakeOnDrop<'_, R, Q> {
    fn drop(&mut self) {
        if self.enabled && !self.combiner.state().queue.is_empty() {
            self.combiner.wake_worker.notify_one();
        }
    }
}

/// Ignores poisoning: what the locks guard is consistent at every moment, so a panic while one is held does no harm.
fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}
