//! How the suite opens databases: a file for each case, or memory.
#![allow(dead_code, unreachable_pub, reason = "two test binaries use a part each")]

use std::path::{Path, PathBuf};

use memory_conformance::{Fixture, Harness, SHARED_DATA, SqlSetup, async_trait};
use memory_core::{Provider, Result};
use memory_sqlite::{Durability, SharedDatabase, SqlConfig, SqliteConfig, SqliteProvider};
use tempfile::TempDir;

/// A database file for each case.
pub struct Files {
    folder: TempDir,
    config: SqliteConfig,
    embeds: bool,
}

impl Files {
    pub fn new(durability: Durability) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = SqliteConfig::default().with_durability(durability);
        memory_sqlite::prepare_process();
        config.sql.shared = vec![SharedDatabase::new("facts", shared_data(folder.path()))];
        Self { folder, config, embeds: true }
    }

    /// Reads every scope at each search, like one whose index does not fit the memory.
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

/// The file that every scope may read.
fn shared_data(folder: &Path) -> PathBuf {
    let path = folder.join("shared-data.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    for statement in SHARED_DATA {
        connection.execute(statement, []).unwrap();
    }
    path
}

/// The options that the suite asks for.
fn sql_of(fixture: &Fixture, config: &SqlConfig) -> SqlConfig {
    let mut sql = config.clone();
    if let Some(idle) = fixture.tx_idle {
        sql.tx_idle_ms = idle.as_millis().try_into().unwrap();
    }
    sql
}

#[async_trait]
impl Harness for Files {
    fn name(&self) -> &str {
        "sqlite"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let mut config = self.config.clone().with_sql(sql_of(&fixture, &self.config.sql));
        config.max_file_bytes = fixture.disk_bytes.unwrap_or_default();
        if fixture.small_caches {
            config = config.with_search_index_bytes(0).with_vector_index_bytes(0);
        }
        let provider = SqliteProvider::open(self.path(&fixture), config, fixture.clock.clone())?;
        Ok(Box::new(if self.embeds { provider.with_embedder(fixture.embedder.clone()) } else { provider }))
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        self.open(fixture.clone()).await.map(Some)
    }

    fn sql_setup(&self) -> SqlSetup {
        SqlSetup::default().with_tx_idle().with_shared_data()
    }

    fn takes_small_caches(&self) -> bool {
        true
    }

    fn obeys_disk_bytes(&self) -> bool {
        true
    }
}

/// An in-memory database.
pub struct Memory;

#[async_trait]
impl Harness for Memory {
    fn name(&self) -> &str {
        "sqlite in memory"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let config = SqliteConfig::default()
            .with_sql(sql_of(&fixture, &SqlConfig::default()))
            .with_max_file_bytes(fixture.disk_bytes.unwrap_or_default());
        let provider = SqliteProvider::open_in_memory(config, fixture.clock.clone())?;
        Ok(Box::new(provider.with_embedder(fixture.embedder.clone())))
    }

    fn sql_setup(&self) -> SqlSetup {
        SqlSetup::default().with_tx_idle()
    }

    fn obeys_disk_bytes(&self) -> bool {
        true
    }
}
