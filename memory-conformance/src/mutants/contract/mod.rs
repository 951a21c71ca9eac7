//! Mutants of what every operation promises.

mod capabilities;
mod concurrency;

use super::mutant::Mutant;

/// Every mutant about what all operations promise.
pub(super) fn mutants() -> Vec<Mutant> {
    [concurrency::mutants(), capabilities::mutants()].concat()
}
