//! Turns at one resource, and a queue of jobs for it: who runs them, and who wakes whom.
//!
//! Any thread may queue a job. Whoever finds the resource free runs what is queued; a thread of its own runs what others leave.
//! The rule that no job is forgotten: **whoever gives the resource back looks at the queue afterwards**, and wakes the
//! thread if there is something in it. So a caller that finds the resource taken may leave its job to the one that has it.
//!
//! Order of the locks: gate, resource, queue. The queue's is never held while waiting for another.
//!
//! `loom/lib.rs` compiles this file with the primitives of a model checker, runs every interleaving of a few threads,
//! and shows that each wake-up is needed.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError};

use super::sync::{Condvar, Mutex, MutexGuard};

/// Jobs that wait, and the rules by which they are taken.
pub(crate) trait Queue {
    type Jobs;

    fn is_empty(&self) -> bool;

    /// Whether a [`hold`](Turns::hold) applies now.
    fn heeds_hold(&self) -> bool;

    /// Takes the jobs of one turn: of a caller, or of the thread, for which every job is fit.
    fn take(&mut self, by: By) -> Option<Self::Jobs>;

    /// Puts jobs back in front.
    fn put_back(&mut self, jobs: Self::Jobs);
}

/// Who takes jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Caller,
    Thread,
}

struct Line<Q> {
    queue: Q,
    held: bool,
    closed: bool,
}

/// The resource and its queue.
pub(crate) struct Turns<R, Q> {
    line: Mutex<Line<Q>>,
    /// Wakes the thread.
    wake: Condvar,
    /// Held to get the resource ahead of the queue.
    gate: Mutex<()>,
    resource: Mutex<R>,
}

impl<R, Q: Queue> Turns<R, Q> {
    pub(crate) fn new(resource: R, queue: Q) -> Self {
        Self {
            line: Mutex::new(Line { queue, held: false, closed: false }),
            wake: Condvar::new(),
            gate: Mutex::new(()),
            resource: Mutex::new(resource),
        }
    }

    /// Looks at the queue or changes it; the second argument says whether it is closed. Whoever adds a job then calls
    /// [`lead`](Self::lead) or [`wake`](Self::wake).
    pub(crate) fn queue<T>(&self, change: impl FnOnce(&mut Q, bool) -> T) -> T {
        let mut line = self.line();
        let closed = line.closed;
        change(&mut line.queue, closed)
    }

    /// Leaves what is queued to the thread.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Runs queued jobs on a caller's thread, if the resource is free, for at most so many rounds. `run` returns those it
    /// could not run, which are then the thread's.
    pub(crate) fn lead(&self, rounds: usize, mut run: impl FnMut(&R, Q::Jobs) -> Option<Q::Jobs>) {
        for _ in 0..rounds {
            // Who has the gate looks at the queue after it is open again.
            if matches!(self.gate.try_lock(), Err(TryLockError::WouldBlock)) {
                return;
            }
            let Some(turn) = self.try_turn() else { return };
            // From here on the end of the turn wakes the thread where jobs are left, also if one panics.
            let Some(jobs) = self.take(By::Caller) else { return };
            if let Some(left) = run(&turn, jobs) {
                self.line().queue.put_back(left);
                return;
            }
            turn.give_back();
            if self.line().queue.is_empty() {
                return;
            }
        }
        self.wake.notify_one();
    }

    /// The thread: runs jobs until the queue is closed and empty.
    pub(crate) fn work(&self, mut run: impl FnMut(&R, Q::Jobs)) {
        loop {
            self.wait();
            // Lets those pass who want the resource ahead of the queue.
            drop(unpoisoned(self.gate.lock()));
            let turn = self.turn();
            match self.take(By::Thread) {
                Some(jobs) => run(&turn, jobs),
                // Seen in a turn: no caller has taken jobs that it may yet put back.
                None if self.is_over() => return,
                None => {}
            }
            // No wake-up: this thread looks at the queue itself.
            turn.give_back();
        }
    }

    /// Waits until there are jobs for the thread, or will be none.
    fn wait(&self) {
        let mut line = self.line();
        while !(line.closed && line.queue.is_empty()) && (line.queue.is_empty() || line.must_wait()) {
            line = unpoisoned(self.wake.wait(line));
        }
    }

    fn is_over(&self) -> bool {
        let line = self.line();
        line.closed && line.queue.is_empty()
    }

    /// Ends the thread once everything that is queued has run.
    pub(crate) fn close(&self) {
        self.line().closed = true;
        self.wake.notify_one();
    }

    /// A turn, if the resource is free.
    pub(crate) fn try_turn(&self) -> Option<Turn<'_, R, Q>> {
        let guard = match self.resource.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Turn { guard, end: End { turns: self, looks: true } })
    }

    /// Waits for a turn.
    pub(crate) fn turn(&self) -> Turn<'_, R, Q> {
        let guard = unpoisoned(self.resource.lock());
        Turn { guard, end: End { turns: self, looks: true } }
    }

    /// Does something in a turn ahead of the queue. Locks are not fair: without the gate, busy callers would keep taking
    /// the resource.
    pub(crate) fn pause<T>(&self, work: impl FnOnce(&R) -> T) -> T {
        // Declared first, so dropped last, also if the work panics: a caller that found the gate closed has queued its job
        // by the time the end of the turn looks at the queue.
        let turn;
        let _gate = unpoisoned(self.gate.lock());
        turn = self.turn();
        work(&turn)
    }

    /// While the work runs, jobs wait as long as the queue [heeds](Queue::heeds_hold) it.
    pub(crate) fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Hold<'t, R, Q: Queue>(&'t Turns<R, Q>);
        impl<R, Q: Queue> Drop for Hold<'_, R, Q> {
            fn drop(&mut self) {
                self.0.line().held = false;
                self.0.wake.notify_one();
            }
        }
        self.line().held = true;
        let _hold = Hold(self);
        work()
    }

    fn take(&self, by: By) -> Option<Q::Jobs> {
        let mut line = self.line();
        if line.must_wait() { None } else { line.queue.take(by) }
    }

    fn line(&self) -> MutexGuard<'_, Line<Q>> {
        unpoisoned(self.line.lock())
    }
}

impl<Q: Queue> Line<Q> {
    fn must_wait(&self) -> bool {
        self.held && self.queue.heeds_hold()
    }
}

/// The resource, until this is dropped. The fields are dropped in their order: the end of the turn looks at the queue once the
/// resource is free.
pub(crate) struct Turn<'t, R, Q: Queue> {
    guard: MutexGuard<'t, R>,
    end: End<'t, R, Q>,
}

struct End<'t, R, Q: Queue> {
    turns: &'t Turns<R, Q>,
    looks: bool,
}

impl<R, Q: Queue> Deref for Turn<'_, R, Q> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.guard
    }
}

impl<R, Q: Queue> DerefMut for Turn<'_, R, Q> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.guard
    }
}

impl<R, Q: Queue> Turn<'_, R, Q> {
    /// Ends the turn without looking at the queue, which the caller does.
    fn give_back(mut self) {
        self.end.looks = false;
    }
}

impl<R, Q: Queue> Drop for End<'_, R, Q> {
    fn drop(&mut self) {
        if self.looks && !self.turns.line().queue.is_empty() {
            self.turns.wake.notify_one();
        }
    }
}

/// What the locks guard is right at every moment, so that a panic elsewhere does not spoil it.
fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}
