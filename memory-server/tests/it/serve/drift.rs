//! What other programs do to a store while a connection uses it.

use serde_json::{Value, json};

use crate::serve::client::Place;
use crate::support::store::Kind;

/// Another program sets `k`.
fn another_sets(place: &Place, options: &[&str]) {
    let set = ["set", "k", "\"theirs\"", "--agent", "claude"];
    let output = place.command(&[options, &set[..]].concat()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn set_k() -> Value {
    json!({"op": "set", "key": "k", "value": "ours"})
}

#[test]
fn an_entry_that_another_program_added_is_not_written_over_unread() {
    let place = Place::new();
    let mut client = place.connect();
    another_sets(&place, &["--url", "sqlite:memory.db"]);
    for write in [set_k(), json!({"op": "delete", "key": "k"})] {
        let error = client.refused(write);
        assert_eq!(
            (&error["code"], &error["details"]["reason"]),
            (&json!("drift_detected"), &json!("appeared"))
        );
        assert_eq!(error["details"]["changed"], json!(["k"]));
    }
    assert_eq!(client.ok(json!({"op": "get", "key": "k"}))["value"], "theirs");
    client.ok(set_k());
    assert!(client.close().stderr.contains("somebody else changed the scope"));
}

#[test]
fn on_postgresql_a_backend_that_memory_toml_names_saves_the_scope_and_logs_the_refusal() {
    let place = Place::new();
    let Some(kind) = Kind::postgres(place.path()) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(kind.fresh(place.path()));
    let config = format!(
        "[backends.main]\nurl = {:?}\n[default]\nbackend = \"main\"\nagent = \"claude\"\nmemory_scopes = [\"agent\"]\n",
        store.url
    );
    place.write("memory.toml", &config);
    let mut client = place.connect_with(&[]);
    another_sets(&place, &[]);
    let error = client.refused(set_k());
    assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("drift_detected"), &json!("appeared")));
    let backup = error["details"]["drift_backup"].as_str().unwrap_or_else(|| panic!("{error}"));
    assert!(std::fs::read_to_string(backup).unwrap().contains("theirs"));
    let stderr = client.close().stderr;
    assert!(stderr.contains("somebody else changed the scope") && stderr.contains(backup), "{stderr}");
}
