//! A store in a file, and a program that knows nothing of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use memory::drift::{Backups, DriftSession};
use memory::{Backend, BackendExt as _, Clock, DriftPolicy, GetOptions, Memory, Scope};
use rusqlite::Connection;

pub(crate) use crate::hands::{BOTH, Hands, SECONDS, TestClock, json, key, open, reason, text};

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) memory: Memory,
    pub(crate) scope: Scope,
    pub(crate) clock: Arc<TestClock>,
}

impl Fixture {
    /// Always there: other engines may have no server.
    pub(crate) async fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        let clock = Arc::new(TestClock(AtomicI64::new(SECONDS * 1_000)));
        let memory = open(&path, &clock).await;
        Some(Self { folder, path, memory, scope: Scope::agent("acme", "ada").unwrap(), clock })
    }

    /// The same file, opened once more.
    pub(crate) async fn again(&self) -> Memory {
        open(&self.path, &self.clock).await
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        self.memory.backend().unwrap()
    }

    pub(crate) fn backups(&self) -> Arc<Backups> {
        Arc::new(Backups::new(self.memory.drift_backups().unwrap()))
    }

    pub(crate) fn session(&self, policy: DriftPolicy) -> DriftSession {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        DriftSession::new(policy).with_backups(self.backups()).with_clock(clock)
    }

    /// Somebody else, by the library.
    pub(crate) async fn other_sets(&self, name: &str, value: &str) -> u64 {
        self.backend().put(&self.scope, &key(name), json(value)).await.unwrap().version
    }

    pub(crate) async fn other_deletes(&self, name: &str) {
        assert!(self.backend().remove(&self.scope, &key(name)).await.unwrap());
    }

    pub(crate) async fn value(&self, name: &str) -> Option<String> {
        let entry = self.backend().get(&self.scope, &key(name), GetOptions::uncounted()).await.unwrap();
        entry.map(|entry| entry.value.as_str().to_owned())
    }

    /// Another program, with SQL.
    pub(crate) fn foreign(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    pub(crate) fn foreign_runs(&self, sql: &str) {
        self.foreign().execute_batch(sql).unwrap();
    }

    /// Files of the backups of the scope, by name.
    pub(crate) fn backup_files(&self) -> Vec<String> {
        let folder = self.memory.drift_backups().unwrap().join(self.scope.digest().to_hex());
        let Ok(found) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut names: Vec<String> =
            found.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
