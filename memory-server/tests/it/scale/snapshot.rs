//! Listings, snapshots, restores and migrations of large stores take no more memory than those of small ones. Prints
//! the costs.

use std::path::Path;
use std::time::Duration;

use memory::Scope;

use crate::support::many::{TENANTS, count, filled};
use crate::support::program::measured;
use crate::support::store::{Kind, Store, fill, on_each_store};

/// The extra memory allowed for a large store: read-ahead, caches, and one import step.
const MORE_KIB: u64 = 64 << 10;

/// Peak memory of each command over a store.
async fn costs(kind: &Kind, home: &Path, from: &Store, what: &str) -> [u64; 4] {
    let (restored, moved) = (kind.fresh(home).await, kind.fresh(home).await);
    let (mut listing, mut of_listing) = (Duration::ZERO, 0);
    for tenant in TENANTS {
        let scopes = ["scopes", "--all", "--json", "-q", "--tenant", tenant, "--url", &from.url];
        let (took, peak) = measured(home, &scopes);
        (listing, of_listing) = (listing + took, of_listing.max(peak));
    }
    let (snapshot, of_snapshot) = measured(home, &["snapshot", "s", "-q", "--url", &from.url]);
    let (restore, of_restore) = measured(home, &["restore", "s", "-q", "--url", &restored.url]);
    let (migrate, of_migrate) = measured(home, &["migrate", &from.url, &moved.url, "-q"]);
    let file = home.join("s").metadata().unwrap().len();
    println!(
        "{what}: a file of {:.1} MiB; listing {:.1} s, {} MiB; snapshot {:.1} s, {} MiB; restore {:.1} s, {} MiB; \
         move {:.1} s, {} MiB",
        file as f64 / f64::from(1 << 20),
        listing.as_secs_f64(),
        of_listing >> 10,
        snapshot.as_secs_f64(),
        of_snapshot >> 10,
        restore.as_secs_f64(),
        of_restore >> 10,
        migrate.as_secs_f64(),
        of_migrate >> 10
    );
    std::fs::remove_file(home.join("s")).unwrap();
    [of_listing, of_snapshot, of_restore, of_migrate]
}

fn bounded(large: [u64; 4], small: [u64; 4]) {
    for ((what, large), small) in ["listing", "snapshot", "restore", "move"].iter().zip(large).zip(small) {
        assert!(large < small + MORE_KIB, "{what}: {large} KiB, of a small store {small} KiB");
    }
}

async fn of_one_scope(kind: &Kind, home: &Path) -> [u64; 4] {
    let store = kind.fresh(home).await;
    drop(filled(&store, 1).await);
    costs(kind, home, &store, "one scope of three entries").await
}

/// A store with one large scope.
async fn of_a_large_scope(kind: &Kind, home: &Path, usual: usize) -> [u64; 4] {
    let batches = count("MEMORY_SNAPSHOT_BATCHES", usual);
    let store = kind.fresh(home).await;
    let memory = store.open().await;
    let scope = Scope::user("a", "u").unwrap();
    for batch in 0..batches {
        let text = |at: u32| (format!("k{batch}-{at}"), format!("{batch} {at} {}", "x".repeat(60_000)));
        fill(&memory, &scope, (0..100).map(text)).await;
    }
    drop(memory);
    costs(kind, home, &store, &format!("{} entries of 60 kB in one scope", batches * 100)).await
}

async fn of_many_scopes(kind: &Kind, home: &Path, usual: usize) -> [u64; 4] {
    let count = count("MEMORY_SNAPSHOT_SCOPES", usual);
    let store = kind.fresh(home).await;
    drop(filled(&store, count).await);
    let what = format!("{count} scopes of three entries, a tenth with a database");
    costs(kind, home, &store, &what).await
}

async fn little_memory(kind: &Kind, home: &Path) {
    let (batches, scopes) = if matches!(kind, Kind::Sqlite) { (20, 2_000) } else { (10, 300) };
    let base = of_one_scope(kind, home).await;
    bounded(of_a_large_scope(kind, home, batches).await, base);
    bounded(of_many_scopes(kind, home, scopes).await, base);
}

on_each_store! {
    a_large_store_passes_through_little_memory => little_memory;
}
