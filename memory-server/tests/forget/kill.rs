//! Killed at any moment.

use std::path::Path;
use std::time::{Duration, Instant};

use memory::snapshot::{Control, check};
use memory::{EraseTarget, TombstoneId, TombstonesOf};
use memory_conformance::random::Random;

use super::seed::*;

fn rounds() -> u64 {
    std::env::var("MEMORY_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for item in std::fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let to = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            copy(&item.path(), &to);
        } else {
            std::fs::copy(item.path(), to).unwrap();
        }
    }
}

/// Paths in the ledger are absolute: each round takes the place of the one before.
#[tokio::test]
async fn a_killed_forget_is_completed_by_running_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let (template, home) = (folder.path().join("template"), folder.path().join("home"));
    std::fs::create_dir(&home).unwrap();
    seed(&home).await;
    let mut before = Vec::new();
    for scope in others() {
        before.push(held(&home, &scope).await);
    }
    let whole = held(&home, &target()).await;
    copy(&home, &template);
    let id = target().id;
    let forget = ["forget", "--yes", "--audit", "redact", "-q", "--tenant", TENANT, "--user", id.as_str()];
    let started = Instant::now();
    ok(&home, &forget);
    let took = started.elapsed();
    let (mut random, mut cut, mut gone, mut resumed) = (Random::new(4), 0, 0, 0);
    for round in 0..rounds() {
        std::fs::remove_dir_all(&home).unwrap();
        copy(&template, &home);
        let after = Duration::from_micros(random.below(u64::try_from(took.as_micros()).unwrap()));
        let mut child = command(&home, &forget).spawn().unwrap();
        std::thread::sleep(after);
        cut += u64::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        {
            let (entries, sql) = held(&home, &target()).await;
            let memory = open(&home).await;
            let of = TombstonesOf::Scope(target());
            let tombstones = memory.tombstones(&of, None, 10).await.unwrap();
            let id = TombstoneId::of(&EraseTarget::Scope(target()));
            let is_buried = tombstones.iter().any(|tombstone| tombstone.id == id);
            if is_buried {
                assert_eq!(entries.entries, 0, "round {round}: entries behind their tombstone");
                gone += 1;
            } else {
                assert_eq!((&entries, &sql), (&whole.0, &whole.1), "round {round}: gone without a tombstone");
            }
        }
        resumed += u64::from(home.join("store.db.forget").is_dir());
        ok(&home, &["forget", "--resume", "-q"]);
        ok(&home, &forget);
        assert_eq!(holding(&home, SECRET), Vec::<String>::new(), "round {round}");
        for (scope, before) in others().iter().zip(&before) {
            assert_eq!(held(&home, scope).await, *before, "round {round}: {scope}");
        }
        let file = std::fs::File::open(home.join("all.snapshot")).unwrap();
        let progress = check(std::io::BufReader::new(file), &Control::default()).unwrap();
        assert_eq!(progress.scopes, 3, "round {round}");
    }
    println!(
        "{cut} of {} were killed in the middle, {gone} with the entries gone, {resumed} resumed",
        rounds()
    );
}
