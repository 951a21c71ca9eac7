//! How a connection lives and ends, and what it leaves.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::serve::client::Place;

#[test]
fn a_later_connection_finds_what_an_earlier_one_stored() {
    let place = Place::new();
    let mut client = place.connect();
    client.ok(json!({"op": "set", "scope": "user", "key": "food", "value": "Ada is allergic to peanuts"}));
    assert_eq!(client.close().status.code(), Some(0));
    let mut client = place.connect();
    let found =
        client.ok(json!({"op": "search", "scope": "user", "query": "which allergy does she have, peanuts?"}));
    assert_eq!(found["hits"][0]["key"], "food", "{found}");
}

#[test]
fn the_runs_own_scope_ends_with_the_connection() {
    let place = Place::new();
    let mut client = place.connect();
    client.ok(json!({"op": "set", "scope": "run", "key": "draft", "value": 1}));
    client.ok(json!({"op": "set", "scope": "agent", "key": "kept", "value": 1}));
    let scopes = || {
        let listed = place.command(&["scopes", "--url", "sqlite:memory.db", "--json"]).output().unwrap();
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let kinds: Vec<String> = listed["scopes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["scope"]["kind"].as_str().unwrap_or_default().to_owned())
            .collect();
        kinds
    };
    assert!(scopes().contains(&"run".to_owned()), "{:?}", scopes());
    client.close();
    assert_eq!(scopes(), ["agent"]);
}

#[test]
fn runs_named_by_a_host_end_too() {
    let place = Place::new();
    let mut client = place.connect_with(&["--url", "sqlite:memory.db", "--agent", "claude", "--trust-meta"]);
    let set = json!({"op": "set", "scope": "run", "key": "k", "value": 1});
    client.request("tools/call", json!({"name": "memory", "arguments": set, "_meta": {"memory/run": "r1"}}));
    client.close();
    let listed = place.command(&["scopes", "--url", "sqlite:memory.db", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["scopes"], json!([]));
}

#[test]
fn requests_before_the_end_of_input_are_answered() {
    let place = Place::new();
    let mut client = place.connect();
    let ids: Vec<u64> =
        (0..40).map(|n| client.send_call(json!({"op": "set", "key": format!("k{n}"), "value": n}))).collect();
    let ended = client.close();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    for id in ids {
        let answer = ended
            .rest
            .iter()
            .find(|message| message["id"] == id)
            .unwrap_or_else(|| panic!("{id}: {ended:?}"));
        assert_eq!(answer["result"]["isError"], false);
    }
    assert_eq!(place.connect().ok(json!({"op": "list"}))["entries"].as_array().unwrap().len(), 40);
}

#[test]
fn a_message_cut_off_by_the_end_of_input_is_ignored() {
    let place = Place::new();
    let mut client = place.connect();
    client.write(br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"memory","arguments":{"op":"set","key":"k","value":1}}}"#);
    let ended = client.close();
    assert_eq!((ended.status.code(), ended.rest.len()), (Some(0), 0));
    assert_eq!(place.connect().ok(json!({"op": "get", "key": "k"}))["found"], false);
}

#[test]
fn an_empty_input_is_not_a_failure() {
    let place = Place::new();
    let ended = place.start(&["--url", "sqlite:memory.db", "--agent", "claude"]).close();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
}

#[test]
#[cfg(unix)]
fn a_signal_ends_the_connection_cleanly() {
    for signal in ["TERM", "INT"] {
        let place = Place::new();
        let mut client = place.connect();
        client.ok(json!({"op": "set", "scope": "run", "key": "draft", "value": 1}));
        client.ok(json!({"op": "set", "scope": "agent", "key": "kept", "value": 1}));
        client.signal(signal);
        let ended = client.finish();
        assert_eq!(ended.status.code(), Some(130), "{signal}: {ended:?}");
        let listed = place.command(&["scopes", "--url", "sqlite:memory.db", "--json"]).output().unwrap();
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(listed["scopes"].as_array().unwrap().len(), 1, "{signal}: {listed}");
    }
}

#[test]
#[cfg(unix)]
fn a_signal_ends_the_server_of_a_client_that_reads_nothing() {
    use std::io::{Read as _, Write as _};
    let place = Place::new();
    let mut process = place
        .command(&["serve", "--url", "sqlite:memory.db", "--agent", "claude"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
    let handshake = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    writeln!(stdin, "{handshake}").unwrap();
    let mut first = [0; 1];
    stdout.read_exact(&mut first).unwrap();
    // The requests fit into the pipe, but their answers do not.
    for id in 1..200 {
        let arguments = json!({"op": "describe"});
        let params = json!({"name": "memory", "arguments": arguments});
        writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
            .unwrap();
    }
    let sent = std::process::Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
    assert!(sent.unwrap().success());
    assert_eq!(process.wait().unwrap().code(), Some(130));
}

#[test]
fn acknowledged_writes_survive_a_crash() {
    let place = Place::new();
    let mut client = place.connect();
    for n in 0..50 {
        client.ok(json!({"op": "set", "key": format!("k{n}"), "value": n}));
    }
    client.send_call(json!({"op": "set", "key": "in flight", "value": 1}));
    client.kill();
    let entries = place.connect().ok(json!({"op": "list"}));
    let keys: Vec<&str> =
        entries["entries"].as_array().unwrap().iter().filter_map(|entry| entry["key"].as_str()).collect();
    assert!((0..50).all(|n| keys.contains(&format!("k{n}").as_str())), "{keys:?}");
}

#[test]
fn a_client_that_disconnects_in_mid_call_leaves_nothing_half_done() {
    let place = Place::new();
    let mut client = place.connect();
    let items: Vec<Value> =
        (0..5_000).map(|n| json!({"key": format!("k{n}"), "value": "some words to index"})).collect();
    client.send_call(json!({"op": "bulk_insert", "items": items}));
    drop(client);
    let stats = place.connect().ok(json!({"op": "list_scopes", "scope": "agent"}));
    let entries = stats["scopes"][0]["entries"].as_u64().unwrap();
    assert!(entries == 0 || entries == 5_000, "{entries} of 5,000");
}

/// Holds the database's write lock until dropped.
fn locked(place: &Place) -> Connection {
    memory::sqlite::prepare_process();
    let connection = Connection::open(place.database()).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

#[test]
fn a_cancelled_call_is_not_answered_and_blocks_nothing() {
    let place = Place::new();
    let mut client = place.connect();
    client.ok(json!({"op": "set", "key": "before", "value": 1}));
    let lock = locked(&place);
    let waiting = client.send_call(json!({"op": "set", "key": "cancelled", "value": 1}));
    client.notify("notifications/cancelled", json!({"requestId": waiting, "reason": "changed my mind"}));
    assert_eq!(client.ok(json!({"op": "get", "key": "before"}))["value"], 1);
    drop(lock);
    client.ok(json!({"op": "set", "key": "after", "value": 1}));
    let ended = client.close();
    assert!(ended.rest.iter().all(|message| message["id"] != waiting), "{ended:?}");
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn slow_calls_do_not_block_later_ones() {
    let place = Place::new();
    let mut client = place.connect();
    client.ok(json!({"op": "set", "key": "k", "value": 1}));
    let lock = locked(&place);
    let slow: Vec<u64> = (0..5)
        .map(|n| client.send_call(json!({"op": "set", "key": format!("slow{n}"), "value": n})))
        .collect();
    let fast = client.send_call(json!({"op": "get", "key": "k"}));
    assert_eq!(client.read_message()["id"], fast);
    let ping = client.send("ping", json!({}));
    assert_eq!(client.read_message()["id"], ping);
    drop(lock);
    for id in slow {
        assert_eq!(client.answer(id)["result"]["isError"], false);
    }
}

#[test]
fn a_long_call_sends_progress_until_its_answer() {
    let place = Place::new();
    let mut client = place.connect();
    client.ok(json!({"op": "set", "key": "k", "value": 1}));
    let lock = locked(&place);
    let arguments = json!({"op": "bulk_insert", "items": [{"key": "a", "value": 1}]});
    let params = json!({"name": "memory", "arguments": arguments, "_meta": {"progressToken": 7}});
    let id = client.send("tools/call", params);
    let seconds: Vec<f64> = (0..3)
        .map(|_| {
            let sign = client.read_message();
            assert_eq!(
                (&sign["method"], &sign["params"]["progressToken"]),
                (&"notifications/progress".into(), &7.into())
            );
            sign["params"]["progress"].as_f64().unwrap()
        })
        .collect();
    assert!(seconds[0] < seconds[1] && seconds[1] < seconds[2], "{seconds:?}");
    drop(lock);
    assert_eq!(client.answer(id)["result"]["isError"], false);
    assert_eq!(client.close().rest.len(), 0, "nothing after the answer");
}
