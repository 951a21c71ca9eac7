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
        versions::mutants(),
        drift::mutants(),
        lifetime::mutants(),
        values::mutants(),
        keys::mutants(),
        writes::mutants(),
        list::mutants(),
        filters::mutants(),
        counters::mutants(),
        boundaries::mutants(),
    ]
    .concat()
}
