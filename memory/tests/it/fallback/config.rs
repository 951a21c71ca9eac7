//! FB-9, FB-24, FB-30: pairs of `memory.toml`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memory::fallback::observe;
use memory::{
    BackendUrl, Config, Error, ErrorKind, Factory, HealthStatus, OpenContext, Provider, Registry, Result,
};
use memory_conformance::TestClock;

use crate::fallback::support::{Faults, get, limited, set, store, text};

/// A scheme whose only store can be made unable to open.
#[derive(Debug)]
struct Far {
    is_away: AtomicBool,
    faults: Arc<Faults>,
    store: memory::Memory,
}

#[memory::async_trait]
impl Factory for Shared {
    async fn open(&self, _url: &BackendUrl, _context: &OpenContext) -> Result<Arc<dyn Provider>> {
        if self.0.is_away.load(Ordering::SeqCst) {
            return Err(Error::unavailable("it is away on demand"));
        }
        Ok(Arc::new(limited(&self.0.store, &self.0.faults)))
    }
}

#[derive(Clone, Debug)]
struct Shared(Arc<Far>);

fn far() -> (Shared, Registry, Arc<TestClock>) {
    let clock = Arc::new(TestClock::new());
    let far = Far { is_away: AtomicBool::new(false), faults: Arc::default(), store: store(&clock) };
    let far = Shared(Arc::new(far));
    let mut registry = Registry::default().with_clock(clock.clone());
    registry.register("far", Arc::new(far.clone())).unwrap();
    (far, registry, clock)
}

fn config(folder: &Path, of_main: &str) -> Result<Config> {
    let text =
        format!("[backends.main]\nurl = \"far:a\"\n{of_main}\n[backends.spare]\nurl = \"sqlite:spare.db\"\n");
    Config::parse(&text, folder.join("memory.toml"))
}

const JOURNAL: &str = "fallback = \"spare\"\nfallback_writes = \"journal\"\nfallback_rest_ms = 0";

#[tokio::test]
async fn an_unavailable_primary_is_opened_once_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (far, registry, _) = far();
    let config = config(folder.path(), JOURNAL).unwrap();
    // It was never reached, in no process.
    far.0.is_away.store(true, Ordering::SeqCst);
    let memory = config.open_backend_with(&registry, "main").await.unwrap();
    let (entry, who) = observe(get(&memory, "k")).await;
    assert_eq!((entry, who.as_deref()), (None, Some("spare")));
    set(&memory, "k", "1").await.unwrap();
    assert_eq!(memory.health().await.unwrap().status, HealthStatus::Degraded);
    far.0.is_away.store(false, Ordering::SeqCst);
    assert_eq!(text(&memory, "k").await.as_deref(), Some("1"));
    assert_eq!(text(&far.0.store, "k").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_primary_replaced_by_another_database_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (far, registry, _) = far();
    let config = config(folder.path(), "fallback = \"spare\"\nfallback_rest_ms = 0").unwrap();
    far.0.is_away.store(true, Ordering::SeqCst);
    let memory = config.open_backend_with(&registry, "main").await.unwrap();
    *far.0.faults.less.lock().unwrap() = Some(|capabilities| capabilities.stats = false);
    far.0.is_away.store(false, Ordering::SeqCst);
    let error = set(&memory, "k", "1").await.unwrap_err();
    assert!(error.message().contains("without capabilities"), "{error}");
}

#[tokio::test]
async fn writes_that_wait_for_a_primary_that_cannot_replay_them_stay_readable_and_the_pair_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (far, registry, _) = far();
    let config = config(folder.path(), JOURNAL).unwrap();
    far.0.is_away.store(true, Ordering::SeqCst);
    let memory = config.open_backend_with(&registry, "main").await.unwrap();
    set(&memory, "k", "1").await.unwrap();
    *far.0.faults.less.lock().unwrap() = Some(|capabilities| capabilities.compare_and_set = false);
    far.0.is_away.store(false, Ordering::SeqCst);
    assert_eq!(text(&memory, "k").await.as_deref(), Some("1"));
    let refused = config.open_backend_with(&registry, "main").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

/// Said by `config check` too, which opens nothing.
#[tokio::test]
async fn a_journal_that_is_a_folder_or_in_none_is_refused_before_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, registry, _) = far();
    for (journal, kind, why) in
        [(".", ErrorKind::InvalidArgument, "is a folder"), ("no/such/j", ErrorKind::NotFound, "make it")]
    {
        let named = format!("{JOURNAL}\nfallback_journal = \"{journal}\"");
        let error = config(folder.path(), &named).unwrap().check_backend(&registry, "main").unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.message().contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_store_for_which_writes_wait_is_not_opened_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let (far, registry, _) = far();
    let with = config(folder.path(), JOURNAL).unwrap();
    with.open_backend_with(&registry, "main").await.unwrap();
    far.0.is_away.store(true, Ordering::SeqCst);
    set(&with.open_backend_with(&registry, "main").await.unwrap(), "k", "1").await.unwrap();
    far.0.is_away.store(false, Ordering::SeqCst);
    for of_main in ["", "fallback = \"spare\""] {
        let without = config(folder.path(), of_main).unwrap();
        let error = without.open_backend_with(&registry, "main").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{of_main}");
    }
    let memory = with.open_backend_with(&registry, "main").await.unwrap();
    assert_eq!(text(&memory, "k").await.as_deref(), Some("1"));
    config(folder.path(), "").unwrap().open_backend_with(&registry, "main").await.unwrap();
}

#[test]
fn circular_or_lossy_configurations_are_refused_when_read() {
    let folder = Path::new("");
    config(folder, JOURNAL).unwrap();
    for bad in [
        "fallback = \"none\"",
        "fallback = \"main\"",
        "fallback_writes = \"journal\"",
        "fallback_journal = \"j.db\"",
        "fallback_rest_ms = 5",
        "fallback = \"spare\"\nfallback_journal = \"j.db\"",
        "fallback = \"spare\"\nfallback_writes = \"both\"",
        "fallback = \"spare\"\nfallback_rest_ms = 3600001",
        "fallback = \"spare\"\n[sql]\nenabled = true\nworkers = 1",
        "fallback = \"memory\"\nfallback_writes = \"journal\"\n[backends.memory]\nurl = \"sqlite::memory:\"",
        "fallback = \"same\"\n[backends.same]\nurl = \"far:a\"",
        "fallback = \"b\"\n[backends.b]\nurl = \"far:b\"\nfallback = \"main\"",
        "fallback = \"b\"\n[backends.b]\nurl = \"far:b\"\nfallback = \"spare\"",
        "fallback = \"spare\"\nfallback_writes = \"journal\"\nfallback_journal = \"j\"\n[backends.b]\nurl = \"far:b\"\n\
         fallback = \"spare\"\nfallback_writes = \"journal\"\nfallback_journal = \"j\"",
        "fallback = \"spare\"\nfallback_writes = \"journal\"\nfallback_journal = \"j\"\n[backends.b]\nurl = \"far:b\"\n\
         fallback = \"spare\"\nfallback_writes = \"journal\"\nfallback_journal = \"./j\"",
        "fallback = \"spare\"\nfallback_writes = \"journal\"\nfallback_journal = \"./spare.db\"",
        "fallback = \"spare\"\nfallback_writes = \"journal\"\nfallback_journal = \"memory.toml\"",
        "[backends.file]\nurl = \"sqlite:./spare.db?durability=normal\"\nfallback = \"spare\"",
        "[backends.\"a/b\"]\nurl = \"far:b\"\nfallback = \"spare\"\nfallback_writes = \"journal\"",
    ] {
        assert_eq!(config(folder, bad).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad}");
    }
}
