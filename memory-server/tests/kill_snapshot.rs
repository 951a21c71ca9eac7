//! A snapshot, a restore or a move that is killed at any moment leaves whole scopes and no others, its source as it was,
//! and is completed by running it again.

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

use memory::snapshot::{EntriesDigest, SqlDigest, check, entries_digest, sql_digest};
use memory::sql::StatementOptions;
use memory::{BulkOptions, Json, Key, Memory, NewEntry, RunContext, Scope, ScopeId};
use memory_conformance::random::Random;

const SCOPES: usize = 6;
/// More than a store takes in one step.
const ENTRIES: usize = 400;

fn rounds() -> u64 {
    std::env::var("MEMORY_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(8)
}

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memory"));
    command
        .args(arguments)
        .current_dir(home)
        .env("HOME", home)
        .env_remove("XDG_DATA_HOME")
        .env_remove("MEMORY_URL")
        .env_remove("MEMORY_TENANT")
        .env_remove("MEMORY_CONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn ok(home: &Path, arguments: &[&str]) {
    let output = command(home, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a command and kills it after this long.
fn killed(home: &Path, arguments: &[&str], after: Duration) -> bool {
    let mut child = command(home, arguments).spawn().unwrap();
    std::thread::sleep(after);
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    running
}

fn scopes() -> Vec<Scope> {
    (0..SCOPES).map(|at| Scope::user(["a", "b"][at % 2], &format!("u{at}")).unwrap()).collect()
}

async fn open(home: &Path, name: &str) -> Memory {
    memory::open(&format!("sqlite:{}", home.join(name).display())).await.unwrap()
}

async fn fill(home: &Path) {
    let memory = open(home, "from.db").await;
    for scope in scopes() {
        let items = (0..ENTRIES)
            .map(|at| NewEntry::new(Key::new(format!("k{at}")).unwrap(), Json::string(&"x".repeat(at % 90))));
        memory.backend().unwrap().bulk_insert(&scope, items.collect(), BulkOptions::default()).await.unwrap();
        let run =
            RunContext::new(scope.tenant.clone(), ScopeId::new("t").unwrap(), ScopeId::new("r").unwrap());
        for sql in [
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a)",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) \
             INSERT INTO t SELECT i, hex(i) FROM n",
        ] {
            let facet = memory.sql().unwrap();
            facet.exec(&run, &scope, sql, &[], StatementOptions::default()).await.unwrap();
        }
    }
}

type Held = (EntriesDigest, Option<SqlDigest>);

async fn held(home: &Path, name: &str) -> Vec<Held> {
    let memory = open(home, name).await;
    let mut all = Vec::new();
    for scope in scopes() {
        let entries = entries_digest(memory.backend().unwrap(), &scope).await.unwrap();
        all.push((entries, sql_digest(memory.sql().unwrap(), &scope).await.unwrap()));
    }
    all
}

/// Each facet of each scope is there as it should be, or not at all. How many are there.
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

/// Moments spread over a whole run.
fn moment(random: &mut Random, whole_run: Duration) -> Duration {
    Duration::from_micros(random.below(u64::try_from(whole_run.as_micros()).unwrap() * 11 / 10))
}

#[tokio::test]
async fn a_killed_snapshot_leaves_no_half_file_and_is_written_by_running_it_again() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fill(home).await;
    let before = held(home, "from.db").await;
    let out = home.join("out");
    std::fs::create_dir(&out).unwrap();
    let arguments = ["snapshot", "out/s", "--url", "sqlite:from.db", "--overwrite", "-q"];
    let started = Instant::now();
    ok(home, &arguments);
    let (whole_run, mut random, mut cut) = (started.elapsed(), Random::new(1), 0);
    for round in 0..rounds() {
        let _ = std::fs::remove_file(out.join("s"));
        cut += u64::from(killed(home, &arguments, moment(&mut random, whole_run)));
        if let Ok(file) = std::fs::File::open(out.join("s")) {
            check(std::io::BufReader::new(file), &memory::snapshot::Control::default()).unwrap();
        }
        ok(home, &arguments);
        let names: Vec<_> = std::fs::read_dir(&out).unwrap().map(|item| item.unwrap().file_name()).collect();
        assert_eq!(names, ["s"], "round {round}: what the killed one left is gone");
    }
    assert_eq!(held(home, "from.db").await, before, "the source is as it was");
    println!("{cut} of {} snapshots were killed in the middle", rounds());
}

#[tokio::test]
async fn a_killed_restore_leaves_whole_scopes_and_goes_on_when_run_again() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fill(home).await;
    let wanted = held(home, "from.db").await;
    ok(home, &["snapshot", "s", "--url", "sqlite:from.db", "-q"]);
    let started = Instant::now();
    ok(home, &["restore", "s", "--url", "sqlite:first.db", "-q"]);
    let (whole_run, mut random, mut cut, mut partly) = (started.elapsed(), Random::new(2), 0, 0);
    for round in 0..rounds() {
        let (target, url) = (format!("to{round}.db"), format!("sqlite:to{round}.db"));
        cut +=
            u64::from(killed(home, &["restore", "s", "--url", &url, "-q"], moment(&mut random, whole_run)));
        let there = whole(&held(home, &target).await, &wanted, round);
        partly += u64::from(there > 0 && there < 2 * SCOPES);
        ok(home, &["restore", "s", "--url", &url, "-q"]);
        assert_eq!(held(home, &target).await, wanted, "round {round}");
    }
    println!("{cut} of {} restores were killed in the middle, {partly} with some scopes restored", rounds());
}

#[tokio::test]
async fn a_killed_move_leaves_whole_scopes_and_its_source_and_goes_on_when_run_again() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fill(home).await;
    let wanted = held(home, "from.db").await;
    let started = Instant::now();
    ok(home, &["migrate", "sqlite:from.db", "sqlite:first.db", "-q"]);
    let (whole_run, mut random, mut cut, mut partly) = (started.elapsed(), Random::new(3), 0, 0);
    for round in 0..rounds() {
        let (target, url) = (format!("to{round}.db"), format!("sqlite:to{round}.db"));
        let arguments = ["migrate", "sqlite:from.db", &url, "-q"];
        cut += u64::from(killed(home, &arguments, moment(&mut random, whole_run)));
        let there = whole(&held(home, &target).await, &wanted, round);
        partly += u64::from(there > 0 && there < 2 * SCOPES);
        ok(home, &arguments);
        assert_eq!(held(home, &target).await, wanted, "round {round}");
    }
    assert_eq!(held(home, "from.db").await, wanted, "the source is as it was");
    println!("{cut} of {} moves were killed in the middle, {partly} with some scopes copied", rounds());
}
