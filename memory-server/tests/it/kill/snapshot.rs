//! A snapshot, restore or migration killed at any moment leaves only whole scopes and an unchanged source, and is
//! completed by running it again.

use std::path::Path;

use memory::Scope;
use memory::snapshot::check;
use memory_conformance::random::Random;

use crate::support::program::{killed, moment, ok, timed};
use crate::support::store::{self, Held, Kind, Store, exec, on_each_store};

const SCOPES: usize = 6;
/// More than a store imports in one step.
const ENTRIES: usize = 400;

fn rounds(kind: &Kind) -> u64 {
    kind.rounds(8, 3)
}

fn scopes() -> Vec<Scope> {
    (0..SCOPES).map(|at| Scope::user(["a", "b"][at % 2], &format!("u{at}")).unwrap()).collect()
}

async fn fill(store: &Store) {
    let memory = store.open().await;
    for scope in scopes() {
        store::fill(&memory, &scope, (0..ENTRIES).map(|at| (format!("k{at}"), "x".repeat(at % 90)))).await;
        exec(&memory, &scope, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)").await;
        let rows = "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) \
                    SELECT i, 'row ' || i FROM n";
        exec(&memory, &scope, rows).await;
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

async fn snapshots(kind: &Kind, home: &Path) {
    let from = kind.fresh(home).await;
    fill(&from).await;
    let before = held(&from).await;
    let out = home.join("out");
    std::fs::create_dir(&out).unwrap();
    let arguments = ["snapshot", "out/s", "--url", &from.url, "--overwrite", "-q"];
    let whole_run = timed(home, &arguments);
    let (mut random, mut cut) = (Random::new(1), 0);
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

async fn restores(kind: &Kind, home: &Path) {
    let from = kind.fresh(home).await;
    fill(&from).await;
    let wanted = held(&from).await;
    ok(home, &["snapshot", "s", "--url", &from.url, "-q"]);
    let first = kind.fresh(home).await;
    let whole_run = timed(home, &["restore", "s", "--url", &first.url, "-q"]);
    let (mut random, mut cut, mut partly) = (Random::new(2), 0, 0);
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
async fn replacements(kind: &Kind, home: &Path) {
    let (from, to) = (kind.fresh(home).await, kind.fresh(home).await);
    fill(&from).await;
    let wanted = held(&from).await;
    ok(home, &["snapshot", "s", "--url", &from.url, "-q"]);
    let arguments = ["restore", "s", "--url", &to.url, "--on-existing", "replace", "-q"];
    let whole_run = timed(home, &arguments);
    let (mut random, mut cut, mut partly) = (Random::new(4), 0, 0);
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
            store::fill(&memory, &scope, [("other".to_owned(), format!("of round {round}"))]).await;
            exec(&memory, &scope, &format!("CREATE TABLE other_{round} AS SELECT {round} AS n")).await;
        }
    }
    held(store).await
}

async fn moves(kind: &Kind, home: &Path) {
    let from = kind.fresh(home).await;
    fill(&from).await;
    let wanted = held(&from).await;
    let first = kind.fresh(home).await;
    let whole_run = timed(home, &["migrate", &from.url, &first.url, "-q"]);
    let (mut random, mut cut, mut partly) = (Random::new(3), 0, 0);
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

on_each_store! {
    a_killed_snapshot_leaves_no_half_file_and_is_written_by_running_it_again => snapshots;
    a_killed_restore_leaves_whole_scopes_and_resumes_when_run_again => restores;
    a_killed_replacing_restore_leaves_old_or_new_contents => replacements;
    a_killed_move_leaves_whole_scopes_and_its_source_and_resumes_when_run_again => moves;
}
