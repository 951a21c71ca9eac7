//! A process killed while writing during an outage loses no acknowledged write. `MEMORY_KILL_ROUNDS` is the number of
//! kills (default 12).

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use memory::fallback::{FallbackOptions, pair};
use memory::{ErrorKind, Memory};
use memory_conformance::TestClock;
use memory_conformance::random::Random;
use memory_sqlite::{SqliteConfig, SqliteProvider};

use crate::fallback::support::{Fault, faulty, set, text};

const FOLDER: &str = "MEMORY_FALLBACK_TEST_FOLDER";
const MARK: &str = "acknowledged ";

fn opened(folder: &Path, is_down: bool) -> (Memory, Memory) {
    let clock = Arc::new(TestClock::new());
    let store = |name: &str| {
        let path = folder.join(name);
        let provider = SqliteProvider::open(path, SqliteConfig::default(), Arc::clone(&clock) as _).unwrap();
        Memory::new(Arc::new(provider)).unwrap()
    };
    let primary = store("primary.db");
    let (of_primary, faults) = faulty(&primary);
    if is_down {
        *faults.fault.lock().unwrap() = Some(Fault::Before(ErrorKind::Unavailable));
    }
    let mut options = FallbackOptions::new("spare").with_journal(folder.join("journal.db"));
    (options.clock, options.rest_millis) = (Arc::clone(&clock) as _, 0);
    (pair(of_primary, store("spare.db"), options).unwrap(), primary)
}

#[tokio::test]
async fn writes_acknowledged_before_a_kill_reach_the_primary() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let (memory, _) = opened(Path::new(&folder), true);
        for step in 0..u64::MAX {
            set(&memory, &format!("k{}", step % 7), &step.to_string()).await.unwrap();
            println!("\n{MARK}{step}");
        }
    }
    let rounds =
        std::env::var("MEMORY_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    let mut random = Random::new(7);
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let last = written_until_killed(folder.path(), 1 + random.below(120));
        let (memory, primary) = opened(folder.path(), false);
        // The last write may have been in progress.
        let next = last + 1;
        for name in 0..7 {
            let mut of_key = (0..=next).rev().filter(|step| step % 7 == name);
            let newest = of_key.next();
            let before = if newest == Some(next) { of_key.next() } else { newest };
            let seen = text(&memory, &format!("k{name}")).await.map(|text| text.parse::<u64>().unwrap());
            assert!(
                seen == newest || seen == before,
                "round {round}: k{name} is {seen:?}, {last} acknowledged"
            );
            assert_eq!(text(&primary, &format!("k{name}")).await.map(|text| text.parse().unwrap()), seen);
        }
        let counts = memory::fallback::journal_counts(&folder.path().join("journal.db")).unwrap();
        assert_eq!((counts.waiting, counts.set_aside), (0, 0), "round {round}");
    }
}

/// Starts a child that writes, and kills it after some acknowledged writes; returns the last one.
fn written_until_killed(folder: &Path, after: u64) -> u64 {
    let name = "fallback::kill::writes_acknowledged_before_a_kill_reach_the_primary";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    let mut read = |last: &mut Option<u64>| match lines.next() {
        Some(Ok(line)) => {
            *last = line.strip_prefix(MARK).and_then(|step| step.parse().ok()).or(*last);
            true
        }
        _ => false,
    };
    while last.is_none_or(|step| step < after) {
        assert!(read(&mut last), "the child ended by itself");
    }
    child.kill().unwrap();
    // Writes it reported before.
    while read(&mut last) {}
    child.wait().unwrap();
    last.unwrap()
}
