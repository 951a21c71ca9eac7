//! Mutants of shared state: its stages with one defect each, over the provider under test. Some decide wrongly, some
//! carry out decisions wrongly, and some sit between the stages and their tables.

mod deciders;
mod decisions;
mod interpreters;
mod steps;
mod tables;

use super::mutant::Mutant;

/// Every mutant of shared state.
pub(super) fn mutants() -> Vec<Mutant> {
    [decisions::MUTANTS, interpreters::MUTANTS, steps::MUTANTS, tables::MUTANTS].concat()
}
