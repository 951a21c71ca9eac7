//! Garbage collection killed at any moment leaves only whole scopes, for later and for present users of the store, and
//! is completed by running it again.

use std::path::Path;
use std::time::Duration;

use memory::{BackendExt as _, Json, Key, Memory, Scope, ScopeUsesQuery, TenantId};
use memory_conformance::random::Random;

use crate::support::program::{killed, ok, timed};
use crate::support::store::{Held, Kind, Store, exec, fill, held, on_each_store};

const SCOPES: usize = 16;
const ENTRIES: usize = 60;
/// So little slack that a written scope is idle at once.
const NO_SLACK: &str = "use_granularity_ms=1";
const SLACK: Duration = Duration::from_millis(50);

/// Some have only entries, some only a database; every fifth belongs to a run.
fn scopes() -> Vec<Scope> {
    let tenant = |at: usize| ["a", "b"][at % 2];
    (0..SCOPES)
        .map(|at| match at % 5 {
            4 => Scope::run(tenant(at), &format!("r{at}")).unwrap(),
            _ => Scope::user(tenant(at), &format!("u{at}")).unwrap(),
        })
        .collect()
}

/// A new filled store, and its URL.
async fn filled(kind: &Kind, home: &Path) -> (Store, String) {
    let mut store = kind.fresh(home).await;
    store.url.push(if store.url.contains('?') { '&' } else { '?' });
    store.url.push_str(NO_SLACK);
    let memory = store.open().await;
    for (at, scope) in scopes().iter().enumerate() {
        if at % 4 != 2 {
            fill(&memory, scope, (0..ENTRIES).map(|at| (format!("k{at}"), "x".repeat(at % 90)))).await;
        }
        if at % 4 != 3 {
            exec(&memory, scope, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)").await;
            let rows: Vec<String> = (0..50).map(|row| format!("({row}, 'row {row}')")).collect();
            exec(&memory, scope, &format!("INSERT INTO t VALUES {}", rows.join(", "))).await;
        }
    }
    drop(memory);
    store.settled().await;
    let url = store.url.clone();
    (store, url)
}

async fn all_held(memory: &Memory) -> Vec<Held> {
    let mut all = Vec::new();
    for scope in scopes() {
        all.push(held(memory, &scope).await);
    }
    all
}

fn is_gone(held: &Held) -> bool {
    held.0.entries == 0 && held.1.is_none()
}

/// Each scope is unchanged, or gone in both facets. Returns how many are left.
fn whole(found: &[Held], wanted: &[Held], round: u64, who: &str) -> usize {
    let mut there = 0;
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        if is_gone(found) {
            continue;
        }
        assert_eq!(found, wanted, "round {round}: {who} sees half of scope {at}");
        there += 1;
    }
    there
}

fn arguments(url: &str) -> [&str; 6] {
    ["gc", "--idle", "20ms", "-q", "--url", url]
}

async fn is_killed(kind: &Kind, home: &Path) {
    let rounds = kind.rounds(8, 3);
    let (store, url) = filled(kind, home).await;
    std::thread::sleep(SLACK);
    let whole_run = u64::try_from(timed(home, &arguments(&url)).as_micros()).unwrap();
    assert!(all_held(&store.open().await).await.iter().all(is_gone), "all went");
    drop(store);

    let (mut random, mut cut, mut partly) = (Random::new(4), 0, 0);
    for round in 0..rounds {
        let (store, url) = filled(kind, home).await;
        // A user who keeps the store open the whole time.
        let witness = store.open().await;
        let wanted = all_held(&witness).await;
        std::thread::sleep(SLACK);
        let moment = Duration::from_micros(whole_run / 4 + random.below(whole_run * 8 / 10));
        let sessions = store.sessions().await;
        cut += u64::from(killed(home, &arguments(&url), moment));
        store.settled_beside(sessions).await;
        let seen = whole(&all_held(&witness).await, &wanted, round, "who had it open");
        drop(witness);
        let memory = store.open().await;
        let found = all_held(&memory).await;
        assert_eq!(whole(&found, &wanted, round, "who opens it"), seen, "round {round}");
        partly += u64::from(seen > 0 && seen < SCOPES);
        // A dropped scope starts empty, whatever was left of it.
        if let Some(at) = found.iter().position(is_gone) {
            let scope = &scopes()[at];
            memory.backend().unwrap().put(scope, &Key::new("new").unwrap(), Json::null()).await.unwrap();
            exec(&memory, scope, "CREATE TABLE anew (a INTEGER)").await;
        }
        drop(memory);
        std::thread::sleep(SLACK);
        ok(home, &arguments(&url));
        let memory = store.open().await;
        let left = all_held(&memory).await;
        assert!(left.iter().all(is_gone), "round {round}: left when it was run again: {left:?}");
        for tenant in ["a", "b"] {
            let tenant = TenantId::new(tenant).unwrap();
            let left = memory.scope_uses(&tenant, ScopeUsesQuery::default()).await.unwrap();
            assert_eq!(left.scopes, [], "round {round}");
        }
    }
    println!("{cut} of {rounds} collections were killed in the middle, {partly} with some scopes gone");
}

on_each_store! {
    a_killed_collection_leaves_whole_scopes_and_goes_on_when_run_again => is_killed;
}
