//! The stores that a program opened, to be closed at its end.

use std::sync::{Arc, Mutex, PoisonError};

use memory::Memory;
use memory_core::Result;

/// Whoever opens a store has it closed here; clones share the list.
#[derive(Clone, Default)]
pub(crate) struct Openings(Arc<Mutex<Vec<Memory>>>);

impl Openings {
    /// Has a store closed at the end of the program.
    pub(crate) fn closing(&self, memory: Memory) -> Memory {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(memory.clone());
        memory
    }

    /// Closes them.
    ///
    /// # Errors
    /// The first error of [`close`](memory_core::Provider::close); all are closed nevertheless.
    pub(crate) async fn close(&self) -> Result<()> {
        let opened = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut closed = Ok(());
        for memory in opened {
            closed = closed.and(memory.close().await);
        }
        closed
    }
}
