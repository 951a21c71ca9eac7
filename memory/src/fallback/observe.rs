//! Which store answered. Recorded while a call is polled, so that no answer's type has to carry it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    static CURRENT: RefCell<Option<Arc<Observation>>> = const { RefCell::new(None) };
}

#[derive(Debug, Default)]
struct Observation(Mutex<Option<String>>);

/// Replaces this thread's observation for as long as it lives.
struct Seat(Option<Arc<Observation>>);

impl Seat {
    fn take(observation: &Arc<Observation>) -> Self {
        Self(CURRENT.with(|current| current.borrow_mut().replace(Arc::clone(observation))))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with(|current| *current.borrow_mut() = before);
    }
}

/// Runs a future. Also returns the name of the backend that answered in place of another, if any.
///
/// Does not cover tasks that the future spawns.
pub async fn observe<F: Future>(future: F) -> (F::Output, Option<String>) {
    let observation = Arc::new(Observation::default());
    let mut future = pin!(future);
    let output = poll_fn(|context| {
        let _seat = Seat::take(&observation);
        future.as_mut().poll(context)
    })
    .await;
    let name = observation.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(name) = &name {
        note(name);
    }
    (output, name)
}

/// Within [`observe`]: the backend that has answered in place of another, if any so far.
#[must_use]
pub fn fell_back() -> Option<String> {
    let current = CURRENT.with(|current| current.borrow().clone())?;
    current.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Records that this backend answered in place of another.
pub(crate) fn note(name: &str) {
    if let Some(current) = CURRENT.with(|current| current.borrow().clone()) {
        *current.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn observations_belong_to_their_call() {
        let spare = async {
            tokio::task::yield_now().await;
            note("spare");
            assert_eq!(fell_back().as_deref(), Some("spare"));
        };
        let ((_, noted), (_, other)) = tokio::join!(observe(spare), observe(tokio::task::yield_now()));
        assert_eq!((noted.as_deref(), other), (Some("spare"), None));
        assert_eq!(fell_back(), None);
        let (_, outer) = observe(observe(async { note("spare") })).await;
        assert_eq!(outer.as_deref(), Some("spare"));
    }
}
