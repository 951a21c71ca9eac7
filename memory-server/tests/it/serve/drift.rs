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
    let stderr = client.close().stderr;
    assert!(stderr.contains("somebody else changed the scope") && stderr.contains(backup), "{stderr}");
    // The operator finds it by that name.
    let diff = place.command(&["drift", "diff", backup, "--agent", "claude"]).output().unwrap();
    assert_eq!(diff.status.code(), Some(0), "{diff:?}");
}

/// A model learns nothing about the host's folders, from the guard or from anything else that refuses it.
#[test]
fn no_refusal_shows_a_path_of_the_host() {
    let place = Place::new();
    let folder = place.path().canonicalize().unwrap();
    let folder = folder.to_str().unwrap();
    place.write(
        "memory.toml",
        &format!(
            "[backends.main]\nurl = \"sqlite:{folder}/memory.db\"\n[default]\nbackend = \"main\"\nagent = \"claude\"\n\
             memory_scopes = [\"agent\"]\nsql_scopes = [\"agent\"]\n[sql]\nenabled = true\n"
        ),
    );
    let mut client = place.connect_with(&[]);
    client.ok(json!({"op": "set", "key": "/srv/own", "value": 1}));
    client.ok(json!({"op": "sql_exec", "sql": "CREATE TABLE t (a)"}));
    another_sets(&place, &[]);
    let drifted = client.refused(set_k());
    let backup = drifted["details"]["drift_backup"].as_str().unwrap().to_owned();
    let mut refusals = vec![drifted];
    let calls = [
        json!({"op": "frobnicate"}),
        json!({"op": "get", "key": ""}),
        json!({"op": "get", "key": "k", "scope": "user"}),
        json!({"op": "sql_query", "sql": format!("ATTACH '{folder}/memory.db' AS other")}),
        json!({"op": "sql_query", "sql": "PRAGMA database_list"}),
        json!({"op": "sql_exec", "sql": "SELECT load_extension('x')"}),
        json!({"op": "sql_query", "sql": "SELECT * FROM missing"}),
        json!({"op": "sql_exec", "sql": "VACUUM INTO 'copy.db'"}),
    ];
    for call in &calls {
        refusals.push(client.refused(call.clone()));
    }
    // The store and the scopes' databases are taken away under the server.
    std::fs::rename(place.database(), place.path().join("moved.db")).unwrap();
    std::fs::remove_dir_all(place.path().join("memory.db.sql")).unwrap();
    std::fs::write(place.path().join("memory.db.sql"), "not a folder").unwrap();
    for call in [set_k(), json!({"op": "sql_exec", "sql": "INSERT INTO t VALUES (1)"})] {
        refusals.push(client.refused(call));
    }
    for refusal in &refusals {
        let text = refusal.to_string();
        // The model's own statement may be quoted back to it; nothing else may name the folder.
        assert!(!text.contains(folder) && !text.contains("memory.db.drift/"), "{text}");
    }
    let stderr = client.close().stderr;
    assert!(stderr.contains(&format!("{folder}/memory.db.drift")) && stderr.contains(&backup), "{stderr}");
}
