//! Threads of this crate's own: waiting on one for a future, and running on one what blocks.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use memory_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use crate::error::lost;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread, which must not be an executor's.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Runs what blocks on a thread of its own.
pub(crate) async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (reply, answer) = oneshot::channel();
    let run = move || {
        let done = work();
        let _ = reply.send(done);
    };
    std::thread::Builder::new().name("memory-sqlite-task".to_owned()).spawn(run).map_err(|error| {
        Error::new(ErrorKind::Unavailable, "no thread can be started; try again").with_source(error)
    })?;
    answer.await.unwrap_or_else(|_| Err(lost()))
}
