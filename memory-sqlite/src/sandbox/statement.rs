//! A statement, its result, and how it is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use memory_core::sql::{Rows, SqlValue};
use memory_validator::Mode;

/// Cancels a statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the statement to stop.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// An agent's statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement<'a> {
    pub(crate) sql: &'a str,
    /// By position. Texts to embed are already replaced by their vectors.
    pub(crate) args: &'a [SqlValue],
    pub(crate) mode: Mode,
    pub(crate) deadline: Instant,
    /// Row limit of the result.
    pub(crate) max_rows: usize,
    /// Byte limit of the result.
    pub(crate) max_bytes: usize,
    /// Whether it frees space: such a statement may exceed the quota a little.
    pub(crate) frees: bool,
    pub(crate) cancel: &'a Cancel,
}

/// The result of a statement.
#[derive(Debug)]
pub(crate) struct Ran {
    /// `None` if the statement has no columns.
    pub(crate) rows: Option<Rows>,
    pub(crate) rows_affected: u64,
    /// Peak memory of the engine for it, in bytes.
    #[cfg_attr(not(feature = "lab"), allow(dead_code))]
    pub(crate) peak_bytes: u64,
}
