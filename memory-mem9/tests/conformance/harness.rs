//! Opens a mem9 for the suite.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use memory_conformance::{Fixture, Harness, async_trait};
use memory_core::{Provider, Result};
use memory_http::{EgressPolicy, HttpClient, Origin, Tenancy};
use memory_mem9::{Mem9Options, Mem9Provider, Ranking};
use tokio::sync::OnceCell;

use crate::support::fake::Mem9;
use crate::support::http::{CountingIds, FixedClock, Server};
use crate::support::{options, provider};

/// One server and one space for all cases.
pub(crate) struct Mem9Harness {
    sync: bool,
    ranking: Ranking,
    server: OnceCell<Server>,
    namespace: String,
}

impl Mem9Harness {
    /// `sync`: whether an add waits for its processing.
    pub(crate) fn new(sync: bool) -> Self {
        // A real server keeps data between runs.
        let namespace = format!("conformance-{:x}", RandomState::new().build_hasher().finish());
        Self { sync, ranking: Ranking::default(), server: OnceCell::new(), namespace }
    }

    pub(crate) fn ranked(mut self, ranking: Ranking) -> Self {
        self.ranking = ranking;
        self
    }

    /// The real server, if one is named.
    fn real(&self) -> Option<Result<Mem9Provider>> {
        let url = std::env::var("MEMORY_TEST_MEM9_URL").ok()?;
        let mut named = Mem9Options::new(url.as_str());
        named.preview = true;
        named.sync = self.sync;
        named.ranking = self.ranking;
        named.tenancy = Tenancy::SharedKey;
        named.api_key_env = Some("MEMORY_TEST_MEM9_KEY".to_owned());
        Some(Origin::of(&url).and_then(|origin| {
            let policy = EgressPolicy::new().allow_host(&format!("{}:{}", origin.host(), origin.port()))?;
            let http = HttpClient::builder(policy, Arc::new(FixedClock), Arc::new(CountingIds::default()))
                .build()?;
            Mem9Provider::with_client(named, http)
        }))
    }

    async fn opened(&self) -> Result<Box<dyn Provider>> {
        if let Some(real) = self.real() {
            return Ok(Box::new(real?));
        }
        let server = self.server.get_or_init(|| Mem9::default().start()).await;
        let mut named = options(&server.url(""));
        named.sync = self.sync;
        named.ranking = self.ranking;
        Ok(Box::new(provider(server, named)))
    }
}

#[async_trait]
impl Harness for Mem9Harness {
    fn name(&self) -> &str {
        "mem9"
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
