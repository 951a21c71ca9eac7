//! `memory drift`: from a refusal back to work.

use std::sync::Arc;

use memory::drift::{Backups, DriftSession};
use memory::{Backend as _, DriftPolicy, ErrorKind, Json, Key, Scope, SetOptions};

use crate::support::user::User;

/// A run that has read `k`; its next write is refused once someone else has written.
struct Run {
    memory: memory::Memory,
    session: DriftSession,
}

const SCOPE: [&str; 4] = ["--tenant", "acme", "--agent", "ada"];

fn arguments<'a>(user: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&["--url", user], SCOPE.as_slice(), rest].concat()
}

fn key() -> Key {
    Key::new("k").unwrap()
}

impl Run {
    async fn begin(url: &str) -> Self {
        let memory = memory::open(url).await.unwrap();
        let backups = Arc::new(Backups::new(memory.drift_backups().unwrap()));
        let session = DriftSession::new(DriftPolicy::Strict).with_backups(backups);
        Self { memory, session }
    }

    async fn reads(&self) {
        let scope = Scope::agent("acme", "ada").unwrap();
        let guarded = self.session.guard(self.memory.backend().unwrap());
        guarded.get(&scope, &key(), Default::default()).await.unwrap();
    }

    /// Whether it was refused.
    async fn writes(&self, value: i64) -> bool {
        let scope = Scope::agent("acme", "ada").unwrap();
        let guarded = self.session.guard(self.memory.backend().unwrap());
        match guarded.set(&scope, &key(), Json::from(value), SetOptions::default()).await {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DriftDetected, "{error:?}");
                true
            }
        }
    }
}

#[test]
fn drift_is_shown_acknowledged_and_restored() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let user = User::new();
    let url = format!("sqlite:{}", user.home().join("m.db").display());
    let on = |rest: &[&str]| arguments(&url, rest).iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let json = |rest: &[&str]| {
        let words = on(rest);
        user.json(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    json(&["set", "k", "1"]);
    let run = runtime.block_on(Run::begin(&url));
    runtime.block_on(run.reads());
    let before = json(&["drift", "status"]);
    assert_eq!(before["policies"], serde_json::json!(["row", "strict"]));
    assert_eq!(before["backups"], serde_json::json!([]));
    // Exit code 1 means that something differs.
    let words = on(&["drift", "diff"]);
    user.refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), 3, "invalid_argument");
    let words = on(&["drift", "restore", "absent.json"]);
    user.refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), 74, "not_found");

    json(&["set", "k", "2"]);
    json(&["set", "new", "2"]);
    assert!(runtime.block_on(run.writes(3)));
    let status = json(&["drift", "status"]);
    assert_ne!(status["token"], before["token"]);
    let backup = status["backups"][0].clone();
    assert_eq!(backup["resolved"], false);
    assert_eq!(backup["generation_actual"], status["token"]);
    let file = backup["path"].as_str().unwrap();
    assert_eq!(json(&["drift", "diff"])["changed"], serde_json::json!([]));

    // An old token and an invalid one are refused.
    let old = before["token"].as_str().unwrap();
    let words = on(&["drift", "ack", old]);
    user.refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), 4, "conflict");
    let words = on(&["drift", "ack", "nonsense"]);
    assert_eq!(user.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).code, Some(2));
    json(&["drift", "ack", status["token"].as_str().unwrap()]);
    assert!(!runtime.block_on(run.writes(3)), "it was acknowledged");

    json(&["delete", "new"]);
    let words = on(&["drift", "diff", file, "--json"]);
    let ran = user.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code, Some(8));
    let difference = ran.document();
    assert_eq!(difference["changed"], serde_json::json!(["k"]));
    assert_eq!(difference["vanished"], serde_json::json!(["new"]));
    json(&["drift", "restore", file, "--dry-run"]);
    let restored = json(&["drift", "restore", file]);
    assert_eq!((&restored["created"], &restored["replaced"]), (&1.into(), &1.into()));
    let saved = restored["saved"].as_str().unwrap();
    assert_eq!(json(&["get", "k"])["value"], 2);
    // The contents before the restore are backed up too.
    json(&["drift", "restore", saved]);
    assert_eq!(json(&["get", "k"])["value"], 3);

    let text = on(&["drift", "status"]);
    let text = user.ok(&text.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(text.contains("token     ") && text.contains("cleared"), "{text}");
    let words = arguments(&url, &["drift", "restore", file]);
    let words: Vec<&str> = words.into_iter().map(|word| if word == "ada" { "bob" } else { word }).collect();
    user.refused(&words, 3, "invalid_argument");
}

#[test]
fn a_file_whose_triggers_were_dropped_is_refused_and_repaired() {
    let user = User::new();
    let file = user.home().join("m.db");
    let url = format!("sqlite:{}", file.display());
    let on =
        |rest: &[&'static str]| arguments(&url, rest).iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let json = |rest: &[&'static str]| {
        let words = on(rest);
        user.json(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let text = |rest: &[&'static str]| {
        let words = on(rest);
        user.ok(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    json(&["set", "k", "1"]);
    let before = json(&["drift", "status"]);
    assert!(text(&["drift", "repair"]).starts_with("nothing to repair"));
    memory::sqlite::prepare_process();
    let conn = rusqlite::Connection::open(&file).unwrap();
    conn.execute_batch("DROP TRIGGER entry_updated; UPDATE entry SET value = '2'").unwrap();
    drop(conn);
    let words = on(&["get", "k"]);
    let error = user.refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), 6, "corrupt");
    assert!(error["message"].as_str().unwrap().contains("`memory drift repair`"), "{error}");

    let told = text(&["drift", "repair", "--dry-run"]);
    assert!(
        told.contains("nothing was written") && told.contains("recreated  trigger entry_updated"),
        "{told}"
    );
    let report = json(&["drift", "repair", "--keep-vectors"]);
    assert_eq!(report["made"], serde_json::json!(["trigger entry_updated"]));
    assert_eq!((&report["changed"], &report["entries"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(json(&["get", "k"])["value"], 2);
    assert_ne!(json(&["drift", "status"])["token"], before["token"]);
    assert_eq!(json(&["drift", "repair"])["made"], serde_json::json!([]));

    for (url, says) in [("sqlite::memory:", "file"), ("postgres://u@localhost/d", "provision --apply")] {
        let error = user.refused(&["--url", url, "drift", "repair"], 3, "capability_unsupported");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    user.refused(&["--url", "sqlite:none.db", "drift", "repair"], 3, "not_found");
    assert!(!user.home().join("none.db").exists());
}
