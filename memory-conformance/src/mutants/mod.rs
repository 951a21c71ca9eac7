//! Providers with one defect each. If the suite passes one, it has a gap.
//!
//! Most are based on the reference provider. Those about SQL, which it does not serve, wrap the provider under test.

mod contract;
mod defect;
#[cfg(feature = "governed")]
mod governed;
#[cfg(feature = "hierarchical")]
mod graph;
mod harness;
mod kv;
mod layer;
mod lifecycle;
mod memory;
pub(crate) mod mutant;
mod requests;
mod search;
mod sql;
#[cfg(any(feature = "governed", feature = "hierarchical"))]
mod statements;

pub use harness::MutantHarness;
pub use mutant::{Mutant, MutantOutcome};

/// Every mutant.
#[must_use]
pub fn all() -> Vec<Mutant> {
    [
        kv::mutants(),
        search::mutants(),
        lifecycle::mutants(),
        contract::mutants(),
        sql::mutants(),
        layer::mutants(),
        #[cfg(feature = "governed")]
        governed::mutants(),
        #[cfg(feature = "hierarchical")]
        graph::mutants(),
    ]
    .concat()
}

/// The mutants that break the reference provider.
#[must_use]
pub fn of_the_reference() -> Vec<Mutant> {
    let mut mutants = all();
    mutants.retain(|mutant| !mutant.is_sql());
    mutants
}

/// The mutants about SQL, which break any provider that serves it.
#[must_use]
pub fn of_sql() -> Vec<Mutant> {
    let mut mutants = all();
    mutants.retain(Mutant::is_sql);
    mutants
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_many_and_each_has_a_name_of_its_own() {
        let mutants = all();
        let names: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.id).collect();
        assert_eq!(names.len(), mutants.len());
        assert!(mutants.len() >= 50, "{}", mutants.len());
        assert!(mutants.iter().all(|mutant| !mutant.breaks.is_empty()));
    }
}
