//! The open transaction of a scope.

use memory_core::sql::{TxId, TxState};

/// The transaction in which a scope's statements run unless they name one.
#[derive(Debug)]
pub(super) struct OpenTransaction {
    pub(super) tx: TxId,
    /// Whether a call has already reported it as lost.
    pub(super) lost: bool,
}

impl OpenTransaction {
    pub(super) fn new(state: &TxState) -> Self {
        Self { tx: state.tx.clone(), lost: false }
    }
}
