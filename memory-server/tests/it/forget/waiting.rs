//! Writes queued while the store was unavailable, and the fallback that took them.

use std::path::Path;

use memory::fallback::journal_counts;
use memory::{Config, Key, Scope};

use super::places::{held, held_all, seeded_home, url};
use crate::support::program::ok;
use crate::support::seed::*;

/// Files that hold or held queued writes.
const WITH_JOURNAL: [&str; 2] = ["main.fallback.db", "spare.db"];

fn seeded(text: &str, home: &Path) {
    let before = holding(home, text);
    for place in WITH_JOURNAL {
        assert!(before.iter().any(|path| path.starts_with(place)), "{place} is not seeded: {before:?}");
    }
}

#[tokio::test]
async fn queued_writes_of_a_forgotten_scope_are_in_no_file_and_never_replayed() {
    let folder = seeded_home().await;
    let home = folder.path();
    journal(home, &url(home)).await;
    seeded(SECRET, home);
    let others_before = held_all(home).await;
    let id = target().id;
    let named = ["forget", "--yes", "--audit", "redact", "-q", "--tenant", TENANT, "--user", id.as_str()];
    ok(home, &named);
    assert_eq!(holding(home, SECRET), Vec::<String>::new());
    assert_eq!(held_all(home).await, others_before, "what waits of others still waits");
    assert_eq!(journal_counts(&home.join("main.fallback.db")).unwrap().waiting, 1);
    replayed(home).await;
    assert_eq!(held(home, &target()).await.0.entries, 0);
    assert_eq!(
        value(home, &others()[0], "kept-1").await,
        "\"kept waits\"",
        "others' writes went where they belong"
    );
    assert_eq!(holding(home, SECRET), Vec::<String>::new());
}

#[tokio::test]
async fn queued_writes_of_a_forgotten_tenant_are_in_no_file() {
    let folder = seeded_home().await;
    let home = folder.path();
    journal(home, &url(home)).await;
    seeded(SECRET, home);
    seeded(TENANT, home);
    ok(home, &["forget", "--yes", "--audit", "redact", "-q", "--tenant", TENANT]);
    for text in [SECRET, TENANT] {
        assert_eq!(holding(home, text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(journal_counts(&home.join("main.fallback.db")).unwrap().waiting, 0);
}

#[tokio::test]
async fn a_queued_write_of_two_keys_keeps_the_one_not_forgotten() {
    let folder = seeded_home().await;
    let home = folder.path();
    journal(home, &url(home)).await;
    let (id, key) = (target().id, format!("{SECRET}-1"));
    let named = ["forget", "--yes", "-q", "--tenant", TENANT, "--user", id.as_str(), "--key", &key];
    ok(home, &named);
    assert_eq!(journal_counts(&home.join("main.fallback.db")).unwrap().waiting, 2);
    replayed(home).await;
    let memory = memory::open(&url(home)).await.unwrap();
    let backend = memory.backend().unwrap();
    let gone = backend.get(&target(), &Key::new(key).unwrap(), Default::default()).await.unwrap();
    assert_eq!(gone, None);
    assert_eq!(value(home, &target(), &format!("{SECRET}-2")).await, format!("\"{SECRET} waits\""));
}

/// Checking the pair's health replays the queue.
async fn replayed(home: &Path) {
    let pair = Config::load(home.join("memory.toml")).unwrap().open_backend("main").await.unwrap();
    pair.health().await.unwrap();
    assert_eq!(journal_counts(&home.join("main.fallback.db")).unwrap().waiting, 0);
}

async fn value(home: &Path, scope: &Scope, key: &str) -> String {
    let memory = memory::open(&url(home)).await.unwrap();
    let backend = memory.backend().unwrap();
    let entry = backend.get(scope, &Key::new(key).unwrap(), Default::default()).await.unwrap();
    entry.unwrap().value.to_string()
}
