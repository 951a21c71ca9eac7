//! Where a case's future runs.

use std::future::Future;
use std::pin::Pin;

/// A future that borrows.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs a future to its end on this thread, inside a shared tokio runtime.
///
/// tokio's timers and I/O work if the build enables them.
#[cfg(feature = "tokio")]
pub(crate) fn block_on(future: BoxFuture<'_, ()>) {
    use std::sync::OnceLock;

    use tokio::runtime::{Builder, Runtime};

    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_multi_thread().enable_all().build().ok());
    match runtime {
        Some(runtime) => runtime.block_on(future),
        None => plain::block_on(future),
    }
}

#[cfg(not(feature = "tokio"))]
pub(crate) use plain::block_on;

mod plain {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Wake, Waker};
    use std::thread::{self, Thread};

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Polls on this thread and parks in between; no timers, no I/O.
    pub(crate) fn block_on(future: super::BoxFuture<'_, ()>) {
        let mut future = pin!(future);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        while future.as_mut().poll(&mut context).is_pending() {
            thread::park();
        }
    }

    #[cfg(test)]
    mod tests {
        use std::sync::mpsc;
        use std::task::Poll;

        #[test]
        fn a_future_woken_by_another_thread_ends() {
            let (send, receive) = mpsc::channel::<std::task::Waker>();
            let waker = std::thread::spawn(move || receive.recv().unwrap().wake());
            let mut polled = false;
            super::block_on(Box::pin(std::future::poll_fn(|context| {
                if std::mem::replace(&mut polled, true) {
                    return Poll::Ready(());
                }
                send.send(context.waker().clone()).unwrap();
                Poll::Pending
            })));
            assert!(polled);
            waker.join().unwrap();
        }
    }
}
