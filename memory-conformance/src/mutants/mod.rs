//! The reference provider broken in one way each. A suite that lets one of them pass has a hole.

mod bend;
mod concurrency;
mod counters;
mod edges;
mod embedding;
mod filters;
mod hybrid;
mod keys;
mod lifetime;
mod lists;
mod meaning;
mod quotas;
mod ranks;
mod scopes;
mod search;
mod transfer;
mod truth;
mod values;
mod vectors;
mod versions;
mod writes;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Interposed, Provider, Result};

use crate::fixture::Fixture;
use crate::harness::Harness;
use crate::reference::ReferenceHarness;
use bend::Bend;

/// One plausible mistake.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Mutant {
    /// Stable name (`ttl.boundary-inclusive`).
    pub id: &'static str,
    /// What the broken provider does.
    pub what: &'static str,
    /// The sentences of `docs/spec/backend.md` that it breaks; cases that cite them run first.
    pub breaks: &'static [&'static str],
    bend: Bend,
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutant")
            .field("id", &self.id)
            .field("what", &self.what)
            .field("breaks", &self.breaks)
            .finish_non_exhaustive()
    }
}

/// Every mutant.
#[must_use]
pub fn all() -> Vec<Mutant> {
    [
        versions::mutants(),
        lifetime::mutants(),
        values::mutants(),
        keys::mutants(),
        writes::mutants(),
        lists::mutants(),
        filters::mutants(),
        counters::mutants(),
        search::mutants(),
        ranks::mutants(),
        vectors::mutants(),
        embedding::mutants(),
        meaning::mutants(),
        hybrid::mutants(),
        quotas::mutants(),
        scopes::mutants(),
        transfer::mutants(),
        concurrency::mutants(),
        truth::mutants(),
        edges::mutants(),
    ]
    .concat()
}

/// Opens the reference provider with a mutant in it.
#[derive(Debug)]
pub struct MutantHarness {
    mutant: Mutant,
    reference: ReferenceHarness,
}

impl MutantHarness {
    /// A harness of its own, with stores of its own.
    #[must_use]
    pub fn new(mutant: Mutant) -> Self {
        Self { mutant, reference: ReferenceHarness::with_vectors() }
    }

    fn bent(&self, fixture: &Fixture) -> Box<dyn Provider> {
        let reference = self.reference.reference(fixture);
        match self.mutant.bend {
            Bend::Fault(fault) => Box::new(reference.broken(fault)),
            Bend::Inside(hook) => Box::new(Interposed::new(reference, hook.into_hook())),
            Bend::Door(_) => Box::new(reference),
        }
    }
}

#[async_trait]
impl Harness for MutantHarness {
    fn name(&self) -> &str {
        self.mutant.id
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        Ok(self.bent(&fixture))
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        Ok(Some(self.bent(fixture)))
    }

    fn door(&self, checked: Arc<dyn Provider>) -> Arc<dyn Provider> {
        match self.mutant.bend {
            Bend::Door(hook) => Arc::new(Interposed::new(checked, hook.into_hook())),
            _ => checked,
        }
    }
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
