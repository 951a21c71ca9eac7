//! An in-memory store to run operations on, and a way to wait for them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

use memory_conformance::{Reference, TestClock};
use memory_core::{Backend, Checked, Provider};

/// The reference provider behind `Checked`, with its clock.
#[must_use]
pub fn reference() -> (Checked<Reference>, Arc<TestClock>) {
    let clock = Arc::new(TestClock::new());
    let checked = Checked::new(Reference::new(Arc::<TestClock>::clone(&clock))).expect("an honest provider");
    (checked, clock)
}

/// The key/value facet.
///
/// # Panics
/// If there is none.
pub fn kv<P: Provider>(provider: &P) -> &dyn Backend {
    provider.backend().expect("a key/value facet")
}

/// Runs a future to its end on this thread.
pub fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}
