//! Restoring a drift backup, killed at any moment, leaves the scope either as it was or as in the backup.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory::drift::Backups;
use memory::system::SystemClock;
use memory::{BulkOptions, Clock as _, Json, Key, ListQuery, Memory, NewEntry, Scope};
use memory_conformance::random::Random;

use crate::support::program::rounds;
use crate::support::user::command;

const ENTRIES: usize = 2_000;

fn scope() -> Scope {
    Scope::agent("acme", "ada").unwrap()
}

async fn open(home: &Path) -> Memory {
    memory::open(&format!("sqlite:{}", home.join("memory.db").display())).await.unwrap()
}

async fn set(memory: &Memory, names: std::ops::Range<usize>, value: &str) {
    let item = |n: usize| NewEntry::new(Key::new(format!("{n:05}")).unwrap(), Json::string(value));
    let items: Vec<NewEntry> = names.map(item).collect();
    for items in items.chunks(500) {
        memory
            .backend()
            .unwrap()
            .bulk_insert(&scope(), items.to_vec(), BulkOptions::default())
            .await
            .unwrap();
    }
}

async fn held(memory: &Memory) -> BTreeMap<String, String> {
    let (mut held, mut cursor) = (BTreeMap::new(), None);
    loop {
        let query = ListQuery::default().with_limit(1_000).with_cursor(cursor);
        let page = memory.backend().unwrap().list(&scope(), query).await.unwrap();
        held.extend(
            page.entries
                .into_iter()
                .map(|entry| (entry.key.as_str().to_owned(), entry.value.as_str().to_owned())),
        );
        cursor = page.next;
        if cursor.is_none() {
            return held;
        }
    }
}

fn restore(home: &Path, backup: &Path) -> Command {
    let arguments = ["--url", "sqlite:memory.db", "--tenant", "acme", "--agent", "ada", "drift", "restore"];
    let mut command = command(home, &arguments);
    command.arg(backup).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// DRF-48.
#[test]
fn a_killed_restore_leaves_the_scope_as_it_was_or_as_the_backup_has_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = tempfile::tempdir().unwrap();
    let (saved, backup) = runtime.block_on(async {
        let memory = open(home.path()).await;
        set(&memory, 0..ENTRIES, "as it was saved").await;
        let backups = Arc::new(Backups::new(memory.drift_backups().unwrap()));
        let now = SystemClock.now();
        let backup = backups.save(memory.backend().unwrap(), &scope(), None, None, now).await.unwrap().path;
        (held(&memory).await, backup)
    });
    let mut random = Random::named("restore");
    let (mut as_it_was, mut lasts) = (0, Duration::from_millis(400));
    for round in 0..rounds(8) {
        let before = runtime.block_on(async {
            let memory = open(home.path()).await;
            set(&memory, ENTRIES / 2..ENTRIES + ENTRIES / 2, &format!("meddled with {round}")).await;
            held(&memory).await
        });
        let began = Instant::now();
        let mut child = restore(home.path(), &backup).spawn().unwrap();
        if round > 0 {
            std::thread::sleep(Duration::from_micros(
                random.below(u64::try_from(lasts.as_micros()).unwrap()),
            ));
            child.kill().unwrap();
        }
        child.wait().unwrap();
        if round == 0 {
            // The first one runs to its end, to measure the time.
            lasts = began.elapsed();
        }
        let after = runtime.block_on(async { held(&open(home.path()).await).await });
        assert!(after == before || after == saved, "round {round}: the scope was put back by half");
        as_it_was += u64::from(after == before);
        assert!(round > 0 || after == saved);
        assert!(restore(home.path(), &backup).status().unwrap().success());
        assert_eq!(runtime.block_on(async { held(&open(home.path()).await).await }), saved);
    }
    println!("{as_it_was} of {} left the scope as it was", rounds(8));
}
