//! Every place, one at a time.

use std::path::Path;

use memory::drift::backup::Backup;
use memory::snapshot::{Control, check};
use memory::{Clock as _, EraseTarget, Key, Scope};

use crate::support::program::{ok, run};
use crate::support::seed::*;
use crate::support::store::{self, Held};

pub(crate) fn says(output: &std::process::Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

pub(crate) fn url(home: &Path) -> String {
    format!("sqlite:{}", home.join("store.db").display())
}

/// A home with a copy in every place that can hold one.
pub(crate) async fn seeded_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    seed(home.path(), &url(home.path())).await;
    home
}

pub(crate) async fn held(home: &Path, scope: &Scope) -> Held {
    store::held(&memory::open(&url(home)).await.unwrap(), scope).await
}

#[tokio::test]
async fn a_forgotten_scope_is_in_no_file() {
    let folder = seeded_home().await;
    let home = folder.path();
    let before = holding(home, SECRET);
    for place in [
        "store.db",
        "store.db.drift",
        "store.db.sql",
        "store.db.snapshots",
        "all.snapshot",
        "one.snapshot",
        ".all.snapshot",
        "audit.jsonl",
        "audit.jsonl.1",
    ] {
        assert!(before.iter().any(|path| path.starts_with(place)), "{place} is not seeded: {before:?}");
    }
    let others_before: Vec<Held> = held_all(home).await;
    let id = target().id;
    let named = ["--tenant", TENANT, "--user", id.as_str()];
    let dry = run(home, &[&["forget", "--dry-run", "--json"][..], &named].concat());
    let dry = says(&dry);
    assert_eq!((dry["entries"].as_u64(), dry["databases"].as_u64()), (Some(300), Some(1)), "{dry}");
    assert_eq!(holding(home, SECRET), before, "a dry run touches nothing");

    let refused = run(home, &[&["forget"][..], &named].concat());
    assert_eq!(refused.status.code(), Some(3), "it asks for --yes");
    let done = run(home, &[&["forget", "--yes", "--audit", "redact", "--json"][..], &named].concat());
    let report = says(&done);
    assert_eq!(done.status.code(), Some(0), "{report}");
    assert_eq!(holding(home, SECRET), Vec::<String>::new(), "{report}");
    assert_eq!(held_all(home).await, others_before, "other scopes are as they were");
    let file = std::fs::File::open(home.join("all.snapshot")).unwrap();
    let progress = check(std::io::BufReader::new(file), &Control::default()).unwrap();
    assert_eq!(progress.scopes, 3, "the other scopes of the snapshot are in it");
    assert!(!home.join("one.snapshot").exists() && !home.join("store.db.forget").exists());
    let audit = std::fs::read_to_string(home.join("audit.jsonl")).unwrap();
    assert!(audit.contains("\"kept-1\"") && audit.contains("\"kind\":\"forget\""), "{audit}");
    assert!(audit.contains(report["digest"].as_str().unwrap()), "the record has the digest");

    ok(home, &["restore", "all.snapshot", "-q"]);
    assert_eq!(held_all(home).await, others_before, "the rewritten snapshot is a snapshot");
}

pub(crate) async fn held_all(home: &Path) -> Vec<Held> {
    let mut all = Vec::new();
    for scope in others() {
        all.push(held(home, &scope).await);
    }
    all
}

#[tokio::test]
async fn an_older_snapshot_does_not_restore_a_forgotten_scope() {
    let folder = seeded_home().await;
    let home = folder.path();
    std::fs::copy(home.join("all.snapshot"), home.join("hidden")).unwrap();
    let id = target().id;
    let forget = ["forget", "--yes", "--tenant", TENANT, "--user", id.as_str(), "-q"];
    ok(home, &forget);
    let report: serde_json::Value =
        serde_json::from_str(&ok(home, &["restore", "hidden", "--json", "-q"])).unwrap();
    assert_eq!(report["forgotten"], 1, "{report}");
    assert_eq!(held(home, &target()).await.0.entries, 0);
    assert_eq!(held(home, &target()).await.1, None);

    // A snapshot taken afterwards carries the tombstone into a store without it.
    ok(home, &["snapshot", "after", "-q"]);
    let elsewhere = ["--url", "sqlite:elsewhere.db", "-q"];
    ok(home, &[&["restore", "after"][..], &elsewhere].concat());
    let report: serde_json::Value =
        serde_json::from_str(&ok(home, &[&["restore", "hidden", "--json"][..], &elsewhere].concat()))
            .unwrap();
    assert_eq!(report["forgotten"], 1, "{report}");
    ok(home, &["migrate", "sqlite:store.db", "sqlite:third.db", "-q"]);
    let report: serde_json::Value =
        serde_json::from_str(&ok(home, &["restore", "hidden", "--url", "sqlite:third.db", "--json", "-q"]))
            .unwrap();
    assert_eq!(report["forgotten"], 1, "a move brings tombstones: {report}");
}

#[tokio::test]
async fn forgetting_a_key_leaves_the_rest_and_restoring_again_changes_nothing() {
    let folder = seeded_home().await;
    let home = folder.path();
    std::fs::copy(home.join("all.snapshot"), home.join("hidden")).unwrap();
    let other = others().remove(0);
    let named = ["--tenant", TENANT, "--user", other.id.as_str(), "--key", "kept-7"];
    let output = run(home, &[&["forget", "--yes", "--audit", "redact", "--json"][..], &named].concat());
    assert_eq!((output.status.code(), says(&output)["entries"].as_u64()), (Some(0), Some(1)));
    let without = held(home, &other).await;
    assert_eq!(without.0.entries, 299);
    let steps = says(&output)["steps"].clone();
    assert!(steps.to_string().contains("store.db.drift"), "its backup held the key: {steps}");
    let backups = files(&home.join("store.db.drift").join(other.digest().to_hex()));
    assert_eq!(backups.len(), 1, "{backups:?}");
    let backup = Backup::load(&backups[0]).await.unwrap();
    let holds = |name: &str| backup.records.iter().any(|record| record.entry.key.as_str() == name);
    assert!(backup.records.len() == 299 && holds("kept-8") && !holds("kept-7"), "the rest is kept");
    // The rewritten snapshot and the hidden one now have the same contents.
    for file in ["all.snapshot", "hidden"] {
        let report: serde_json::Value =
            serde_json::from_str(&ok(home, &["restore", file, "--json", "-q"])).unwrap();
        assert_eq!(report["conflicts"], 0, "{file}: {report}");
        assert_eq!(held(home, &other).await, without, "{file}");
    }
}

#[tokio::test]
async fn a_forgotten_tenant_is_in_no_file() {
    let folder = seeded_home().await;
    let home = folder.path();
    let output = run(
        home,
        &["forget", "--yes", "--audit", "redact", "--snapshots", "delete", "--tenant", TENANT, "--json"],
    );
    let report = says(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(report["scopes"], 3, "{report}");
    // The configuration, the audit format and the other tenant's data contain neither word.
    assert_eq!(holding(home, SECRET), Vec::<String>::new());
    assert_eq!(holding(home, &format!("\"{TENANT}\"")), Vec::<String>::new());
    assert!(!home.join("all.snapshot").exists());
    let kept = others().pop().unwrap();
    assert_eq!(held(home, &kept).await.0.entries, 300);
}

#[tokio::test]
async fn unreachable_copies_are_reported_and_set_the_exit_code() {
    let folder = seeded_home().await;
    let home = folder.path();
    std::fs::write(home.join("all.snapshot"), "no snapshot").unwrap();
    std::fs::write(home.join("audit.jsonl.2.gz"), "compressed").unwrap();
    let id = target().id;
    let output = run(
        home,
        &["forget", "--yes", "--audit", "redact", "--json", "--tenant", TENANT, "--user", id.as_str()],
    );
    assert_eq!(output.status.code(), Some(7));
    let report = says(&output);
    let out: Vec<String> = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["outcome"] == "out_of_reach")
        .map(|step| step["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(out, ["all.snapshot", "audit.jsonl.2.gz"], "{report}");
}

#[tokio::test]
async fn a_store_in_use_forgets_for_its_users_too() {
    let folder = seeded_home().await;
    let home = folder.path();
    let beside = memory::open(&url(home)).await.unwrap();
    let key = Key::new(format!("{SECRET}-1")).unwrap();
    let backend = beside.backend().unwrap();
    assert!(backend.get(&target(), &key, Default::default()).await.unwrap().is_some());
    let id = target().id;
    ok(home, &["forget", "--yes", "--tenant", TENANT, "--user", id.as_str(), "-q"]);
    assert!(backend.get(&target(), &key, Default::default()).await.unwrap().is_none());
    let tombstones = beside.tombstones(&memory::TombstonesOf::Scope(target()), None, 10).await.unwrap();
    assert_eq!(tombstones[0].id, memory::TombstoneId::of(&EraseTarget::Scope(target())));
    assert!(tombstones[0].at <= memory::system::SystemClock.now());
}
