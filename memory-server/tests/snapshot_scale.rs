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

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memory::{BulkOptions, Json, Key, Memory, NewEntry, Scope};

/// How much more a large store may take than a small one: what a provider reads ahead, its caches, and a step of an import.
const MORE_KIB: u64 = 48 << 10;

/// Runs the command to its end; how long it took, and the most memory it held, in KiB.
fn measured(home: &Path, arguments: &[&str]) -> (Duration, u64) {
    let started = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_memory"))
        .args(arguments)
        .arg("-q")
        .current_dir(home)
        .env("HOME", home)
        .env_remove("MEMORY_URL")
        .env_remove("MEMORY_TENANT")
        .env_remove("MEMORY_CONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        peak = peak.max(now);
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(ended.success(), "{arguments:?}: {ended}");
    (started.elapsed(), peak)
}

async fn open(home: &Path, name: &str) -> Memory {
    memory::open(&format!("sqlite:{}", home.join(name).display())).await.unwrap()
}

/// Every command over the store `from.db`: what each took at its peak.
fn costs(home: &Path, what: &str) -> [u64; 3] {
    let (snapshot, of_snapshot) = measured(home, &["snapshot", "s", "--url", "sqlite:from.db"]);
    let (restore, of_restore) = measured(home, &["restore", "s", "--url", "sqlite:restored.db"]);
    let (migrate, of_migrate) = measured(home, &["migrate", "sqlite:from.db", "sqlite:moved.db"]);
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
