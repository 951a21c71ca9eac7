//! What tests of every engine do with a session, in few words.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use memory::drift::{DriftSession, Guarded};
use memory::{
    Backend as _, Clock, DeleteOptions, DriftPolicy, Entry, Error, ErrorKind, GetOptions, Json, Key, Memory,
    Result, Scope, SetOptions, SetOutcome, Timestamp,
};

use crate::support::Fixture;

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
