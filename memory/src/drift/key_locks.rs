//! Locks for one session's writes: two concurrent ones would mistake each other for drift.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use memory_core::{Key, ScopeDigest};

/// What a write locks: a key of a scope, or (`None`) the whole scope.
pub(super) type Place = (ScopeDigest, Option<Key>);

#[derive(Debug, Default)]
struct State {
    held: HashSet<Place>,
    waiting: Vec<Waker>,
}

/// The locked places and the tasks that wait for them.
#[derive(Debug, Default)]
pub(super) struct KeyLocks(Mutex<State>);

/// Keeps its places locked until it is dropped.
#[derive(Debug)]
pub(super) struct KeyGuard<'a> {
    locks: &'a KeyLocks,
    places: Vec<Place>,
}

impl KeyLocks {
    /// Waits until all places are free, then locks them all at once: nobody holds some while waiting for others.
    pub(super) async fn lock(&self, mut places: Vec<Place>) -> KeyGuard<'_> {
        places.sort_unstable();
        places.dedup();
        poll_fn(|context| {
            let mut state = self.state();
            if places.iter().any(|place| state.held.contains(place)) {
                if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.waiting.push(context.waker().clone());
                }
                return Poll::Pending;
            }
            state.held.extend(places.iter().cloned());
            Poll::Ready(())
        })
        .await;
        KeyGuard { locks: self, places }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.locks.state();
        for place in &self.places {
            state.held.remove(place);
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}
