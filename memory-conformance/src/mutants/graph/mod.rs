//! Mutants of graphs and sessions: their tables with one defect each. They match statements of `memory-hierarchical`;
//! one that no longer matches catches nothing, and fails the tests.

mod tables;

use super::mutant::Mutant;

/// Every mutant of graphs and sessions.
pub(super) fn mutants() -> Vec<Mutant> {
    tables::MUTANTS.to_vec()
}
