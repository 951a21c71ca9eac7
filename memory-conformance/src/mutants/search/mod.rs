//! Mutants of searches: by words, by vectors and by both.

mod dedup;
mod embedding;
mod hybrid;
mod lexical;
mod ranking;
mod stale_index;
mod vectors;

use super::mutant::Mutant;

/// Every mutant about searches.
pub(super) fn mutants() -> Vec<Mutant> {
    [
        lexical::MUTANTS,
        ranking::MUTANTS,
        dedup::MUTANTS,
        embedding::MUTANTS,
        vectors::MUTANTS,
        hybrid::MUTANTS,
    ]
    .concat()
}
