//! Statements in flight, so that all can be cancelled when the provider closes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sandbox::Cancel;

#[derive(Debug, Default)]
struct Known {
    statements: HashMap<u64, Cancel>,
    next: u64,
    closed: bool,
}

/// Every statement in flight.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<Known>);

impl InFlight {
    /// Registers a statement, which is cancelled when the returned guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlightStatement {
        let cancel = Cancel::default();
        let mut known = self.lock();
        if known.closed {
            cancel.cancel();
        }
        known.next += 1;
        let number = known.next;
        known.statements.insert(number, cancel.clone());
        drop(known);
        InFlightStatement { in_flight: Arc::clone(self), number, cancel }
    }

    /// Cancels every statement, including those that begin later.
    pub(crate) fn close(&self) {
        let mut known = self.lock();
        known.closed = true;
        known.statements.values().for_each(Cancel::cancel);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held while waiting for a statement.
#[derive(Debug)]
pub(crate) struct InFlightStatement {
    in_flight: Arc<InFlight>,
    number: u64,
    pub(crate) cancel: Cancel,
}

impl Drop for InFlightStatement {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.in_flight.lock().statements.remove(&self.number);
    }
}
