//! Runs a future, or blocking work, on a separate thread.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use memory_core::{Error, Result};
use tokio::sync::oneshot;

use crate::error::lost;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to completion on a new thread, and waits for that thread. On an executor's thread it might never
/// complete: tokio's channels answer "not yet" once the task has used up its budget, and only the executor can restore
/// that.
pub(crate) fn wait_for<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("memory-sqlite-task".to_owned());
        let running = thread.spawn_scoped(scope, || block_on(future)).map_err(no_thread)?;
        running.join().unwrap_or_else(|_| Err(lost()))
    })
}

fn block_on<F: Future>(future: F) -> F::Output {
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

/// Runs blocking work on a separate thread.
pub(crate) async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (reply, answer) = oneshot::channel();
    let run = move || {
        let done = work();
        let _ = reply.send(done);
    };
    std::thread::Builder::new().name("memory-sqlite-task".to_owned()).spawn(run).map_err(no_thread)?;
    answer.await.unwrap_or_else(|_| Err(lost()))
}

fn no_thread(error: std::io::Error) -> Error {
    Error::unavailable("no thread can be started; try again").with_source(error)
}
