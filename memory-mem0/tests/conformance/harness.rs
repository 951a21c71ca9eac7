//! Opens a mem0 for the suite.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use memory_conformance::{Fixture, Harness, async_trait};
use memory_core::{Provider, Result};
use memory_http::{EgressPolicy, HttpClient, Origin};
use memory_mem0::{Flavour, Mem0Options, Mem0Provider};
use tokio::sync::OnceCell;

use crate::support::http::{CountingIds, FixedClock, Server};
use crate::support::platform::Platform;
use crate::support::self_hosted::SelfHosted;
use crate::support::{options, provider};

/// One server for all cases, as with a real one.
pub(crate) struct Mem0Harness {
    flavour: Flavour,
    server: OnceCell<Server>,
    namespace: String,
}

impl Mem0Harness {
    pub(crate) fn self_hosted() -> Self {
        Self::of(Flavour::SelfHosted)
    }

    pub(crate) fn platform() -> Self {
        Self::of(Flavour::Platform)
    }

    fn of(flavour: Flavour) -> Self {
        // A real server keeps data between runs.
        let namespace = format!("conformance-{:x}", RandomState::new().build_hasher().finish());
        Self { flavour, server: OnceCell::new(), namespace }
    }

    fn options(&self) -> Mem0Options {
        match self.flavour {
            Flavour::Platform => Mem0Options::platform(),
            _ => Mem0Options::self_hosted("http://localhost"),
        }
    }

    /// The real server, if one is named.
    fn real(&self) -> Option<Result<Mem0Provider>> {
        let (url, key) = match self.flavour {
            Flavour::Platform => ("MEMORY_TEST_MEM0_PLATFORM_URL", "MEMORY_TEST_MEM0_PLATFORM_KEY"),
            _ => ("MEMORY_TEST_MEM0_URL", "MEMORY_TEST_MEM0_KEY"),
        };
        let url = std::env::var(url).ok()?;
        let mut named = self.options();
        named.api_key_env = Some(key.to_owned());
        Some(Origin::of(&url).and_then(|origin| {
            let policy = EgressPolicy::new().allow_host(&format!("{}:{}", origin.host(), origin.port()))?;
            let http = HttpClient::builder(policy, Arc::new(FixedClock), Arc::new(CountingIds::default()))
                .build()?;
            Mem0Provider::with_client(options(named, &url), http)
        }))
    }

    async fn opened(&self) -> Result<Box<dyn Provider>> {
        if let Some(real) = self.real() {
            return Ok(Box::new(real?));
        }
        let flavour = self.flavour;
        let server = self.server.get_or_init(|| async move {
            match flavour {
                Flavour::Platform => Platform::default().start().await,
                _ => SelfHosted::default().start().await,
            }
        });
        Ok(Box::new(provider(server.await, self.options())))
    }
}

#[async_trait]
impl Harness for Mem0Harness {
    fn name(&self) -> &str {
        match self.flavour {
            Flavour::Platform => "mem0-platform",
            _ => "mem0-self-hosted",
        }
    }

    async fn open(&self, _fixture: Fixture) -> Result<Box<dyn Provider>> {
        self.opened().await
    }

    async fn reopen(&self, _fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        Ok(Some(self.opened().await?))
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }
}
