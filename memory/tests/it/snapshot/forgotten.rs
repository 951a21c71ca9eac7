//! Copies of forgotten data (FGT-40 to FGT-42).

use std::sync::Arc;
use std::time::Duration;

use memory::snapshot::{Control, MigrateOptions, OnDifferent, RestoreOptions, SnapshotOptions, migrate};
use memory::{Clock as _, EraseTarget, Memory, Registry};
use memory_conformance::TestClock;

use crate::snapshot::support::{content, key, restored, scope, set, sql, taken};

/// Two stores with one clock.
struct Pair(Memory, Memory, Arc<TestClock>);

impl Pair {
    async fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let registry = Registry::default().with_clock(clock.clone());
        let open = || registry.open("sqlite::memory:");
        Self(open().await.unwrap(), open().await.unwrap(), clock)
    }

    /// Later than all writes so far.
    async fn forget(&self, memory: &Memory, target: EraseTarget) {
        self.2.advance(Duration::from_secs(1));
        memory.erase(&target).await.unwrap();
        self.2.advance(Duration::from_secs(1));
    }
}

fn ada() -> EraseTarget {
    EraseTarget::Scope(scope("ada"))
}

fn replacing() -> MigrateOptions {
    MigrateOptions::default().with_on_different(OnDifferent::Replace)
}

async fn moved(from: &Memory, to: &Memory, options: &MigrateOptions) -> memory::snapshot::MigrateReport {
    migrate(from, to, options, &Control::default()).await.unwrap()
}

async fn entries(memory: &Memory) -> Vec<(String, String)> {
    let records = content(memory, &scope("ada")).await.0;
    records.iter().map(|record| (record.entry.key.to_string(), record.entry.value.to_string())).collect()
}

/// Statements that recreate the contents.
async fn database(memory: &Memory) -> String {
    content(memory, &scope("ada")).await.1.concat()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[tokio::test]
async fn a_store_with_only_a_tombstone_restores_no_database() {
    for with_entries in [true, false] {
        let both = Pair::new().await;
        let (a, b) = (&both.0, &both.1);
        sql(a, &scope("ada"), "CREATE TABLE diary (secret TEXT)").await;
        if with_entries {
            set(a, &scope("ada"), "k", "1").await;
        }
        moved(a, b, &MigrateOptions::default()).await;
        both.forget(a, ada()).await;
        // The tombstone is copied; the other store's contents stay.
        moved(a, b, &MigrateOptions::default()).await;
        let report = moved(b, a, &MigrateOptions::default()).await;
        assert!(!database(a).await.contains("diary"), "{report:?}");
        assert!(entries(a).await.is_empty());
        assert_eq!(report.not_carried.len(), 1, "{report:?}");
        let told = (report.entries.restored, report.verified, report.forgotten_records);
        assert_eq!(told, (0, 0, u64::from(with_entries)), "{report:?}");
        moved(b, a, &replacing()).await;
        assert!(!database(a).await.contains("diary"));
    }
}

#[tokio::test]
async fn a_database_created_after_a_forget_is_migrated() {
    let both = Pair::new().await;
    let (a, b) = (&both.0, &both.1);
    sql(a, &scope("ada"), "CREATE TABLE diary (secret TEXT)").await;
    both.forget(a, ada()).await;
    sql(a, &scope("ada"), "CREATE TABLE plans (text TEXT)").await;
    for _ in 0..2 {
        let report = moved(a, b, &MigrateOptions::default()).await;
        assert!(report.is_complete(), "{report:?}");
        assert!(database(b).await.contains("plans"));
    }
}

#[tokio::test]
async fn a_replacing_migration_keeps_writes_after_the_target_forgot() {
    let both = Pair::new().await;
    let (old, target) = (&both.0, &both.1);
    for memory in [old, target] {
        set(memory, &scope("ada"), "k", "1").await;
        sql(memory, &scope("ada"), "CREATE TABLE diary (secret TEXT)").await;
    }
    both.forget(target, ada()).await;
    set(target, &scope("ada"), "k", "2").await;
    set(target, &scope("ada"), "k9", "9").await;
    sql(target, &scope("ada"), "CREATE TABLE plans (text TEXT)").await;
    let after = (entries(target).await, database(target).await);
    assert_eq!(after.0, [pair("k", "2"), pair("k9", "9")]);
    for options in [MigrateOptions::default(), replacing()] {
        let report = moved(old, target, &options).await;
        assert_eq!((report.entries.replaced, report.databases.replaced, report.conflicts), (0, 0, 0));
        assert_eq!((entries(target).await, database(target).await), after, "{report:?}");
    }
}

#[tokio::test]
async fn a_replacing_restore_keeps_writes_to_a_key_after_it_was_forgotten() {
    let both = Pair::new().await;
    let (memory, ada) = (&both.0, scope("ada"));
    for name in ["a", "k", "z"] {
        set(memory, &ada, name, "1").await;
    }
    let now = Some(both.2.now());
    let (file, _) = taken(memory, &SnapshotOptions::default().with_taken_at(now)).await;
    both.forget(memory, EraseTarget::Key { scope: ada.clone(), key: key("k") }).await;
    set(memory, &ada, "k", "2").await;
    // That alone is not a difference.
    let report = restored(memory, &file, &RestoreOptions::default().with_now(now)).await.unwrap();
    assert_eq!((report.conflicts, report.entries.unchanged), (0, 1), "{report:?}");
    // Another key is one, and is removed.
    set(memory, &ada, "z", "3").await;
    let replacing = RestoreOptions::default().with_now(now).with_on_different(OnDifferent::Replace);
    let report = restored(memory, &file, &replacing).await.unwrap();
    assert_eq!((report.entries.replaced, report.records, report.forgotten_records), (1, 2, 1), "{report:?}");
    assert_eq!(entries(memory).await, [pair("a", "1"), pair("k", "2"), pair("z", "1")]);
    let again = restored(memory, &file, &replacing).await.unwrap();
    assert_eq!((again.entries.unchanged, again.records), (1, 0), "{again:?}");
}
