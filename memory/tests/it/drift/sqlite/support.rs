//! A store in a file, and a program that knows nothing of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use memory::{Clock, Memory, Scope};
use memory_sqlite::{SqliteConfig, SqliteProvider};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

pub(crate) use super::agent::{Agent, BOTH, SECONDS, TestClock, json, key, open, reason, text};

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) memory: Memory,
    pub(crate) scope: Scope,
    pub(crate) clock: Arc<TestClock>,
}

impl Fixture {
    /// Always `Some`: other engines may have no server.
    pub(crate) async fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        let clock = Arc::new(TestClock(AtomicI64::new(SECONDS * 1_000)));
        let memory = open(&path, &clock).await;
        Some(Self { folder, path, memory, scope: Scope::agent("acme", "ada").unwrap(), clock })
    }

    /// Another handle on the same file.
    pub(crate) async fn again(&self) -> Memory {
        open(&self.path, &self.clock).await
    }

    pub(crate) fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// The store at a place.
    pub(crate) async fn opened(&self, place: &str) -> Memory {
        open(place.as_ref(), &self.clock).await
    }

    /// A provider of the same store.
    pub(crate) fn provider(&self) -> Arc<SqliteProvider> {
        let mut config = SqliteConfig::default();
        config.sweep_interval_ms = 0;
        Arc::new(SqliteProvider::open(&self.path, config, Arc::clone(&self.clock) as Arc<dyn Clock>).unwrap())
    }

    /// Another program, with SQL.
    pub(crate) fn foreign(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    pub(crate) fn foreign_runs(&self, sql: &str) {
        foreign_runs(&self.place(), sql);
    }

    pub(crate) fn without_triggers(&self) -> Connection {
        let foreign = self.foreign();
        foreign.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
        foreign
    }

    /// Copies the store, to be restored later.
    pub(crate) fn copies(&self) {
        let copy = self.folder.path().join("copy.db");
        self.foreign().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    }

    /// Restores the rows of the copy in place, as a program may do.
    pub(crate) fn restores(&self, _: &str) {
        let (foreign, copy) = (self.without_triggers(), self.folder.path().join("copy.db"));
        foreign.execute("ATTACH ?1 AS copy", [copy.to_str().unwrap()]).unwrap();
        let tables = ["scope", "entry", "body", "sequence", "garbage", "vector", "model"];
        let sql = tables.map(|name| {
            format!("DELETE FROM main.{name}; INSERT INTO main.{name} SELECT * FROM copy.{name};")
        });
        foreign.execute_batch(&format!("BEGIN; {} COMMIT;", sql.concat())).unwrap();
    }
}

/// The ways to restore a copy in place, and whether none of them leaves a trace in the scope's token.
pub(crate) const RESTORES: [&str; 1] = ["triggers off"];
pub(crate) const IN_SILENCE: bool = true;

pub(crate) fn foreign_runs(place: &str, sql: &str) {
    Connection::open(place).unwrap().execute_batch(sql).unwrap();
}

/// Entries of a large scope, and after how many a [`Meddler`] writes.
pub(crate) const MANY: u32 = 100_000;
pub(crate) const EVERY: u32 = 5_000;

/// Another program, which waits for no lock.
pub(crate) struct Meddler(Connection);

impl Meddler {
    pub(crate) fn new(place: &str) -> Self {
        let foreign = Connection::open(place).unwrap();
        foreign.busy_timeout(std::time::Duration::ZERO).unwrap();
        Self(foreign)
    }

    pub(crate) fn runs(&self, sql: &str) {
        self.0.execute_batch(sql).unwrap();
    }
}
