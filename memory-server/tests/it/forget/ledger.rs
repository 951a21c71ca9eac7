//! Snapshots that the ledger describes incompletely, and missing files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::places::{says, seeded_home};
use crate::support::program::{ok, run};
use crate::support::seed::*;

pub(crate) fn forget(home: &Path) -> (Option<i32>, Value) {
    let id = target().id;
    let named = ["--tenant", TENANT, "--user", id.as_str()];
    let done = run(home, &[&["forget", "--yes", "--audit", "redact", "--json"][..], &named].concat());
    (done.status.code(), says(&done))
}

pub(crate) fn steps_of(report: &Value, file: &str) -> Vec<Value> {
    let steps = report["steps"].as_array().unwrap().iter();
    let of_file = |step: &&Value| step["path"].as_str().is_some_and(|path| path.ends_with(file));
    steps.filter(of_file).cloned().collect()
}

fn ledger(home: &Path) -> PathBuf {
    home.join("store.db.snapshots")
}

/// Appends a line, as a snapshot does before its file gets its name.
fn note(home: &Path, lines: usize, path: &str, limits: Value) {
    let path = home.canonicalize().unwrap().join(path);
    let mut line = json!({"created_at": "2026-01-01T00:00:00Z", "path": path, "sha256": "ab", "bytes": 1});
    line.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
    let mut text = fs::read_to_string(ledger(home)).unwrap();
    for _ in 0..lines {
        text.push_str(&format!("{line}\n"));
    }
    fs::write(ledger(home), text).unwrap();
}

#[tokio::test]
async fn a_snapshot_is_found_however_many_were_noted_after_it() {
    let folder = seeded_home().await;
    let home = folder.path();
    note(home, 10_001, "elsewhere", json!({"tenant": "other"}));
    let (code, report) = forget(home);
    assert_eq!((code, holding(home, SECRET)), (Some(0), Vec::new()), "{report}");
    assert!(home.join("all.snapshot").exists());
}

#[tokio::test]
async fn a_snapshot_whose_replacement_was_killed_is_found() {
    let folder = seeded_home().await;
    let home = folder.path();
    // Killed between writing its line and renaming its file.
    note(home, 1, "all.snapshot", json!({"tenant": "other"}));
    let (code, report) = forget(home);
    assert_eq!((code, holding(home, SECRET)), (Some(0), Vec::new()), "{report}");
}

#[tokio::test]
async fn a_deleted_snapshot_is_ignored_but_one_in_a_missing_folder_is_reported() {
    let folder = seeded_home().await;
    let home = folder.path();
    fs::create_dir(home.join("disk")).unwrap();
    ok(home, &["snapshot", "disk/away.snapshot", "-q"]);
    ok(home, &["snapshot", "deleted.snapshot", "-q"]);
    fs::remove_file(home.join("deleted.snapshot")).unwrap();
    fs::rename(home.join("disk"), home.join("in a drawer")).unwrap();
    let (code, report) = forget(home);
    assert_eq!(code, Some(7), "{report}");
    assert_eq!(steps_of(&report, "deleted.snapshot")[0]["outcome"], "nothing", "{report}");
    let away = &steps_of(&report, "away.snapshot")[0];
    assert_eq!(away["outcome"], "out_of_reach");
    assert!(away["reason"].as_str().unwrap().contains("attach its disk"), "{away}");
    let noted = fs::read_to_string(ledger(home)).unwrap();
    assert!(!noted.contains("deleted.snapshot") && noted.contains("away.snapshot"), "{noted}");
    fs::rename(home.join("in a drawer"), home.join("disk")).unwrap();
    let (code, report) = forget(home);
    assert_eq!((code, holding(home, SECRET)), (Some(0), Vec::new()), "{report}");
}

#[tokio::test]
async fn a_snapshot_being_written_is_out_of_reach_and_stays_in_the_ledger() {
    let folder = seeded_home().await;
    let home = folder.path();
    note(home, 1, "next.snapshot", json!({"tenant": TENANT}));
    let part = home.join(format!(".next.snapshot.{:032x}.part", 9));
    fs::write(&part, SECRET).unwrap();
    let writer = fs::File::open(&part).unwrap();
    writer.lock().unwrap();
    let (code, report) = forget(home);
    assert_eq!((code, &steps_of(&report, "next.snapshot")[0]["outcome"]), (Some(7), &json!("out_of_reach")));
    assert!(fs::read_to_string(ledger(home)).unwrap().contains("next.snapshot"));
    // The writer dies and leaves no file.
    drop(writer);
    let (code, report) = forget(home);
    assert_eq!((code, holding(home, SECRET)), (Some(0), Vec::new()), "{report}");
    assert!(!fs::read_to_string(ledger(home)).unwrap().contains("next.snapshot"));
}

#[tokio::test]
async fn a_last_snapshot_of_a_killed_sweep_is_removed_too() {
    let folder = seeded_home().await;
    let home = folder.path();
    fs::create_dir(home.join("last")).unwrap();
    // The first scope of a sweep is in the ledger before its file is written.
    let named = "user-0123456789abcdef-17.snapshot";
    note(home, 1, &format!("last/{named}"), json!({"tenant": "other", "sha256": "", "bytes": 0}));
    let part = home.join("last").join(format!(".user-fedcba9876543210-17.snapshot.{:032x}.part", 9));
    fs::write(&part, SECRET).unwrap();
    let writing = fs::File::open(&part).unwrap();
    writing.lock().unwrap();
    let (code, report) = forget(home);
    assert_eq!(code, Some(7), "a living process is writing it: {report}");
    assert_eq!(steps_of(&report, "last")[0]["outcome"], "out_of_reach", "{report}");
    drop(writing);
    let (code, report) = forget(home);
    assert_eq!((code, holding(home, SECRET)), (Some(0), Vec::new()), "{report}");
    assert!(!part.exists());
}
