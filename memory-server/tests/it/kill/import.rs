//! An import killed at any moment is resumed by running it again.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::program::rounds;
use crate::support::user::command;

const TURNS: u64 = 8_000;

fn document(home: &Path, arguments: &[&str]) -> Value {
    let output = command(home, arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn chat(home: &Path) {
    let mut file = std::fs::File::create(home.join("chat.jsonl")).unwrap();
    let text: String = (0..TURNS)
        .map(|n| format!("{{\"role\":\"user\",\"content\":\"turn {n} of a long talk about tea\"}}\n"))
        .collect();
    file.write_all(text.as_bytes()).unwrap();
}

/// Each turn is an entry plus its digest; one entry is the end of the log.
fn turns(stats: &Value) -> u64 {
    stats["entries"].as_u64().unwrap().saturating_sub(1) / 2
}

#[test]
fn a_killed_import_is_resumed_and_completed() {
    let rounds = rounds(6);
    let mut killed_in_the_middle = 0;
    for round in 0..rounds {
        let home = tempfile::tempdir().unwrap();
        chat(home.path());
        let mut child = command(home.path(), &["import", "chat.jsonl"]).spawn().unwrap();
        // Delays from zero to a second, whatever the speed of the run.
        std::thread::sleep(Duration::from_millis(20 + round * 7_919 % 1_000));
        child.kill().unwrap();
        child.wait().unwrap();
        // It may have been killed before it created the store.
        let stats = command(home.path(), &["stats", "--json"]).output().unwrap();
        let stored = serde_json::from_slice(&stats.stdout).map_or(0, |stats: Value| turns(&stats));
        if stored > 0 && stored < TURNS {
            killed_in_the_middle += 1;
        }
        let report = document(home.path(), &["import", "chat.jsonl"]);
        assert_eq!(report["unchanged"], stored, "what the killed run stored is found again");
        assert_eq!(report["created"], TURNS - stored);
        assert_eq!(turns(&document(home.path(), &["stats"])), TURNS);
    }
    println!("{killed_in_the_middle} of {rounds} were killed in the middle");
}

#[cfg(unix)]
#[test]
fn an_interrupted_import_ends_cleanly_and_resumes_when_run_again() {
    let home = tempfile::tempdir().unwrap();
    // The pipe stays open, so the import runs until it is interrupted.
    let mut child =
        command(home.path(), &["import", "-", "--format", "jsonl", "--conversation", "chat", "--json"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let line = |n: u64| format!("{{\"role\":\"user\",\"content\":\"turn {n} of a long talk about tea\"}}\n");
    let feeding = std::thread::spawn(move || {
        // Until the import closes the pipe.
        for n in 0.. {
            if pipe.write_all(line(n).as_bytes()).is_err() {
                return n;
            }
        }
        0
    });
    // Interrupt it once it has begun to store.
    let stats = || command(home.path(), &["stats", "--json"]).output().unwrap();
    while serde_json::from_slice::<Value>(&stats().stdout).map_or(true, |stats| stats["entries"] == 0) {}
    let told = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["interrupted"], true);
    let stored = report["created"].as_u64().unwrap();
    assert_eq!(turns(&document(home.path(), &["stats"])), stored, "what it says is stored is stored");
    let text: String = (0..stored + 10).map(line).collect();
    std::fs::write(home.path().join("chat.jsonl"), text).unwrap();
    let again = document(home.path(), &["import", "chat.jsonl"]);
    assert_eq!((again["unchanged"].as_u64(), again["created"].as_u64()), (Some(stored), Some(10)));
}
