//! The cases about what every operation promises.

mod capabilities;
mod concurrency;
mod errors;
mod isolation;
mod linearizability;

use crate::case::Case;

/// Every case about what all operations promise.
pub(super) fn cases() -> Vec<Case> {
    [capabilities::CASES, isolation::CASES, concurrency::CASES, linearizability::CASES, errors::CASES]
        .concat()
}
