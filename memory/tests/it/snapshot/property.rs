//! Any contents survive a snapshot.

use memory::snapshot::{Control, MigrateOptions, RestoreOptions, SnapshotOptions, migrate};
use memory::{Memory, Scope};
use memory_conformance::random::Random;

use crate::snapshot::random::{database, entries, rows};
use crate::snapshot::support::{kv, restored, same, store, taken};

/// The number of random stores; a variable can raise it.
pub(super) fn rounds(usually: u64) -> u64 {
    std::env::var("MEMORY_SNAPSHOT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usually)
}

pub(super) fn scopes() -> [Scope; 4] {
    [
        Scope::agent("a", "x").unwrap(),
        Scope::user("a", "x").unwrap(),
        Scope::user("ab", "x/y %").unwrap(),
        Scope::user("b", "é").unwrap(),
    ]
}

/// Fills a store at random; returns the number of objects in its databases.
pub(super) async fn fill(store: &Memory, random: &mut Random) -> u64 {
    let mut made = 0;
    for scope in scopes() {
        if random.one_in(3) {
            continue;
        }
        entries(kv(store), &scope, random).await;
        if random.one_in(2) {
            made += database(store, &scope, random).await;
        }
    }
    made
}

#[tokio::test]
async fn a_random_store_comes_back_from_its_snapshot_and_from_a_move() {
    let mut made = 0;
    for seed in 0..rounds(40) {
        let from = store().await;
        made += fill(&from, &mut Random::new(seed)).await;
        let (file, report) = taken(&from, &SnapshotOptions::default()).await;
        assert!(report.is_complete(), "seed {seed}: {report:?}");
        let (to, moved) = (store().await, store().await);
        let report = restored(&to, &file, &RestoreOptions::default()).await.unwrap();
        assert!(report.is_complete(), "seed {seed}: {report:?}");
        let report = migrate(&from, &moved, &MigrateOptions::default(), &Control::default()).await.unwrap();
        assert!(report.is_complete(), "seed {seed}: {report:?}");
        for other in [&to, &moved] {
            same(&from, other, &scopes()).await;
            for scope in scopes() {
                assert_eq!(rows(other, &scope).await, rows(&from, &scope).await, "seed {seed}, {scope}");
            }
        }
    }
    assert!(made > 40, "only {made} objects were made");
}
