//! The steps of the scenarios, for every engine.

use std::borrow::Borrow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use memory::drift::{Backups, DriftSession, Guarded};
use memory::{
    Backend, BackendExt as _, BulkOptions, Clock, DeleteOptions, DriftPolicy, Entry, Error, ErrorKind,
    GetOptions, Json, Key, Memory, NewEntry, Result, SetOptions, SetOutcome, Timestamp,
};

use super::support::Fixture;

/// 2027-01-15T08:00:00Z.
pub(crate) const SECONDS: i64 = 1_800_000_000;

#[derive(Debug)]
pub(crate) struct TestClock(pub(crate) AtomicI64);

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

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// A store in a file.
pub(crate) async fn open(path: &Path, clock: &Arc<TestClock>) -> Memory {
    let url = format!("sqlite:{}?durability=normal&busy_timeout_ms=100&sweep_interval_ms=0", path.display());
    let registry = memory::Registry::default().with_clock(Arc::clone(clock) as Arc<dyn Clock>);
    registry.open(&url).await.unwrap()
}

/// An agent whose session guards its writes to the scope of a store. Owns both, or borrows them.
pub(crate) struct Agent<S = DriftSession, F = Fixture> {
    pub(crate) session: S,
    fixture: F,
    memory: Memory,
}

impl Agent {
    /// With a separate store; `None` if there is no server.
    pub(crate) async fn new(policy: DriftPolicy) -> Option<Self> {
        let fixture = Fixture::new().await?;
        Some(Self { session: fixture.session(policy), memory: fixture.memory.clone(), fixture })
    }
}

impl<'a> Agent<&'a DriftSession, &'a Fixture> {
    pub(crate) fn of(session: &'a DriftSession, fixture: &'a Fixture) -> Self {
        Self::on(&fixture.memory, session, fixture)
    }

    /// Through another handle on the store.
    pub(crate) fn on(memory: &Memory, session: &'a DriftSession, fixture: &'a Fixture) -> Self {
        Self { session, fixture, memory: memory.clone() }
    }
}

impl<S, F: Borrow<Fixture>> std::ops::Deref for Agent<S, F> {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        self.fixture.borrow()
    }
}

impl<S: Borrow<DriftSession> + Sync, F: Borrow<Fixture> + Sync> Agent<S, F> {
    pub(crate) fn guarded(&self) -> Guarded<'_> {
        self.session.borrow().guard(self.memory.backend().unwrap())
    }

    pub(crate) async fn read(&self, name: &str) -> Option<Entry> {
        self.guarded().get(&self.scope, &key(name), GetOptions::default()).await.unwrap()
    }

    pub(crate) async fn set(&self, name: &str, value: &str) -> Result<SetOutcome> {
        self.guarded().set(&self.scope, &key(name), json(value), SetOptions::default()).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<bool> {
        Ok(self.guarded().delete(&self.scope, &key(name), DeleteOptions::default()).await?.deleted)
    }

    pub(crate) async fn bulk(&self, items: impl IntoIterator<Item = NewEntry>) -> Result<Vec<SetOutcome>> {
        let items = items.into_iter().collect();
        self.guarded().bulk_insert(&self.scope, items, BulkOptions::default()).await
    }

    /// Accepts the scope as it is.
    pub(crate) async fn acks(&self) {
        let token = self.guarded().drift_state(&self.scope).await.unwrap().token;
        self.guarded().ack(&self.scope, token).await.unwrap();
    }
}

impl Fixture {
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

    /// Another program that uses the library.
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

/// Whatever a client did to the entry `k`, a session that wrote it before refuses to overwrite it, without a trace.
pub(crate) async fn is_refused_after(sql: &str) {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        agent.foreign_runs(sql);
        let before = agent.guarded().drift_state(&agent.scope).await.unwrap();
        let refused = agent.set("k", "2").await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::DriftDetected, "{policy}: {sql}");
        assert_eq!(
            agent.guarded().drift_state(&agent.scope).await.unwrap(),
            before,
            "nothing was written: {sql}"
        );
        assert_ne!(agent.value("k").await.as_deref(), Some("2"), "{sql}");
    }
}

/// The reason of a drift refusal.
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
