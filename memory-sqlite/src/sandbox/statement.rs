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
    /// Tells the statement to end.
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
    /// By position. Texts to embed are replaced by their vectors.
    pub(crate) args: &'a [SqlValue],
    pub(crate) mode: Mode,
    pub(crate) deadline: Instant,
    /// Cap of the result, in rows.
    pub(crate) max_rows: usize,
    /// Cap of the result, in bytes.
    pub(crate) max_bytes: usize,
    /// Whether it frees space: such a statement may exceed the quota a little to do so.
    pub(crate) frees: bool,
    pub(crate) cancel: &'a Cancel,
}

/// What a statement did.
#[derive(Debug)]
pub(crate) struct Ran {
    /// `None`: the statement has no columns.
    pub(crate) rows: Option<Rows>,
    pub(crate) rows_affected: u64,
    /// Most memory that the engine held for it, in bytes.
    #[cfg_attr(not(feature = "lab"), allow(dead_code))]
    pub(crate) peak_bytes: u64,
}
