//! A store in a file, sessions on it, and a program that knows nothing of either.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use memory::drift::{Backups, DriftSession, Guarded};
use memory::{
    Backend, BackendExt as _, Clock, DeleteOptions, DriftPolicy, Entry, Error, ErrorKind, GetOptions, Json,
    Key, Memory, Result, Scope, SetOptions, SetOutcome, Timestamp,
};
use rusqlite::Connection;

/// 2027-01-15T08:00:00Z.
pub(crate) const SECONDS: i64 = 1_800_000_000;

#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) memory: Memory,
    pub(crate) scope: Scope,
    pub(crate) clock: Arc<TestClock>,
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) async fn open(path: &Path, clock: &Arc<TestClock>) -> Memory {
    let url = format!("sqlite:{}?durability=normal&busy_timeout_ms=100&sweep_interval_ms=0", path.display());
    let registry = memory::Registry::default().with_clock(Arc::clone(clock) as Arc<dyn Clock>);
    registry.open(&url).await.unwrap()
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        let clock = Arc::new(TestClock(AtomicI64::new(SECONDS * 1_000)));
        let memory = open(&path, &clock).await;
        Self { folder, path, memory, scope: Scope::agent("acme", "ada").unwrap(), clock }
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

/// What tests do with a session, in few words.
pub(crate) struct Hands<'a>(pub(crate) Guarded<'a>, pub(crate) &'a Scope);

impl<'a> Hands<'a> {
    pub(crate) fn of(session: &'a DriftSession, fixture: &'a Fixture) -> Self {
        Self(session.guard(fixture.backend()), &fixture.scope)
    }

    pub(crate) async fn read(&self, name: &str) -> Option<Entry> {
        self.0.get(self.1, &key(name), GetOptions::default()).await.unwrap()
    }

    pub(crate) async fn set(&self, name: &str, value: &str) -> Result<SetOutcome> {
        self.0.set(self.1, &key(name), json(value), SetOptions::default()).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<bool> {
        let deleted = self.0.delete(self.1, &key(name), DeleteOptions::default()).await?;
        Ok(deleted.deleted)
    }
}

/// The reason of a refusal for drift.
pub(crate) fn reason<T: std::fmt::Debug>(refused: Result<T>) -> String {
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DriftDetected, "{error}");
    assert!(!error.retry().is_retryable());
    text(&error, "reason")
}

pub(crate) fn text(error: &Error, detail: &str) -> String {
    error.details()[detail].as_str().unwrap_or_else(|| panic!("no text `{detail}` in {error:?}")).to_owned()
}

pub(crate) const BOTH: [DriftPolicy; 2] = [DriftPolicy::Row, DriftPolicy::Strict];
