//! Mutants of the general contract.

mod capabilities;
mod concurrency;

use super::mutant::Mutant;

/// Every mutant of the general contract.
pub(super) fn mutants() -> Vec<Mutant> {
    [concurrency::MUTANTS, capabilities::MUTANTS].concat()
}
