//! The harness of the reference provider.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_core::{Clock, Provider, Result};

use super::layer::LayerKind;
use super::store::{NAME, Reference};
use crate::case::Need;
use crate::harness::Harness;
use crate::harness::fixture::Fixture;

/// Opens the reference provider, one store per fixture, with a chosen set of capabilities.
#[derive(Debug)]
pub struct ReferenceHarness {
    name: String,
    embedder: bool,
    layer: Option<LayerKind>,
    without: Vec<Need>,
    /// Stores by fixture, so that they can be opened again.
    stores: Mutex<BTreeMap<String, Reference>>,
}

impl ReferenceHarness {
    /// Keys and values, without vectors.
    #[must_use]
    pub fn new() -> Self {
        Self {
            name: NAME.into(),
            embedder: false,
            layer: None,
            without: Vec::new(),
            stores: Mutex::default(),
        }
    }

    /// Only a conversational layer.
    #[must_use]
    pub fn layer(kind: LayerKind) -> Self {
        Self { name: "reference-layer".into(), layer: Some(kind), ..Self::new() }.without(Need::Kv)
    }

    /// Keys and values, with vectors.
    #[must_use]
    pub fn with_vectors() -> Self {
        Self { name: "reference-vectors".into(), embedder: true, ..Self::new() }
    }

    /// Serves fewer capabilities.
    #[must_use]
    pub fn without(mut self, need: Need) -> Self {
        self.without.push(need);
        self
    }

    /// A handle on the store of this fixture.
    pub(crate) fn reference(&self, fixture: &Fixture) -> Reference {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let store = stores.entry(fixture.name.clone()).or_insert_with(|| {
            let clock: Arc<dyn Clock> = Arc::<crate::TestClock>::clone(&fixture.clock);
            Reference::new(clock).with_disk_bytes(fixture.disk_bytes)
        });
        let mut handle = store.clone();
        if self.embedder {
            // The current fixture's: a store may be reopened with another model.
            handle = handle.with_embedder(Arc::<crate::TestEmbedder>::clone(&fixture.embedder));
        }
        if let Some(kind) = self.layer {
            handle = handle.with_layer(kind);
        }
        self.without.iter().fold(handle, |handle, need| handle.without(*need))
    }
}

impl Default for ReferenceHarness {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Harness for ReferenceHarness {
    fn name(&self) -> &str {
        &self.name
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        Ok(Box::new(self.reference(&fixture)))
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        Ok(Some(Box::new(self.reference(fixture))))
    }

    /// It has none.
    fn takes_small_caches(&self) -> bool {
        true
    }

    fn obeys_disk_bytes(&self) -> bool {
        true
    }
}
