//! Every interleaving of a few threads that take turns (`src/commit/turns.rs`), by a model checker: no job is forgotten, and no
//! thread is left waiting. A job that nobody runs is a deadlock, which the checker reports.
#![cfg(test)]

use std::collections::VecDeque;
use std::process::{Command, Stdio};

use loom::sync::{Arc, Notify};
use loom::thread;

#[path = "../src/commit/turns.rs"]
mod turns;

use turns::{By, Turns};

/// The line whose wake-up is left out.
const LEFT_OUT: &str = "LEFT_OUT";

/// The primitives of the checker, with two differences. A wake-up can be left out. And giving a lock back is a step at which
/// other threads may come in between, as those do who try the lock and find it still taken; the checker's own has none there.
mod sync {
    use std::ops::{Deref, DerefMut};
    use std::panic::Location;
    use std::sync::{LazyLock, LockResult, TryLockResult};

    use loom::sync::atomic::{AtomicUsize, Ordering};

    pub(super) struct Mutex<T> {
        lock: loom::sync::Mutex<T>,
        steps: AtomicUsize,
    }

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self { lock: loom::sync::Mutex::new(value), steps: AtomicUsize::new(0) }
        }

        pub(super) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            Ok(self.guard(self.lock.lock().unwrap()))
        }

        pub(super) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            self.steps.fetch_add(1, Ordering::SeqCst);
            self.lock
                .try_lock()
                .map(|guard| self.guard(guard))
                .map_err(|_| std::sync::TryLockError::WouldBlock)
        }

        fn guard<'a>(&'a self, guard: loom::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            MutexGuard { guard: Some(guard), mutex: self }
        }
    }

    pub(super) struct MutexGuard<'a, T> {
        guard: Option<loom::sync::MutexGuard<'a, T>>,
        mutex: &'a Mutex<T>,
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.guard.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.guard.as_mut().unwrap()
        }
    }

    impl<T> Drop for MutexGuard<'_, T> {
        fn drop(&mut self) {
            if self.guard.is_some() {
                self.mutex.steps.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    pub(super) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(super) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(super) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
            let held = guard.guard.take().unwrap();
            Ok(guard.mutex.guard(self.0.wait(held).unwrap()))
        }

        #[track_caller]
        pub(super) fn notify_one(&self) {
            static LEFT_OUT: LazyLock<Option<u32>> =
                LazyLock::new(|| std::env::var(crate::LEFT_OUT).ok()?.parse().ok());
            if *LEFT_OUT != Some(Location::caller().line()) {
                self.0.notify_one();
            }
        }
    }
}

struct Job {
    /// Whether it may run on a caller's thread.
    short: bool,
    done: Arc<Notify>,
}

#[derive(Default)]
struct Jobs {
    jobs: VecDeque<Job>,
    heeds_hold: bool,
}

impl turns::Queue for Jobs {
    type Jobs = Job;

    fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    fn heeds_hold(&self) -> bool {
        self.heeds_hold
    }

    fn take(&mut self, by: By) -> Option<Job> {
        let fit = by == By::Thread || self.jobs.front()?.short;
        if fit { self.jobs.pop_front() } else { None }
    }

    fn put_back(&mut self, job: Job) {
        self.jobs.push_front(job);
    }
}

type Shared = Arc<Turns<(), Jobs>>;

/// A caller, as a write is one: queues a job, and waits for it.
fn call(turns: &Shared, short: bool, mut run: impl FnMut(Job) -> Option<Job>) {
    let done = Arc::new(Notify::new());
    let job = Job { short, done: Arc::clone(&done) };
    let queued = turns.queue(|queue, closed| {
        if !closed {
            queue.jobs.push_back(job);
        }
        !closed
    });
    if !queued {
        return;
    }
    if short {
        turns.lead(1, |(), job| run(job));
    } else {
        turns.wake();
    }
    done.wait();
}

fn run(job: Job) -> Option<Job> {
    job.done.notify();
    None
}

/// Checks a model in which the closure plays with the turns while their thread works, and which must end.
fn check(heeds_hold: bool, play: fn(&Shared)) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(2);
    checker.check(move || {
        let turns: Shared = Arc::new(Turns::new((), Jobs { heeds_hold, ..Jobs::default() }));
        let works = Arc::clone(&turns);
        let thread = thread::spawn(move || works.work(|(), job| drop(run(job))));
        play(&turns);
        turns.close();
        thread.join().unwrap();
    });
}

/// Runs this beside what follows.
fn beside(turns: &Shared, work: fn(&Shared)) -> thread::JoinHandle<()> {
    let turns = Arc::clone(turns);
    thread::spawn(move || work(&turns))
}

const MODELS: [(&str, bool, fn(&Shared)); 6] = [
    ("two callers", false, |turns| {
        let other = beside(turns, |turns| call(turns, true, run));
        call(turns, true, run);
        other.join().unwrap();
    }),
    ("a long job beside a short one", false, |turns| {
        let other = beside(turns, |turns| call(turns, false, run));
        call(turns, true, run);
        other.join().unwrap();
    }),
    ("a caller beside somebody who goes ahead of the queue", false, |turns| {
        let other = beside(turns, |turns| turns.pause(|()| ()));
        call(turns, true, run);
        other.join().unwrap();
    }),
    ("a caller beside a reader", false, |turns| {
        let other = beside(turns, |turns| drop(turns.try_turn()));
        call(turns, true, run);
        other.join().unwrap();
    }),
    ("a caller beside a checkpoint that it has to wait for", true, |turns| {
        let other = beside(turns, |turns| turns.hold(|| ()));
        call(turns, true, run);
        other.join().unwrap();
    }),
    ("a caller that finds the file locked, beside one who closes", false, |turns| {
        let other = beside(turns, |turns| call(turns, true, Some));
        turns.close();
        other.join().unwrap();
    }),
];

#[test]
fn no_job_is_forgotten() {
    for (model, heeds_hold, play) in MODELS {
        println!("{model}");
        check(heeds_hold, play);
    }
}

/// In processes of their own: after a deadlock the checker aborts.
#[test]
fn no_wake_up_can_be_left_out() {
    let lines = include_str!("../src/commit/turns.rs").lines().zip(1..);
    for (line, number) in lines.filter(|(line, _)| line.contains("notify_one()")) {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "no_job_is_forgotten"])
            .env(LEFT_OUT, number.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(!status.unwrap().success(), "nobody misses line {number}, `{}`", line.trim());
    }
}
