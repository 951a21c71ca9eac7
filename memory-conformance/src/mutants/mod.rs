//! A provider broken in one way each. A suite that lets one of them pass has a hole.
//!
//! Most break the reference provider. Those about SQL, which the reference has none of, stand around the
//! provider under test.

mod bend;
mod concurrency;
mod counters;
mod drift;
mod edges;
mod embedding;
mod filters;
mod forget;
mod hybrid;
mod keys;
mod layer;
mod lifecycle;
mod lifetime;
mod lists;
mod meaning;
mod quotas;
mod ranks;
mod scopes;
mod search;
mod sql;
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

use crate::case::Need;
use crate::executor::BoxFuture;
use crate::fixture::Fixture;
use crate::harness::{Harness, SqlSetup};
use crate::reference::{LayerKind, ReferenceHarness};
use bend::Bend;

/// One plausible mistake.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Mutant {
    /// Stable name (`ttl.boundary-inclusive`).
    pub id: &'static str,
    /// What the broken provider does.
    pub what: &'static str,
    /// The sentences that it breaks; cases that cite them run first.
    pub breaks: &'static [&'static str],
    /// What the provider must serve for the mutant to break it; empty: the reference provider does.
    pub needs: &'static [Need],
    bend: Bend,
}

impl Mutant {
    /// Whether it stands around the provider under test, not in the reference provider.
    #[must_use]
    pub fn is_sql(&self) -> bool {
        self.needs.iter().any(|need| need.is_sql())
    }

    /// Whether it is about the conversational layer.
    #[must_use]
    pub fn is_layer(&self) -> bool {
        self.needs.iter().any(|need| need.is_layer())
    }

    /// The reference provider that it breaks.
    pub(crate) fn ground(&self) -> Ground {
        if !self.is_layer() {
            Ground::Entries
        } else if self.needs.contains(&Need::LayerEvents) {
            Ground::Layer(LayerKind::Pending)
        } else {
            Ground::Layer(LayerKind::Sync)
        }
    }
}

/// What of the reference provider a mutant stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Keys and values, with vectors.
    Entries,
    /// The conversational layer.
    Layer(LayerKind),
}

impl Ground {
    pub(crate) const ALL: [Self; 3] =
        [Self::Entries, Self::Layer(LayerKind::Sync), Self::Layer(LayerKind::Pending)];

    /// The reference provider as it is there.
    pub(crate) fn harness(self) -> ReferenceHarness {
        match self {
            Self::Entries => ReferenceHarness::with_vectors(),
            Self::Layer(kind) => ReferenceHarness::layer(kind),
        }
    }
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
        drift::mutants(),
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
        lifecycle::mutants(),
        transfer::mutants(),
        forget::mutants(),
        concurrency::mutants(),
        truth::mutants(),
        edges::mutants(),
        sql::mutants(),
        layer::mutants(),
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

/// Opens a provider with a mutant in it.
pub struct MutantHarness {
    mutant: Mutant,
    inner: Inner,
}

/// What the mutant breaks.
enum Inner {
    Reference(ReferenceHarness),
    Other(Arc<dyn Harness>),
}

impl fmt::Debug for MutantHarness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutantHarness").field("mutant", &self.mutant).finish_non_exhaustive()
    }
}

impl MutantHarness {
    /// The reference provider with that mutant in it, in stores of its own.
    #[must_use]
    pub fn new(mutant: Mutant) -> Self {
        Self { mutant, inner: Inner::Reference(mutant.ground().harness()) }
    }

    /// Another provider with that mutant around it. A mutant that sits in the reference provider changes
    /// nothing here.
    #[must_use]
    pub fn around(mutant: Mutant, harness: Arc<dyn Harness>) -> Self {
        Self { mutant, inner: Inner::Other(harness) }
    }

    fn bent(&self, provider: Box<dyn Provider>) -> Box<dyn Provider> {
        match self.mutant.bend {
            Bend::Inside(hook) => Box::new(Interposed::new(provider, hook.into_hook())),
            Bend::Fault(_) | Bend::Door(_) => provider,
        }
    }

    fn reference(&self, reference: &ReferenceHarness, fixture: &Fixture) -> Box<dyn Provider> {
        let reference = reference.reference(fixture);
        match self.mutant.bend {
            Bend::Fault(fault) => Box::new(reference.broken(fault)),
            Bend::Inside(_) | Bend::Door(_) => self.bent(Box::new(reference)),
        }
    }
}

#[async_trait]
impl Harness for MutantHarness {
    fn name(&self) -> &str {
        self.mutant.id
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        match &self.inner {
            Inner::Reference(reference) => Ok(self.reference(reference, &fixture)),
            Inner::Other(harness) => Ok(self.bent(harness.open(fixture).await?)),
        }
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        match &self.inner {
            Inner::Reference(reference) => Ok(Some(self.reference(reference, fixture))),
            Inner::Other(harness) => Ok(harness.reopen(fixture).await?.map(|provider| self.bent(provider))),
        }
    }

    fn namespace(&self) -> &str {
        match &self.inner {
            Inner::Reference(reference) => reference.namespace(),
            Inner::Other(harness) => harness.namespace(),
        }
    }

    fn sql_setup(&self) -> SqlSetup {
        match &self.inner {
            Inner::Reference(reference) => reference.sql_setup(),
            Inner::Other(harness) => harness.sql_setup(),
        }
    }

    fn block_on(&self, future: BoxFuture<'_, ()>) {
        match &self.inner {
            Inner::Reference(reference) => reference.block_on(future),
            Inner::Other(harness) => harness.block_on(future),
        }
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
