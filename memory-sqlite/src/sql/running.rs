//! Statements that run, so that they can be told to end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sandbox::Cancel;

#[derive(Debug, Default)]
struct Known {
    statements: HashMap<u64, Cancel>,
    next: u64,
    closed: bool,
}

/// Every statement under way.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<Known>);

impl Running {
    /// A statement that ends as what this returns is dropped, unless it has ended by then.
    pub(crate) fn begin(self: &Arc<Self>) -> Underway {
        let cancel = Cancel::default();
        let mut known = self.lock();
        if known.closed {
            cancel.cancel();
        }
        known.next += 1;
        let number = known.next;
        known.statements.insert(number, cancel.clone());
        drop(known);
        Underway { running: Arc::clone(self), number, cancel }
    }

    /// Tells all of them to end, and those that come.
    pub(crate) fn close(&self) {
        let mut known = self.lock();
        known.closed = true;
        known.statements.values().for_each(Cancel::cancel);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by who waits for a statement.
#[derive(Debug)]
pub(crate) struct Underway {
    running: Arc<Running>,
    number: u64,
    pub(crate) cancel: Cancel,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.running.lock().statements.remove(&self.number);
    }
}
