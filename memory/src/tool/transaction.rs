//! The transaction that a scope has open.

use memory_core::sql::{TxId, TxState};

/// The transaction that statements of a scope run in where they name none.
#[derive(Debug)]
pub(super) struct OpenTransaction {
    pub(super) tx: TxId,
    /// Whether a call has already reported that it is lost.
    pub(super) lost: bool,
}

impl OpenTransaction {
    pub(super) fn new(state: &TxState) -> Self {
        Self { tx: state.tx.clone(), lost: false }
    }
}
