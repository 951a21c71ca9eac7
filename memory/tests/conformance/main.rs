//! A pair of databases passes the suite like a single one while the primary is healthy.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use memory::Memory;
use memory::fallback::{FallbackOptions, pair};
use memory_conformance::{Fixture, Harness, SqlSetup, async_trait};
use memory_core::{Provider, Result};
use memory_sqlite::{SqliteConfig, SqliteProvider};

struct Pairs(tempfile::TempDir);

#[async_trait]
impl Harness for Pairs {
    fn name(&self) -> &str {
        "sqlite with a fallback"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let store = || {
            let mut config = SqliteConfig::default();
            if let Some(idle) = fixture.tx_idle {
                config.sql.tx_idle_ms = idle.as_millis().try_into().unwrap();
            }
            let provider = SqliteProvider::open_in_memory(config, fixture.clock.clone())?;
            Memory::new(Arc::new(provider.with_embedder(fixture.embedder.clone())))
        };
        let name: String =
            fixture.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let mut options = FallbackOptions::new("spare").with_journal(self.0.path().join(name));
        options.clock = fixture.clock.clone();
        Ok(Box::new(pair(store()?, store()?, options)?))
    }

    fn sql_setup(&self) -> SqlSetup {
        SqlSetup::default().with_tx_idle()
    }
}

memory_conformance::conformance_tests!(Pairs(tempfile::tempdir().unwrap()));
