//! SQL and its company.

use crate::mutants::Mutant;

pub(super) fn mutants() -> Vec<Mutant> {
    Vec::new()
}
