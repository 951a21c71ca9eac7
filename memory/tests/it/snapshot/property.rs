//! Any contents survive a snapshot.

use memory::Scope;
use memory::snapshot::{Control, MigrateOptions, RestoreOptions, SnapshotOptions, migrate};
use memory_conformance::random::Random;

use crate::snapshot::random::{database, entries, rows};
use crate::snapshot::support::{kv, restored, same, store, taken};

/// The number of random stores; a variable can raise it.
pub(crate) fn rounds(usually: u64) -> u64 {
    std::env::var("MEMORY_SNAPSHOT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usually)
}

fn scopes() -> Vec<Scope> {
    vec![
        Scope::agent("a", "x").unwrap(),
        Scope::user("a", "x").unwrap(),
        Scope::user("ab", "x/y %").unwrap(),
        Scope::user("b", "é").unwrap(),
    ]
}

#[tokio::test]
async fn a_random_store_comes_back_from_its_snapshot_and_from_a_move() {
    let mut made = 0;
    for seed in 0..rounds(40) {
        let mut random = Random::new(seed);
        let from = store().await;
        for scope in scopes() {
            if random.one_in(3) {
                continue;
            }
            entries(kv(&from), &scope, &mut random).await;
            if random.one_in(2) {
                made += database(&from, &scope, &mut random).await;
            }
        }
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
