//! Garbage collection that is killed at any moment leaves whole scopes and no others, for whoever opens the store next and
//! for whoever has it open, and is completed by running it again.

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

use memory::snapshot::{EntriesDigest, SqlDigest, entries_digest, sql_digest};
use memory::sql::StatementOptions;
use memory::{
    BackendExt as _, BulkOptions, Json, Key, Memory, NewEntry, RunContext, Scope, ScopeId, ScopeUsesQuery,
    TenantId,
};
use memory_conformance::random::Random;

const SCOPES: usize = 16;
const ENTRIES: usize = 60;
/// So little slack that what was written is idle at once.
const NO_SLACK: &str = "?use_granularity_ms=1";

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

/// The last of each four has entries alone, the one before a database alone; every fifth is a run's.
fn scopes() -> Vec<Scope> {
    let tenant = |at: usize| ["a", "b"][at % 2];
    (0..SCOPES)
        .map(|at| match at % 5 {
            4 => Scope::run(tenant(at), &format!("r{at}")).unwrap(),
            _ => Scope::user(tenant(at), &format!("u{at}")).unwrap(),
        })
        .collect()
}

async fn open(home: &Path, name: &str) -> Memory {
    memory::open(&format!("sqlite:{}{NO_SLACK}", home.join(name).display())).await.unwrap()
}

fn by(scope: &Scope) -> RunContext {
    RunContext::new(scope.tenant.clone(), ScopeId::new("t").unwrap(), ScopeId::new("r").unwrap())
}

async fn fill(home: &Path) {
    let memory = open(home, "from.db").await;
    for (at, scope) in scopes().iter().enumerate() {
        if at % 4 != 2 {
            let items = (0..ENTRIES).map(|at| {
                NewEntry::new(Key::new(format!("k{at}")).unwrap(), Json::string(&"x".repeat(at % 90)))
            });
            let items = items.collect();
            memory.backend().unwrap().bulk_insert(scope, items, BulkOptions::default()).await.unwrap();
        }
        if at % 4 != 3 {
            for sql in [
                "CREATE TABLE t (id INTEGER PRIMARY KEY, a)",
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) \
                 INSERT INTO t SELECT i, hex(i) FROM n",
            ] {
                let facet = memory.sql().unwrap();
                facet.exec(&by(scope), scope, sql, &[], StatementOptions::default()).await.unwrap();
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for item in std::fs::read_dir(from).unwrap() {
            let item = item.unwrap();
            copy(&item.path(), &to.join(item.file_name()));
        }
    } else if from.exists() {
        std::fs::copy(from, to).unwrap();
    }
}

type Held = (EntriesDigest, Option<SqlDigest>);

async fn held(memory: &Memory) -> Vec<Held> {
    let mut all = Vec::new();
    for scope in scopes() {
        let entries = entries_digest(memory.backend().unwrap(), &scope).await.unwrap();
        all.push((entries, sql_digest(memory.sql().unwrap(), &scope).await.unwrap()));
    }
    all
}

/// Each scope is as it was, or gone in both facets. How many are there.
fn whole(found: &[Held], wanted: &[Held], round: u64, who: &str) -> usize {
    let mut there = 0;
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        if found.0.entries == 0 && found.1.is_none() {
            continue;
        }
        assert_eq!(found, wanted, "round {round}: {who} sees half of scope {at}");
        there += 1;
    }
    there
}

#[tokio::test]
async fn a_killed_collection_leaves_whole_scopes_and_goes_on_when_run_again() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fill(home).await;
    let wanted = held(&open(home, "from.db").await).await;
    let take = |name: &str| {
        for end in ["", ".sql"] {
            copy(&home.join(format!("from.db{end}")), &home.join(format!("{name}{end}")));
        }
        format!("sqlite:{name}{NO_SLACK}")
    };
    let arguments = |url: &str| ["gc", "--idle", "20ms", "-q", "--url", url].map(str::to_owned);
    let run = |url: &str| {
        let arguments = arguments(url);
        ok(home, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let url = take("first.db");
    std::thread::sleep(Duration::from_millis(100));
    let started = Instant::now();
    run(&url);
    let whole_run = started.elapsed();
    assert_eq!(whole(&held(&open(home, "first.db").await).await, &wanted, 0, "nobody"), 0, "all went");

    let (mut random, mut cut, mut partly) = (Random::new(4), 0, 0);
    for round in 0..rounds() {
        let name = format!("r{round}.db");
        let url = take(&name);
        // One who has the store open all the while, and has used it.
        let witness = open(home, &name).await;
        let arguments = arguments(&url);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let moment = Duration::from_micros(
            u64::try_from(whole_run.as_micros()).unwrap() / 4
                + random.below(u64::try_from(whole_run.as_micros()).unwrap() * 8 / 10),
        );
        cut += u64::from(killed(home, &arguments, moment));
        let seen = whole(&held(&witness).await, &wanted, round, "who had it open");
        drop(witness);
        let memory = open(home, &name).await;
        let there = whole(&held(&memory).await, &wanted, round, "who opens it");
        assert_eq!(there, seen, "round {round}");
        partly += u64::from(there > 0 && there < SCOPES);
        // A scope that is gone begins anew, whatever was left of it.
        let gone = held(&memory).await.iter().position(|held| held.0.entries == 0 && held.1.is_none());
        let anew = gone.map(|at| scopes()[at].clone());
        if let Some(scope) = &anew {
            memory.backend().unwrap().put(scope, &Key::new("new").unwrap(), Json::null()).await.unwrap();
            let facet = memory.sql().unwrap();
            let sql = "CREATE TABLE anew (a)";
            facet.exec(&by(scope), scope, sql, &[], StatementOptions::default()).await.unwrap();
        }
        drop(memory);
        std::thread::sleep(Duration::from_millis(50));
        run(&url);
        let memory = open(home, &name).await;
        assert_eq!(whole(&held(&memory).await, &wanted, round, "who runs it again"), 0, "round {round}");
        for tenant in ["a", "b"] {
            let tenant = TenantId::new(tenant).unwrap();
            let left = memory.scope_uses(&tenant, ScopeUsesQuery::default()).await.unwrap();
            assert_eq!(left.scopes, [], "round {round}");
        }
        drop(memory);
        for end in ["", "-wal", "-shm", ".drift"] {
            let _ = std::fs::remove_file(home.join(format!("{name}{end}")));
        }
        let _ = std::fs::remove_dir_all(home.join(format!("{name}.sql")));
    }
    println!("{cut} of {} collections were killed in the middle, {partly} with some scopes gone", rounds());
}
