//! Audit files by owner and name, a fallback, definitions, and an unfinished forget.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::ledger::{forget, steps_of};
use super::places::{says, seeded_home, url};
use crate::support::program::{ok, run};
use crate::support::seed::*;

fn line(user: &str, more: &str) -> String {
    format!(
        "{{\"kind\":\"call\",\"time\":\"2026-01-01T00:00:00Z\",\"tenant\":\"{TENANT}\",\"agent\":\"a\",\"user\":\"{user}\",\
         \"run\":\"r\",\"op\":\"list\",\"scope\":\"user\",{more}}}\n"
    )
}

#[tokio::test]
async fn a_prefix_that_begins_with_a_forgotten_key_is_redacted_and_others_stay() {
    let folder = seeded_home().await;
    let home = folder.path();
    let prefixes = ["\"prefix\":\"kept-7\"", "\"prefix\":\"kept-7-x\"", "\"prefix\":\"kept-8\""];
    fs::write(home.join("audit.jsonl"), prefixes.map(|prefix| line("ben", prefix)).concat()).unwrap();
    let named = ["--tenant", TENANT, "--user", "ben", "--key", "kept-7"];
    ok(home, &[&["forget", "--yes", "--audit", "redact", "-q"][..], &named].concat());
    let left = fs::read_to_string(home.join("audit.jsonl")).unwrap();
    assert!(!left.contains("kept-7") && left.contains("\"prefix\":\"kept-8\""), "{left}");
}

#[tokio::test]
async fn a_possibly_rotated_audit_file_is_reported_and_not_touched() {
    let folder = seeded_home().await;
    let home = folder.path();
    let about = line(target().id.as_str(), "\"key\":\"k\"");
    for (name, text) in
        [("audit.1.jsonl", &about), ("audit-20260101.jsonl.gz", &about), ("audit-notes.jsonl", &about)]
    {
        fs::write(home.join(name), text).unwrap();
    }
    fs::write(home.join("audit.2.jsonl"), line("ben", "\"key\":\"k\"")).unwrap();
    let (code, report) = forget(home);
    assert_eq!(code, Some(7), "{report}");
    for name in ["audit.1.jsonl", "audit-20260101.jsonl.gz"] {
        assert_eq!(steps_of(&report, name)[0]["outcome"], "out_of_reach", "{report}");
        assert_eq!(fs::read_to_string(home.join(name)).unwrap(), about);
    }
    for name in ["audit.2.jsonl", "audit-notes.jsonl"] {
        assert_eq!(steps_of(&report, name), Vec::<Value>::new(), "it has nothing, or is no number");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_redacted_audit_file_keeps_its_owner_and_group() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let folder = seeded_home().await;
    let home = folder.path();
    let audit = home.join("audit.jsonl");
    // A user who may not give files away keeps their own.
    let _ = chown(&audit, Some(4_711), Some(4_712));
    let before = fs::metadata(&audit).unwrap();
    let (code, report) = forget(home);
    assert_eq!(code, Some(0), "{report}");
    let after = fs::metadata(&audit).unwrap();
    assert_ne!(after.ino(), before.ino(), "it was replaced");
    assert_eq!((after.uid(), after.gid(), after.mode()), (before.uid(), before.gid(), before.mode()));
}

#[tokio::test]
async fn snapshots_of_a_fallback_are_reached() {
    let folder = seeded_home().await;
    let home = folder.path();
    journal(home, &url(home)).await;
    ok(home, &["snapshot", "spare.snapshot", "--backend", "spare", "-q"]);
    assert!(holding(home, SECRET).iter().any(|path| path.starts_with("spare.snapshot")));
    let (code, report) = forget(home);
    assert_eq!((code, holding(home, SECRET)), (Some(0), Vec::new()), "{report}");
    assert_eq!(steps_of(&report, "spare.snapshot")[0]["outcome"], "done", "{report}");
}

#[tokio::test]
async fn forgetting_a_tenant_reports_the_file_of_definitions() {
    let folder = seeded_home().await;
    let home = folder.path();
    let config = fs::read_to_string(home.join("memory.toml")).unwrap();
    fs::write(home.join("memory.toml"), config + "[definitions]\n").unwrap();
    fs::write(home.join("memory.definitions.db"), "").unwrap();
    let (_, report) = forget(home);
    assert_eq!(steps_of(&report, "memory.definitions.db"), Vec::<Value>::new(), "it names no scope");
    let report = says(&run(home, &["forget", "--yes", "--tenant", TENANT, "--json"]));
    assert_eq!(steps_of(&report, "memory.definitions.db")[0]["outcome"], "kept", "{report}");
}

#[tokio::test]
async fn commands_say_that_a_forget_has_not_ended() {
    let folder = seeded_home().await;
    let home = folder.path();
    let warned = |home: &Path, command: &[&str]| {
        let ran = run(home, command);
        String::from_utf8_lossy(&ran.stderr).contains("memory forget --resume")
    };
    assert!(!warned(home, &["stats"]));
    // As a killed one leaves it.
    let target = serde_json::json!({"target": memory::EraseTarget::Scope(target()), "policy": {"snapshots": "rewrite", "audit": "keep"}});
    fs::create_dir(home.join("store.db.forget")).unwrap();
    fs::write(home.join("store.db.forget/a.json"), target.to_string()).unwrap();
    for command in [&["stats"][..], &["gc"], &["snapshot", "next.snapshot"]] {
        assert!(warned(home, command), "{command:?}");
    }
    assert!(!warned(home, &["forget", "--resume"]));
}

/// A locked store refuses and nothing is forgotten: a later `--resume` would forget what was stored since.
#[tokio::test]
async fn a_refused_forget_is_not_completed_later() {
    let folder = seeded_home().await;
    let home = folder.path();
    let url = format!("{}?busy_timeout_ms=50", url(home));
    let named = ["forget", "--yes", "--url", &url, "--tenant", TENANT, "--user", target().id.as_str()]
        .map(str::to_owned);
    let other = rusqlite::Connection::open(home.join("store.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = run(home, &named.each_ref().map(String::as_str));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing was written"), "{refused:?}");
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    assert!(!home.join("store.db.forget").exists());
    let resumed = ok(home, &["forget", "--resume", "--url", &url]);
    assert!(resumed.contains("no `forget` was interrupted"), "{resumed}");
}

#[tokio::test]
async fn an_interrupted_forget_can_be_looked_at_and_given_up() {
    let folder = seeded_home().await;
    let home = folder.path();
    let intents = home.join("store.db.forget");
    let forgotten = memory::EraseTarget::Scope(target());
    let id = memory_core::TombstoneId::of(&forgotten);
    let intent =
        serde_json::json!({"target": forgotten, "policy": {"snapshots": "rewrite", "audit": "keep"}});
    fs::create_dir(&intents).unwrap();
    fs::write(intents.join(format!("{}.json", id.digest())), intent.to_string()).unwrap();
    let looked = ok(home, &["forget", "--resume", "--dry-run"]);
    assert!(looked.contains(&format!("interrupted: the scope {}", target())), "{looked}");
    let report = says(&run(home, &["forget", "--resume", "--dry-run", "--json"]));
    assert_eq!((&report["dry_run"], report["entries"].as_u64() > Some(0)), (&true.into(), true), "{report}");
    let named = says(&run(home, &["forget", "--abandon", "--json"]));
    assert_eq!(named["abandoned"][0], format!("the scope {}", target()));
    assert!(!intents.exists());
    let report = says(&run(
        home,
        &["forget", "--dry-run", "--json", "--tenant", TENANT, "--user", target().id.as_str()],
    ));
    assert!(report["entries"].as_u64() > Some(0), "what was there stays: {report}");
}
