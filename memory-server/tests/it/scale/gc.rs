//! Garbage collection over many scopes takes no more memory than over few. Prints the costs.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::many::{TENANTS, count, filled};
use crate::support::program::measured;
use crate::support::store::{Kind, on_each_store};

/// The extra memory allowed for many scopes: pages of listings, caches, names in a report.
const MORE_KIB: u64 = 32 << 10;

/// A dry run by both rules, a sweep by size of one half, one by idle time of the rest: peak memory of each.
async fn costs(kind: &Kind, home: &Path, count: usize) -> [u64; 3] {
    let mut store = kind.fresh(home).await;
    store.url.push_str(match kind {
        Kind::Sqlite => "?use_granularity_ms=1&durability=normal",
        Kind::Postgres { .. } => "&use_granularity_ms=1",
    });
    let started = Instant::now();
    let memory = filled(&store, count).await;
    let filled = started.elapsed();
    let mut bytes = 0;
    for tenant in TENANTS {
        let tenant = memory::TenantId::new(tenant).unwrap();
        let mut query = memory::ScopeUsesQuery::default().with_limit(1_000);
        loop {
            let page = memory.scope_uses(&tenant, query.clone()).await.unwrap();
            bytes += page.scopes.iter().map(memory::ScopeUse::bytes).sum::<u64>();
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => break,
            }
        }
    }
    drop(memory);
    std::thread::sleep(Duration::from_millis(50));
    let half = (bytes / 2).to_string();
    let measured =
        |arguments: &[&str]| measured(home, &[arguments, &["-q", "--json", "--url", &store.url]].concat());
    let (dry, of_dry) =
        measured(&["gc", "--dry-run", "--idle", "1d", "--max-bytes", &half, "--min-idle", "10ms"]);
    let (by_size, of_size) = measured(&["gc", "--max-bytes", &half, "--min-idle", "10ms"]);
    let (by_idle, of_idle) = measured(&["gc", "--idle", "10ms"]);
    println!(
        "{count} scopes of three entries, a tenth with a database, written in {:.1} s: dry run {:.2} s, {} MiB; by size, \
         half of the bytes, {:.1} s, {} MiB; by idle time, the rest, {:.1} s, {} MiB",
        filled.as_secs_f64(),
        dry.as_secs_f64(),
        of_dry >> 10,
        by_size.as_secs_f64(),
        of_size >> 10,
        by_idle.as_secs_f64(),
        of_idle >> 10
    );
    [of_dry, of_size, of_idle]
}

async fn bounded(kind: &Kind, home: &Path) {
    let count = count("MEMORY_GC_SCOPES", if matches!(kind, Kind::Sqlite) { 2_000 } else { 300 });
    let (one, many) = (costs(kind, home, 1).await, costs(kind, home, count).await);
    for ((what, many), one) in ["dry run", "by size", "by idle time"].iter().zip(many).zip(one) {
        assert!(many < one + MORE_KIB, "{what}: {many} KiB, over one scope {one} KiB");
    }
}

on_each_store! {
    sweeping_many_scopes_takes_little_memory => bounded;
}
