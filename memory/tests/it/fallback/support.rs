//! A pair whose primary fails on demand.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use memory::fallback::{FallbackOptions, observe, pair};
use memory::{
    Backend, Capabilities, Entry, Error, ErrorKind, Expect, GetOptions, Hook, Interposed, Json, Key, Memory,
    Next, Op, Reply, Request, Result, Scope, SetOptions, SetOutcome,
};
use memory_conformance::TestClock;
use memory_sqlite::{SqliteConfig, SqliteProvider};

/// What the primary does with its next calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Fails without effect.
    Before(ErrorKind),
    /// Succeeds but loses the reply.
    Lost,
    /// The same, for writes only.
    LostWrites,
}

/// Injected faults of a store.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) fault: Mutex<Option<Fault>>,
    pub(crate) calls: Mutex<Vec<Op>>,
    pub(crate) less: Mutex<Option<fn(&mut Capabilities)>>,
}

#[derive(Debug)]
struct Faulty(Arc<Faults>);

#[memory::async_trait]
impl Hook for Faulty {
    fn capabilities(&self, mut inner: Capabilities) -> Capabilities {
        if let Some(less) = *self.0.less.lock().unwrap() {
            less(&mut inner);
        }
        inner
    }

    async fn around(&self, request: Request, next: Next<'_>) -> Result<Reply> {
        self.0.calls.lock().unwrap().push(request.op());
        let fault = *self.0.fault.lock().unwrap();
        match fault {
            Some(Fault::Before(kind)) => Err(Error::new(kind, "the primary fails on demand")),
            Some(Fault::LostWrites) if !matches!(request.op(), Op::Set | Op::BulkInsert | Op::Delete) => {
                next.run(request).await
            }
            Some(Fault::Lost | Fault::LostWrites) => {
                next.run(request).await?;
                Err(Error::outcome_unknown("the reply was lost on demand"))
            }
            None => next.run(request).await,
        }
    }
}

pub(crate) struct Stand {
    pub(crate) memory: Memory,
    pub(crate) primary: Memory,
    pub(crate) spare: Memory,
    pub(crate) faults: Arc<Faults>,
    pub(crate) spare_faults: Arc<Faults>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn store(clock: &Arc<TestClock>) -> Memory {
    let provider = SqliteProvider::open_in_memory(SqliteConfig::default(), Arc::clone(clock) as _).unwrap();
    Memory::new(Arc::new(provider)).unwrap()
}

pub(crate) fn faulty(memory: &Memory) -> (Memory, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    (limited(memory, &faults), faults)
}

/// The store with these faults; its capabilities are read once, now.
pub(crate) fn limited(memory: &Memory, faults: &Arc<Faults>) -> Memory {
    let provider = Interposed::new(memory.clone(), Faulty(Arc::clone(faults)));
    Memory::new(Arc::new(provider)).unwrap()
}

impl Stand {
    pub(crate) fn refusing() -> Self {
        Self::of(|_, options| options)
    }

    pub(crate) fn journaling() -> Self {
        Self::of(|file, options| options.with_journal(file))
    }

    pub(crate) fn of(options: impl FnOnce(PathBuf, FallbackOptions) -> FallbackOptions) -> Self {
        let clock = Arc::new(TestClock::new());
        let folder = tempfile::tempdir().unwrap();
        let (primary, spare) = (store(&clock), store(&clock));
        let (of_primary, faults) = faulty(&primary);
        let (of_spare, spare_faults) = faulty(&spare);
        let mut chosen = FallbackOptions::new("spare");
        (chosen.clock, chosen.rest_millis) = (Arc::clone(&clock) as _, 0);
        let chosen = options(folder.path().join("journal.db"), chosen);
        let memory = pair(of_primary, of_spare, chosen).unwrap();
        Self { memory, primary, spare, faults, spare_faults, clock, folder }
    }

    /// The same stores and journal, as in another process.
    pub(crate) fn again(&self) -> Memory {
        let of_primary = limited(&self.primary, &self.faults);
        let mut options = FallbackOptions::new("spare").with_journal(self.journal());
        (options.clock, options.rest_millis) = (Arc::clone(&self.clock) as _, 0);
        pair(of_primary, self.spare.clone(), options).unwrap()
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    pub(crate) fn fail(&self, fault: impl Into<Option<Fault>>) {
        *self.faults.fault.lock().unwrap() = fault.into();
    }

    pub(crate) fn down(&self) {
        self.fail(Fault::Before(ErrorKind::Unavailable));
    }

    pub(crate) fn up(&self) {
        self.fail(None);
    }

    pub(crate) fn kv(&self) -> &dyn Backend {
        self.memory.backend().unwrap()
    }

    pub(crate) async fn set(&self, key: &str, json: &str) -> Result<SetOutcome> {
        set(&self.memory, key, json).await
    }

    /// The text of a value, and who answered in place of the primary.
    pub(crate) async fn get(&self, key: &str) -> (Option<String>, Option<String>) {
        let (entry, who) = observe(get(&self.memory, key)).await;
        (entry.map(|entry| entry.value.to_string()), who)
    }

    pub(crate) fn clock_now(&self) -> i64 {
        memory::Clock::now(&*self.clock).as_millis()
    }

    pub(crate) fn counts(&self) -> memory::fallback::JournalCounts {
        memory::fallback::journal_counts(&self.journal()).unwrap()
    }
}

pub(crate) fn scope() -> Scope {
    Scope::agent("acme", "planner").unwrap()
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) async fn set(memory: &Memory, name: &str, text: &str) -> Result<SetOutcome> {
    memory.backend().unwrap().set(&scope(), &key(name), json(text), SetOptions::default()).await
}

pub(crate) async fn get(memory: &Memory, name: &str) -> Option<Entry> {
    memory.backend().unwrap().get(&scope(), &key(name), GetOptions::uncounted()).await.unwrap()
}

pub(crate) async fn text(memory: &Memory, name: &str) -> Option<String> {
    get(memory, name).await.map(|entry| entry.value.to_string())
}

pub(crate) fn expecting(expect: Expect) -> SetOptions {
    SetOptions::default().with_expect(expect)
}
