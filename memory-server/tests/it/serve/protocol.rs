//! The protocol: sessions of every version, the one tool, unknown methods.

use serde_json::{Value, json};

use crate::serve::client::{Client, Place};
use crate::support::user::has;

/// Metadata that each request carries from revision 2026-07-28 on.
fn inline_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn options() -> [&'static str; 6] {
    ["--url", "sqlite:memory.db", "--agent", "claude", "--user", "ada"]
}

#[test]
fn every_version_with_a_handshake_is_served_and_an_unknown_one_gets_the_newest() {
    for (asked, spoken) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let place = Place::new();
        let mut client = place.start(&options());
        let answer = client.request(
            "initialize",
            json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
        );
        assert_eq!(answer["result"]["protocolVersion"], spoken, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "memory");
        assert!(answer["result"]["capabilities"]["tools"].is_object(), "{answer}");
        let tools = client.request("tools/list", json!({}));
        assert_eq!(tools["result"]["tools"][0]["name"], "memory", "{asked}");
    }
}

#[test]
fn a_client_without_handshake_discovers_and_calls() {
    let place = Place::new();
    let mut client = place.start(&options());
    let found = client.request("server/discover", json!({"_meta": inline_meta()}));
    let versions = found["result"]["supportedVersions"].as_array().unwrap_or_else(|| panic!("{found}"));
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    let tools = client.request("tools/list", json!({"_meta": inline_meta()}));
    assert_eq!(tools["result"]["tools"][0]["name"], "memory", "{tools}");
    let params =
        json!({"name": "memory", "arguments": {"op": "set", "key": "k", "value": 1}, "_meta": inline_meta()});
    let answer = client.request("tools/call", params);
    assert_eq!(answer["result"]["structuredContent"]["version"], 1, "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[test]
fn the_tool_says_what_it_takes_and_stays_small() {
    let place = Place::new();
    let mut client = place.connect();
    let answer = client.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 1);
    let tool = &tools[0];
    has(&tool["inputSchema"], json!({"type": "object", "required": ["op"]}));
    let ops = tool["inputSchema"]["properties"]["op"]["enum"].as_array().unwrap();
    for op in
        ["get", "set", "delete", "list", "search", "incr", "update", "bulk_insert", "list_scopes", "describe"]
    {
        assert!(ops.contains(&json!(op)), "{op}: {ops:?}");
        assert!(tool["description"].as_str().unwrap().contains(&format!("- {op}(")), "{op}");
    }
    // Operations that are unsupported or denied are not offered.
    assert!(!ops.contains(&json!("sql_exec")), "{ops:?}");
    // A model reads this with every message; docs/mcp.md states bytes and tokens.
    let bytes = tool.to_string().len();
    assert!(bytes <= 5_450, "{bytes} bytes");
}

#[test]
fn ping_is_answered_also_before_the_session() {
    let place = Place::new();
    let mut client = place.start(&options());
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    client.initialize();
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn unknown_tools_and_methods_are_errors_of_the_protocol() {
    let place = Place::new();
    let mut client = place.connect();
    let answer = client.request("tools/call", json!({"name": "memry", "arguments": {}}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    for method in ["tools/lists", "resources/list", "prompts/get", "x".repeat(5_000).as_str()] {
        let answer = client.request(method, json!({}));
        if method == "resources/list" {
            // The SDK answers an empty list for what is not offered.
            continue;
        }
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
        assert!(answer.to_string().len() < 1_000, "{answer}");
    }
}

#[test]
fn requests_before_the_session_are_refused_and_the_session_can_still_begin() {
    let place = Place::new();
    let mut client = place.start(&options());
    client.notify("notifications/initialized", json!({}));
    client.notify("notifications/cancelled", json!({"requestId": 7}));
    let answer = client.request("tools/call", json!({"name": "memory", "arguments": {"op": "describe"}}));
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    let answer = client.request("tools/list", json!({}));
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    client.initialize();
    client.ok(json!({"op": "describe"}));
}

#[test]
fn an_id_may_be_a_string_and_comes_back_as_it_was() {
    let place = Place::new();
    let mut client = place.connect();
    client.write_line(r#"{"jsonrpc":"2.0","id":"a\"b\u000a","method":"tools/call","params":{"name":"memory","arguments":{"op":"describe"}}}"#);
    assert_eq!(client.answer("a\"b\n")["result"]["isError"], false);
}

#[test]
fn progress_is_sent_before_the_answer_and_only_on_request() {
    let place = Place::new();
    let mut client = place.connect();
    let items: Vec<Value> = (0..200).map(|n| json!({"key": format!("k{n}"), "value": n})).collect();
    let arguments = json!({"op": "bulk_insert", "items": items});

    client.ok(arguments.clone());
    assert_eq!(client.others().count(), 0, "no token, no progress");

    let params = json!({"name": "memory", "arguments": arguments, "_meta": {"progressToken": "t-1"}});
    let id = client.send("tools/call", params);
    let first = client.read_message();
    assert_eq!(first["method"], "notifications/progress", "{first}");
    assert_eq!(first["params"]["progressToken"], "t-1");
    assert_eq!(client.answer(id)["result"]["isError"], false);
    let numbers: Vec<f64> = std::iter::once(&first)
        .chain(client.others())
        .map(|message| message["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");

    // A fast call sends no progress.
    let before = client.others().count();
    let params =
        json!({"name": "memory", "arguments": {"op": "get", "key": "k1"}, "_meta": {"progressToken": 2}});
    client.request("tools/call", params);
    assert_eq!(client.others().count(), before);
}

#[test]
fn files_are_offered_where_they_are_asked_for_and_kept_as_entries() {
    let place = Place::new();
    let names = |client: &mut Client| {
        let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
        Vec::from_iter(
            listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()),
        )
    };
    let call = |client: &mut Client, arguments: Value| {
        client.request("tools/call", json!({"name": "memory_files", "arguments": arguments}))
    };
    let create = json!({"command": "create", "path": "/memories/a.md", "file_text": "one\n"});
    let mut files = place.connect_with(&[&options()[..], &["--tools", "files"]].concat());
    assert_eq!(names(&mut files), ["memory_files"]);
    let created = call(&mut files, create.clone())["result"].clone();
    has(
        &created,
        json!({"isError": false, "content": [{"type": "text", "text": "File created successfully at: /memories/a.md"}]}),
    );
    let again = call(&mut files, create.clone())["result"].clone();
    has(
        &again,
        json!({"isError": true, "content": [{"type": "text", "text": "Error: File /memories/a.md already exists"}]}),
    );
    let other =
        files.request("tools/call", json!({"name": "memory", "arguments": {"op": "get", "key": "k"}}));
    assert_eq!(other["error"]["code"], -32602, "{other}");

    let mut both = place.connect_with(&[&options()[..], &["--tools", "memory,files"]].concat());
    assert_eq!(names(&mut both), ["memory", "memory_files"]);
    assert_eq!(both.ok(json!({"op": "get", "key": "/memories/a.md"}))["value"], "one\n");

    let mut memory = place.connect();
    assert_eq!(names(&mut memory), ["memory"]);
    assert_eq!(call(&mut memory, create)["error"]["code"], -32602);
}

#[test]
fn the_configuration_says_which_tools_are_offered_and_a_command_line_narrows_it() {
    let place = Place::new();
    place.write(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\nmemory_scopes = [\"user\"]\ntools = [\"files\"]\n",
    );
    let mut client = place.connect_with(&["--agent", "ann", "--user", "ada"]);
    let listed = client.request("tools/list", json!({}));
    assert_eq!(listed["result"]["tools"][0]["name"], "memory_files", "{listed}");
    let mut refused = place.start(&["--agent", "ann", "--tools", "memory"]);
    let ended = refused.finish();
    assert!(!ended.status.success() && ended.stderr.contains("--tools"), "{ended:?}");
}
