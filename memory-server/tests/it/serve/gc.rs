//! Garbage collection while a connection is served.

use std::time::Instant;

use serde_json::{Value, json};

use crate::serve::client::{PATIENCE, Place};

const STORE: &str = "sqlite:memory.db?use_granularity_ms=1";

#[test]
fn idle_scopes_are_dropped_during_a_connection_and_shutdown_does_not_wait_for_a_sweep() {
    let place = Place::new();
    let set = place.command(&["set", "k", "1", "--user", "gone", "--url", STORE]).output().unwrap();
    assert!(set.status.success(), "{set:?}");
    place.write(
        "memory.toml",
        &format!(
            "[backends.local]\nurl = \"{STORE}\"\n[default]\nagent = \"a\"\nmemory_scopes = [\"agent\", \"run\"]\n\
             [gc]\nidle_ms = 1\ninterval_ms = 1000\n"
        ),
    );
    let client = place.connect_with(&["--config", "memory.toml"]);
    let began = Instant::now();
    loop {
        let listed = place.command(&["scopes", "--url", STORE, "--json"]).output().unwrap();
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        if listed["scopes"] == json!([]) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{listed}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let ended = client.close();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}
