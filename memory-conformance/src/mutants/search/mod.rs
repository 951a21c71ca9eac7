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
        lexical::mutants(),
        ranking::mutants(),
        dedup::mutants(),
        embedding::mutants(),
        vectors::mutants(),
        hybrid::mutants(),
    ]
    .concat()
}
