//! Timers that work with any executor.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

#[derive(Debug, Default)]
struct Waiting {
    wakers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    closed: bool,
    /// When the keeper thread wakes up on its own; `None`: only when notified.
    looks: Option<Instant>,
}

impl Waiting {
    /// Whether the keeper thread must be woken for this instant. If it wakes up earlier anyway it need not be: waking
    /// it costs more than most statements do.
    fn is_news(&self, at: Instant) -> bool {
        self.looks.is_none_or(|looks| at < looks)
    }
}

/// The pending timers. One thread, the keeper, fires them; see [`Timers::wait`].
#[derive(Debug, Default)]
pub(crate) struct Timers {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Timers {
    /// A future that is ready at this instant, or when the timers are closed.
    pub(crate) fn at(self: &Arc<Self>, at: Instant) -> Timer {
        Timer { timers: Arc::clone(self), at, id: None }
    }

    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let wakers = std::mem::take(&mut waiting.wakers);
        drop(waiting);
        self.changed.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    /// Wakes the keeper thread.
    pub(crate) fn nudge(&self) {
        // Under the lock, so that a keeper about to wait does not miss it.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits for the next timer, at most until `until`, and fires the due ones; false once closed.
    pub(crate) fn wait(&self, until: Option<Instant>) -> bool {
        let mut waiting = self.lock();
        if waiting.closed {
            return false;
        }
        let next = waiting.wakers.keys().next().map(|(at, _)| *at);
        let next = [next, until].into_iter().flatten().min();
        waiting.looks = next;
        let now = Instant::now();
        let mut waiting = match next {
            Some(at) if at <= now => waiting,
            Some(at) => {
                self.changed.wait_timeout(waiting, at - now).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
        };
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(first) = waiting.wakers.first_entry() {
            if first.key().0 > now {
                break;
            }
            due.push(first.remove());
        }
        let open = !waiting.closed;
        drop(waiting);
        due.into_iter().for_each(Waker::wake);
        open
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future that becomes ready at an instant.
#[derive(Debug)]
pub(crate) struct Timer {
    timers: Arc<Timers>,
    at: Instant,
    id: Option<u64>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.at <= Instant::now() {
            return Poll::Ready(());
        }
        let timers = Arc::clone(&self.timers);
        let mut waiting = timers.lock();
        if waiting.closed {
            return Poll::Ready(());
        }
        let id = match self.id {
            Some(id) => id,
            None => {
                waiting.next += 1;
                waiting.next
            }
        };
        self.id = Some(id);
        let news = waiting.is_news(self.at);
        waiting.wakers.insert((self.at, id), context.waker().clone());
        drop(waiting);
        if news {
            timers.changed.notify_all();
        }
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let waker = self.timers.lock().wakers.remove(&(self.at, id));
            // Outside the lock: dropping a waker may drop its task.
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Wake;
    use std::time::Duration;

    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    #[test]
    fn each_timer_fires_at_its_instant_and_is_forgotten_once_dropped() {
        let timers = Arc::new(Timers::default());
        let ringing = Arc::clone(&timers);
        let thread = std::thread::spawn(move || while ringing.wait(None) {});
        let began = Instant::now();
        let mut late = Box::pin(timers.at(began + Duration::from_secs(600)));
        assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        block_on(timers.at(began + Duration::from_millis(5)));
        assert!(began.elapsed() >= Duration::from_millis(5) && began.elapsed() < Duration::from_secs(60));
        assert_eq!(timers.lock().wakers.len(), 1);
        drop(late);
        assert!(timers.lock().wakers.is_empty());
        let waits = timers.at(began + Duration::from_secs(600));
        timers.close();
        block_on(waits);
        thread.join().unwrap();
    }
}
