//! Snapshots, restores and moves of large stores take no more memory than those of small ones. Prints what they cost.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

#[path = "support/program.rs"]
mod program;

use std::path::Path;

use memory::{BulkOptions, Json, Key, Memory, NewEntry, Scope};

use crate::program::measured;

/// How much more a large store may take than a small one: what a provider reads ahead, its caches, and a step of an import.
const MORE_KIB: u64 = 48 << 10;

async fn open(home: &Path, name: &str) -> Memory {
    memory::open(&format!("sqlite:{}", home.join(name).display())).await.unwrap()
}

/// Every command over the store `from.db`: what each took at its peak.
fn costs(home: &Path, what: &str) -> [u64; 3] {
    let (snapshot, of_snapshot) = measured(home, &["snapshot", "s", "-q", "--url", "sqlite:from.db"]);
    let (restore, of_restore) = measured(home, &["restore", "s", "-q", "--url", "sqlite:restored.db"]);
    let (migrate, of_migrate) = measured(home, &["migrate", "sqlite:from.db", "sqlite:moved.db", "-q"]);
    let file = home.join("s").metadata().unwrap().len();
    println!(
        "{what}: a file of {} MiB; snapshot {:.1} s, {} MiB; restore {:.1} s, {} MiB; move {:.1} s, {} MiB",
        file >> 20,
        snapshot.as_secs_f64(),
        of_snapshot >> 10,
        restore.as_secs_f64(),
        of_restore >> 10,
        migrate.as_secs_f64(),
        of_migrate >> 10
    );
    [of_snapshot, of_restore, of_migrate]
}

fn small() -> (tempfile::TempDir, Scope) {
    (tempfile::tempdir().unwrap(), Scope::user("t", "u").unwrap())
}

async fn of_a_small_store() -> [u64; 3] {
    let (home, scope) = small();
    let memory = open(home.path(), "from.db").await;
    let items = vec![NewEntry::new(Key::new("k").unwrap(), Json::null())];
    memory.backend().unwrap().bulk_insert(&scope, items, BulkOptions::default()).await.unwrap();
    drop(memory);
    costs(home.path(), "one entry")
}

fn bounded(large: [u64; 3], small: [u64; 3]) {
    for ((what, large), small) in ["snapshot", "restore", "move"].iter().zip(large).zip(small) {
        assert!(large < small + MORE_KIB, "{what}: {large} KiB, of a small store {small} KiB");
    }
}

#[tokio::test]
async fn a_scope_of_many_megabytes_passes_through_little_memory() {
    let base = of_a_small_store().await;
    let (home, scope) = small();
    let memory = open(home.path(), "from.db").await;
    for batch in 0..20 {
        let items = (0..100).map(|at| {
            let text = format!("{batch} {at} {}", "x".repeat(60_000));
            NewEntry::new(Key::new(format!("k{batch}-{at}")).unwrap(), Json::string(&text))
        });
        memory.backend().unwrap().bulk_insert(&scope, items.collect(), BulkOptions::default()).await.unwrap();
    }
    drop(memory);
    bounded(costs(home.path(), "2,000 entries of 60 kB in one scope"), base);
}

#[tokio::test]
async fn thousands_of_scopes_pass_through_little_memory() {
    let count =
        std::env::var("MEMORY_SNAPSHOT_SCOPES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let base = of_a_small_store().await;
    let (home, _) = small();
    let memory = open(home.path(), "from.db").await;
    for at in 0..count {
        let scope = Scope::user(["a", "b", "c"][at % 3], &format!("user-{at}")).unwrap();
        let items =
            (0..3).map(|at| NewEntry::new(Key::new(format!("k{at}")).unwrap(), Json::string("a few words")));
        memory.backend().unwrap().bulk_insert(&scope, items.collect(), BulkOptions::default()).await.unwrap();
    }
    drop(memory);
    bounded(costs(home.path(), &format!("{count} scopes of three entries")), base);
}
