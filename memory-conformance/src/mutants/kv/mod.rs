//! Mutants of the key/value facet.

mod boundaries;
mod counters;
mod drift;
mod filters;
mod keys;
mod lifetime;
mod list;
mod values;
mod versions;
mod writes;

use super::mutant::Mutant;

/// Every mutant about keys and values.
pub(super) fn mutants() -> Vec<Mutant> {
    [
        versions::MUTANTS,
        drift::MUTANTS,
        lifetime::MUTANTS,
        values::MUTANTS,
        keys::MUTANTS,
        writes::MUTANTS,
        list::MUTANTS,
        filters::MUTANTS,
        counters::MUTANTS,
        boundaries::MUTANTS,
    ]
    .concat()
}
