//! Model check of `src/commit/combining.rs`: over every interleaving of a few threads, no job is forgotten and no thread waits
//! forever. A job that nobody runs is a deadlock, which the checker reports.
#![cfg(test)]

use std::collections::VecDeque;
use std::process::{Command, Stdio};

use loom::sync::{Arc, Notify};
use loom::thread;

#[path = "../src/commit/combining.rs"]
mod combining;

use combining::{Combiner, Runner};

/// Environment variable: the line number of the wake-up to skip.
const SKIPPED_WAKE: &str = "SKIPPED_WAKE";

/// The checker's primitives, with two changes. One wake-up can be skipped. And releasing a lock is a step before which other
/// threads may run, so that a `try_lock` can find the lock still taken; the checker's own lock has no such step.
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
            static SKIPPED_WAKE: LazyLock<Option<u32>> =
                LazyLock::new(|| std::env::var(crate::SKIPPED_WAKE).ok()?.parse().ok());
            if *SKIPPED_WAKE != Some(Location::caller().line()) {
                self.0.notify_one();
            }
        }
    }
}

struct Job {
    /// Whether a caller's thread may run it.
    short: bool,
    done: Arc<Notify>,
}

#[derive(Default)]
struct Jobs {
    jobs: VecDeque<Job>,
    should_throttle: bool,
}

impl combining::Queue for Jobs {
    type Batch = Job;

    fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    fn should_throttle(&self) -> bool {
        self.should_throttle
    }

    fn take(&mut self, runner: Runner) -> Option<Job> {
        let may_run = runner == Runner::Worker || self.jobs.front()?.short;
        if may_run { self.jobs.pop_front() } else { None }
    }

    fn put_back(&mut self, job: Job) {
        self.jobs.push_front(job);
    }
}

type Shared = Arc<Combiner<(), Jobs>>;

/// A caller such as a write: queues a job and waits for it.
fn call(combiner: &Shared, short: bool, mut run: impl FnMut(Job) -> Option<Job>) {
    let done = Arc::new(Notify::new());
    let job = Job { short, done: Arc::clone(&done) };
    let queued = combiner.queue(|queue, closed| {
        if !closed {
            queue.jobs.push_back(job);
        }
        !closed
    });
    if !queued {
        return;
    }
    if short {
        combiner.run_queued(1, |(), job| run(job));
    } else {
        combiner.wake_worker();
    }
    done.wait();
}

fn run(job: Job) -> Option<Job> {
    job.done.notify();
    None
}

/// Checks a scenario beside the worker's thread. Every interleaving must end.
fn check(should_throttle: bool, scenario: fn(&Shared)) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(2);
    checker.check(move || {
        let combiner: Shared = Arc::new(Combiner::new((), Jobs { should_throttle, ..Jobs::default() }));
        let shared = Arc::clone(&combiner);
        let worker = thread::spawn(move || shared.run_worker(|(), job| drop(run(job))));
        scenario(&combiner);
        combiner.close();
        worker.join().unwrap();
    });
}

/// Runs work on another thread.
fn spawn(combiner: &Shared, work: fn(&Shared)) -> thread::JoinHandle<()> {
    let combiner = Arc::clone(combiner);
    thread::spawn(move || work(&combiner))
}

const SCENARIOS: [(&str, bool, fn(&Shared)); 6] = [
    ("two callers", false, |combiner| {
        let other = spawn(combiner, |combiner| call(combiner, true, run));
        call(combiner, true, run);
        other.join().unwrap();
    }),
    ("a long job and a short one", false, |combiner| {
        let other = spawn(combiner, |combiner| call(combiner, false, run));
        call(combiner, true, run);
        other.join().unwrap();
    }),
    ("a caller, and a thread that goes ahead of the queue", false, |combiner| {
        let other = spawn(combiner, |combiner| combiner.run_first(|()| ()));
        call(combiner, true, run);
        other.join().unwrap();
    }),
    ("a caller and a reader", false, |combiner| {
        let other = spawn(combiner, |combiner| drop(combiner.try_lock()));
        call(combiner, true, run);
        other.join().unwrap();
    }),
    ("a caller, and a checkpoint that it must wait for", true, |combiner| {
        let other = spawn(combiner, |combiner| combiner.throttle_during(|| ()));
        call(combiner, true, run);
        other.join().unwrap();
    }),
    ("a caller that finds the file locked, while another thread closes", false, |combiner| {
        let other = spawn(combiner, |combiner| call(combiner, true, Some));
        combiner.close();
        other.join().unwrap();
    }),
];

#[test]
fn no_job_is_forgotten() {
    for (name, should_throttle, scenario) in SCENARIOS {
        println!("{name}");
        check(should_throttle, scenario);
    }
}

/// Each in a process of its own, because the checker aborts after a deadlock.
#[test]
fn every_wake_up_is_needed() {
    let lines = include_str!("../src/commit/combining.rs").lines().zip(1..);
    for (line, number) in lines.filter(|(line, _)| line.contains("notify_one()")) {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "no_job_is_forgotten"])
            .env(SKIPPED_WAKE, number.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(
            !status.unwrap().success(),
            "every scenario ends without the wake-up in line {number}, `{}`",
            line.trim()
        );
    }
}
