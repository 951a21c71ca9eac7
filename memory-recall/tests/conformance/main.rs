//! The reference provider with conversations passes the conformance suite: the cases about the layer, and all the
//! others as before.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests panic on anything unexpected")]

use memory_conformance::{Fixture, Harness, ReferenceHarness, async_trait};
use memory_core::{Provider, Result};
use memory_recall::{Recall, RecallOptions};

struct Conversations {
    reference: ReferenceHarness,
    /// Whether turns have vectors.
    embeds: bool,
    /// As large as possible, or so small that every recall reads the store.
    memory_bytes: usize,
}

impl Conversations {
    fn wrap(&self, provider: Box<dyn Provider>, fixture: &Fixture) -> Box<dyn Provider> {
        let mut options = RecallOptions::default().with_memory_bytes(self.memory_bytes);
        if self.embeds {
            options = options.with_embedder(fixture.embedder.clone());
        }
        Box::new(Recall::new(provider, options, fixture.clock.clone(), fixture.ids.clone()))
    }
}

#[async_trait]
impl Harness for Conversations {
    fn name(&self) -> &str {
        "conversations on the reference"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        Ok(self.wrap(self.reference.open(fixture.clone()).await?, &fixture))
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        Ok(self.reference.reopen(fixture).await?.map(|provider| self.wrap(provider, fixture)))
    }

    fn takes_small_caches(&self) -> bool {
        self.reference.takes_small_caches()
    }
}

memory_conformance::conformance_tests! {
    "words" => Conversations { reference: ReferenceHarness::new(), embeds: false, memory_bytes: usize::MAX };
    "vectors" => Conversations { reference: ReferenceHarness::with_vectors(), embeds: true, memory_bytes: usize::MAX };
    "crowded" => Conversations { reference: ReferenceHarness::new(), embeds: false, memory_bytes: 0 };
}
