//! A store in a file, and a program that knows nothing of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use memory::{Memory, Scope};
use rusqlite::Connection;

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

    /// Another program, with SQL.
    pub(crate) fn foreign(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    pub(crate) fn foreign_runs(&self, sql: &str) {
        self.foreign().execute_batch(sql).unwrap();
    }
}
