//! Blocking work on a separate thread, so that it does not block an executor.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use memory_core::{Error, Result};

#[derive(Debug)]
struct Slot<T> {
    done: Option<Result<T>>,
    waker: Option<Waker>,
}

/// Sends an answer even if the work panics.
struct Answer<T>(Arc<Mutex<Slot<T>>>);

impl<T> Answer<T> {
    fn give(&self, done: Result<T>) {
        let waker = {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.done.is_none() {
                slot.done = Some(done);
            }
            slot.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.give(Err(Error::internal("work of the drift guard ended without an answer")));
    }
}

/// Runs `work` on another thread and waits for it.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let slot = Arc::new(Mutex::new(Slot { done: None, waker: None }));
    let answer = Answer(Arc::clone(&slot));
    std::thread::Builder::new()
        .name("memory-drift".to_owned())
        .spawn(move || {
            let done = work();
            answer.give(done);
        })
        .map_err(|error| Error::unavailable("no thread can be started; try again").with_source(error))?;
    poll_fn(|context| {
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.done.take() {
            Some(done) => Poll::Ready(done),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}
