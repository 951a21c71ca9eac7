//! Opens a provider with a mutant.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_core::{Interposed, Provider, Result};

use super::defect::Defect;
use super::memory::Memory;
use super::mutant::Mutant;
use crate::harness::executor::BoxFuture;
use crate::harness::fixture::Fixture;
use crate::harness::{Harness, SqlSetup};
use crate::reference::ReferenceHarness;

/// Opens a provider with a mutant.
pub struct MutantHarness {
    mutant: Mutant,
    inner: Inner,
    namespace: String,
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
    /// The reference provider with that mutant, in separate stores.
    #[must_use]
    pub fn new(mutant: Mutant) -> Self {
        let reference = mutant.ground().harness();
        let namespace = reference.namespace().to_owned();
        Self { mutant, inner: Inner::Reference(reference), namespace }
    }

    /// Another provider wrapped in that mutant. A mutant inside the reference provider has no effect here.
    #[must_use]
    pub fn around(mutant: Mutant, harness: Arc<dyn Harness>) -> Self {
        // In a store that outlives it, the next mutant must not see what this one left.
        static USES: AtomicU64 = AtomicU64::new(1);
        let namespace = format!("{}-{}", harness.namespace(), USES.fetch_add(1, Ordering::Relaxed));
        Self { mutant, inner: Inner::Other(harness), namespace }
    }

    fn tampered(&self, provider: Box<dyn Provider>, fixture: &Fixture) -> Box<dyn Provider> {
        match self.mutant.defect {
            Defect::BehindChecked(hook) => {
                Box::new(Interposed::new(provider, hook.into_hook(Memory::new(fixture))))
            }
            _ => provider,
        }
    }

    fn reference(&self, reference: &ReferenceHarness, fixture: &Fixture) -> Box<dyn Provider> {
        let reference = reference.reference(fixture);
        match self.mutant.defect {
            Defect::InReference(fault) => Box::new(reference.broken(fault)),
            _ => self.tampered(Box::new(reference), fixture),
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
            Inner::Other(harness) => {
                let provider = harness.open(fixture.clone()).await?;
                Ok(self.tampered(provider, &fixture))
            }
        }
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        match &self.inner {
            Inner::Reference(reference) => Ok(Some(self.reference(reference, fixture))),
            Inner::Other(harness) => {
                Ok(harness.reopen(fixture).await?.map(|provider| self.tampered(provider, fixture)))
            }
        }
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn sql_setup(&self) -> SqlSetup {
        match &self.inner {
            Inner::Reference(reference) => reference.sql_setup(),
            Inner::Other(harness) => harness.sql_setup(),
        }
    }

    fn takes_small_caches(&self) -> bool {
        match &self.inner {
            Inner::Reference(reference) => reference.takes_small_caches(),
            Inner::Other(harness) => harness.takes_small_caches(),
        }
    }

    fn obeys_disk_bytes(&self) -> bool {
        match &self.inner {
            Inner::Reference(reference) => reference.obeys_disk_bytes(),
            Inner::Other(harness) => harness.obeys_disk_bytes(),
        }
    }

    fn block_on(&self, future: BoxFuture<'_, ()>) {
        match &self.inner {
            Inner::Reference(reference) => reference.block_on(future),
            Inner::Other(harness) => harness.block_on(future),
        }
    }

    fn wrap_checked(&self, checked: Arc<dyn Provider>) -> Arc<dyn Provider> {
        match self.mutant.defect {
            Defect::AheadOfChecked(hook) => {
                Arc::new(Interposed::new(checked, hook.into_hook(Memory::default())))
            }
            _ => checked,
        }
    }

    #[cfg(feature = "hierarchical")]
    async fn open_graphs(
        &self,
        provider: Arc<dyn Provider>,
        tenant: &memory_core::TenantId,
        ids: Arc<dyn memory_core::IdGen>,
    ) -> Result<Arc<dyn memory_hierarchical::GraphStore>> {
        match &self.inner {
            Inner::Reference(reference) => reference.open_graphs(provider, tenant, ids).await,
            Inner::Other(harness) => harness.open_graphs(provider, tenant, ids).await,
        }
    }

    #[cfg(feature = "governed")]
    fn change_shared(&self, setup: &mut crate::governed::Setup) {
        if let Defect::InStages(change) = self.mutant.defect {
            change(setup);
        }
    }
}
