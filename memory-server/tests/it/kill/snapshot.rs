//! A snapshot, restore or migration killed at any moment leaves only whole scopes and an unchanged source, and is
//! completed by running it again.

use std::path::Path;
use std::time::Instant;

use memory::snapshot::check;
use memory::sql::StatementOptions;
use memory::{BulkOptions, Json, Key, NewEntry, RunContext, Scope, ScopeId, SetOptions};
use memory_conformance::random::Random;

use crate::support::program::{killed, moment, ok};
use crate::support::store::{Held, Kind, ONE, Store};

const SCOPES: usize = 6;
/// More than a store imports in one step.
const ENTRIES: usize = 400;

/// Fewer rounds on a server, where each takes longer.
fn rounds(kind: &Kind) -> u64 {
    crate::support::program::rounds(if matches!(kind, Kind::Sqlite) { 8 } else { 3 })
}

fn scopes() -> Vec<Scope> {
    (0..SCOPES).map(|at| Scope::user(["a", "b"][at % 2], &format!("u{at}")).unwrap()).collect()
}

async fn fill(store: &Store) {
    let memory = store.open().await;
    for scope in scopes() {
        let items = (0..ENTRIES)
            .map(|at| NewEntry::new(Key::new(format!("k{at}")).unwrap(), Json::string(&"x".repeat(at % 90))));
        memory.backend().unwrap().bulk_insert(&scope, items.collect(), BulkOptions::default()).await.unwrap();
        let run =
            RunContext::new(scope.tenant.clone(), ScopeId::new("t").unwrap(), ScopeId::new("r").unwrap());
        for sql in [
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)",
            "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) \
             SELECT i, 'row ' || i FROM n",
        ] {
            let facet = memory.sql().unwrap();
            facet.exec(&run, &scope, sql, &[], StatementOptions::default()).await.unwrap();
        }
    }
}

async fn held(store: &Store) -> Vec<Held> {
    store.held(&scopes()).await
}

/// Each facet of each scope is complete or absent. Returns how many are complete.
fn whole(found: &[Held], wanted: &[Held], round: u64) -> usize {
    let mut there = 0;
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        if found.0.entries > 0 {
            assert_eq!(found.0, wanted.0, "round {round}: half the entries of scope {at} are there");
            there += 1;
        }
        if found.1.is_some() {
            assert_eq!(found.1, wanted.1, "round {round}: half the database of scope {at} is there");
            there += 1;
        }
    }
    there
}

async fn snapshots(home: &Path, kind: &Kind) {
    let from = kind.fresh(home).await;
    fill(&from).await;
    let before = held(&from).await;
    let out = home.join("out");
    std::fs::create_dir(&out).unwrap();
    let arguments = ["snapshot", "out/s", "--url", &from.url, "--overwrite", "-q"];
    let started = Instant::now();
    ok(home, &arguments);
    let (whole_run, mut random, mut cut) = (started.elapsed(), Random::new(1), 0);
    for round in 0..rounds(kind) {
        let _ = std::fs::remove_file(out.join("s"));
        cut += u64::from(killed(home, &arguments, moment(&mut random, whole_run)));
        if let Ok(file) = std::fs::File::open(out.join("s")) {
            check(std::io::BufReader::new(file), &memory::snapshot::Control::default()).unwrap();
        }
        ok(home, &arguments);
        let names: Vec<_> = std::fs::read_dir(&out).unwrap().map(|item| item.unwrap().file_name()).collect();
        assert_eq!(names, ["s"], "round {round}: what the killed one left is gone");
    }
    assert_eq!(held(&from).await, before, "the source is as it was");
    println!("{cut} of {} snapshots were killed in the middle", rounds(kind));
}

async fn restores(home: &Path, kind: &Kind) {
    let from = kind.fresh(home).await;
    fill(&from).await;
    let wanted = held(&from).await;
    ok(home, &["snapshot", "s", "--url", &from.url, "-q"]);
    let first = kind.fresh(home).await;
    let started = Instant::now();
    ok(home, &["restore", "s", "--url", &first.url, "-q"]);
    let (whole_run, mut random, mut cut, mut partly) = (started.elapsed(), Random::new(2), 0, 0);
    for round in 0..rounds(kind) {
        let to = kind.fresh(home).await;
        let arguments = ["restore", "s", "--url", &to.url, "-q"];
        cut += u64::from(killed(home, &arguments, moment(&mut random, whole_run)));
        let there = whole(&held(&to).await, &wanted, round);
        partly += u64::from(there > 0 && there < 2 * SCOPES);
        ok(home, &arguments);
        assert_eq!(held(&to).await, wanted, "round {round}");
    }
    let rounds = rounds(kind);
    println!("{cut} of {rounds} restores were killed in the middle, {partly} with some scopes restored");
}

/// Each facet is as before or as in the snapshot.
async fn replacements(home: &Path, kind: &Kind) {
    let (from, to) = (kind.fresh(home).await, kind.fresh(home).await);
    fill(&from).await;
    let wanted = held(&from).await;
    ok(home, &["snapshot", "s", "--url", &from.url, "-q"]);
    let arguments = ["restore", "s", "--url", &to.url, "--on-existing", "replace", "-q"];
    let started = Instant::now();
    ok(home, &arguments);
    let (whole_run, mut random, mut cut, mut partly) = (started.elapsed(), Random::new(4), 0, 0);
    for round in 0..rounds(kind) {
        let before = other(&to, round).await;
        cut += u64::from(killed(home, &arguments, moment(&mut random, whole_run)));
        let mut new = 0;
        for (at, found) in held(&to).await.iter().enumerate() {
            // The old contents have lower versions than their replacement in the same store.
            let entries_are_new = found.0.same_content(&wanted[at].0);
            assert!(
                entries_are_new || found.0 == before[at].0,
                "round {round}: half the entries of scope {at}"
            );
            let sql_is_new = found.1 == wanted[at].1;
            assert!(sql_is_new || found.1 == before[at].1, "round {round}: half the database of scope {at}");
            new += usize::from(entries_are_new) + usize::from(sql_is_new);
        }
        partly += u64::from(new > 0 && new < 2 * SCOPES);
        ok(home, &arguments);
        for (found, wanted) in held(&to).await.iter().zip(&wanted) {
            assert!(found.0.same_content(&wanted.0) && found.1 == wanted.1, "round {round}");
        }
    }
    let rounds = rounds(kind);
    println!(
        "{cut} of {rounds} replacing restores were killed in the middle, {partly} with some scopes replaced"
    );
}

/// Changes every facet of every scope.
async fn other(store: &Store, round: u64) -> Vec<Held> {
    {
        let memory = store.open().await;
        for scope in scopes() {
            let key = Key::new("other").unwrap();
            let value = Json::string(&format!("of round {round}"));
            let (kv, facet) = (memory.backend().unwrap(), memory.sql().unwrap());
            kv.set(&scope, &key, value, SetOptions::default()).await.unwrap();
            let run =
                RunContext::new(scope.tenant.clone(), ScopeId::new("t").unwrap(), ScopeId::new("r").unwrap());
            let sql = format!("CREATE TABLE other_{round} AS SELECT {round} AS n");
            facet.exec(&run, &scope, &sql, &[], StatementOptions::default()).await.unwrap();
        }
    }
    held(store).await
}

async fn moves(home: &Path, kind: &Kind) {
    let from = kind.fresh(home).await;
    fill(&from).await;
    let wanted = held(&from).await;
    let first = kind.fresh(home).await;
    let started = Instant::now();
    ok(home, &["migrate", &from.url, &first.url, "-q"]);
    let (whole_run, mut random, mut cut, mut partly) = (started.elapsed(), Random::new(3), 0, 0);
    for round in 0..rounds(kind) {
        let to = kind.fresh(home).await;
        let arguments = ["migrate", &from.url, &to.url, "-q"];
        cut += u64::from(killed(home, &arguments, moment(&mut random, whole_run)));
        let there = whole(&held(&to).await, &wanted, round);
        partly += u64::from(there > 0 && there < 2 * SCOPES);
        ok(home, &arguments);
        assert_eq!(held(&to).await, wanted, "round {round}");
    }
    assert_eq!(held(&from).await, wanted, "the source is as it was");
    let rounds = rounds(kind);
    println!("{cut} of {rounds} moves were killed in the middle, {partly} with some scopes copied");
}

#[tokio::test]
async fn a_killed_snapshot_leaves_no_half_file_and_is_written_by_running_it_again() {
    let home = tempfile::tempdir().unwrap();
    snapshots(home.path(), &Kind::Sqlite).await;
}

#[tokio::test]
async fn a_killed_restore_leaves_whole_scopes_and_resumes_when_run_again() {
    let home = tempfile::tempdir().unwrap();
    restores(home.path(), &Kind::Sqlite).await;
}

#[tokio::test]
async fn a_killed_replacing_restore_leaves_old_or_new_contents() {
    let home = tempfile::tempdir().unwrap();
    replacements(home.path(), &Kind::Sqlite).await;
}

#[tokio::test]
async fn a_killed_move_leaves_whole_scopes_and_its_source_and_resumes_when_run_again() {
    let home = tempfile::tempdir().unwrap();
    moves(home.path(), &Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgresql_a_killed_snapshot_leaves_no_half_file_and_is_written_by_running_it_again() {
    let (home, _one) = (tempfile::tempdir().unwrap(), ONE.lock().await);
    let Some(kind) = Kind::postgres(home.path()) else { return };
    snapshots(home.path(), &kind).await;
}

#[tokio::test]
async fn on_postgresql_a_killed_restore_leaves_whole_scopes_and_resumes_when_run_again() {
    let (home, _one) = (tempfile::tempdir().unwrap(), ONE.lock().await);
    let Some(kind) = Kind::postgres(home.path()) else { return };
    restores(home.path(), &kind).await;
}

#[tokio::test]
async fn on_postgresql_a_killed_replacing_restore_leaves_old_or_new_contents() {
    let (home, _one) = (tempfile::tempdir().unwrap(), ONE.lock().await);
    let Some(kind) = Kind::postgres(home.path()) else { return };
    replacements(home.path(), &kind).await;
}

#[tokio::test]
async fn on_postgresql_a_killed_move_leaves_whole_scopes_and_its_source_and_resumes_when_run_again() {
    let (home, _one) = (tempfile::tempdir().unwrap(), ONE.lock().await);
    let Some(kind) = Kind::postgres(home.path()) else { return };
    moves(home.path(), &kind).await;
}
