//! How the suite opens databases: a file for each case, or memory.
#![allow(dead_code, unreachable_pub, reason = "included by several test files, each using a part")]

use std::path::PathBuf;

use memory_conformance::{Fixture, Harness, async_trait};
use memory_core::{Provider, Result};
use memory_sqlite::{Durability, SqliteConfig, SqliteProvider};
use tempfile::TempDir;

/// A file for each case.
pub struct Files {
    folder: TempDir,
    config: SqliteConfig,
    embeds: bool,
}

impl Files {
    pub fn new(durability: Durability) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, config: SqliteConfig::default().with_durability(durability), embeds: true }
    }

    /// Reads every scope at each search, as one whose index does not fit the memory.
    pub fn without_indexes(mut self) -> Self {
        self.config = self.config.with_search_index_bytes(0).with_vector_index_bytes(0);
        self
    }

    /// Serves no vectors.
    pub fn without_embedder(mut self) -> Self {
        self.embeds = false;
        self
    }

    fn path(&self, fixture: &Fixture) -> PathBuf {
        let name: String =
            fixture.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.folder.path().join(format!("{name}.db"))
    }
}

#[async_trait]
impl Harness for Files {
    fn name(&self) -> &str {
        "sqlite"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let provider = SqliteProvider::open(self.path(&fixture), self.config.clone(), fixture.clock.clone())?;
        Ok(Box::new(if self.embeds { provider.with_embedder(fixture.embedder.clone()) } else { provider }))
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        self.open(fixture.clone()).await.map(Some)
    }
}

/// Memory.
pub struct Memory;

#[async_trait]
impl Harness for Memory {
    fn name(&self) -> &str {
        "sqlite in memory"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let provider = SqliteProvider::open_in_memory(SqliteConfig::default(), fixture.clock.clone())?;
        Ok(Box::new(provider.with_embedder(fixture.embedder.clone())))
    }
}
