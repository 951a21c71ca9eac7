//! The printed client configuration, and whether it starts a server.

use std::path::Path;

use serde_json::{Value, json};

use crate::serve::client::Place;

/// This server's entry in a client's configuration.
fn entry(configuration: &Value) -> &Value {
    let section = configuration.get("mcpServers").or_else(|| configuration.get("servers"));
    &section.unwrap_or_else(|| panic!("{configuration}"))["memory"]
}

fn arguments(entry: &Value) -> Vec<String> {
    entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_printed_configuration_starts_a_server_from_any_folder() {
    let place = Place::new();
    for (client, section, typed) in [
        ("claude-code", "mcpServers", true),
        ("claude-desktop", "mcpServers", false),
        ("cursor", "mcpServers", true),
        ("vscode", "servers", true),
    ] {
        let options =
            ["serve", "--url", "sqlite:my notes.db?durability=normal", "--agent", "claude", "--user", "ada"];
        let more = ["--tenant", "acme", "--scopes", "agent,user", "--trust-meta", "--print-config", client];
        let printed = place.command(&[&options[..], &more[..]].concat()).output().unwrap();
        assert!(printed.status.success(), "{printed:?}");
        let configuration: Value = serde_json::from_slice(&printed.stdout).unwrap();
        assert_eq!(configuration.as_object().unwrap().keys().collect::<Vec<_>>(), [section]);
        let entry = entry(&configuration);
        assert_eq!(entry.get("type"), typed.then(|| json!("stdio")).as_ref(), "{client}");
        assert!(Path::new(entry["command"].as_str().unwrap()).is_absolute());
        let words = arguments(entry);
        assert!(!words.iter().any(|word| word.contains("print-config")), "{words:?}");
        assert!(words.contains(&"--trust-meta".to_owned()), "{words:?}");
        // The printed configuration works from another folder.
        let elsewhere = Place::new();
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let mut session = elsewhere.connect_with(&words);
        session.ok(json!({"op": "incr", "scope": "user", "key": "visits"}));
    }
    assert!(place.path().join("my notes.db").exists());
}

#[test]
fn a_configuration_found_in_the_folder_is_named_in_the_printed_one() {
    let place = Place::new();
    place.write(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\nagent = \"claude\"\nmemory_scopes = [\"agent\"]\n",
    );
    let printed = place.command(&["serve", "--print-config", "cursor"]).output().unwrap();
    let configuration: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let words = arguments(entry(&configuration));
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    Place::new().connect_with(&words).ok(json!({"op": "set", "key": "k", "value": 1}));
    assert_eq!(place.connect_with(&[]).ok(json!({"op": "get", "key": "k"}))["found"], true);
}

#[test]
fn a_printed_configuration_of_a_server_over_http_has_its_address_and_no_command() {
    let place = Place::new();
    let print = |address: &str, more: &[&str], client: &str| {
        let options = [&["serve", "--http", address], more, &["--print-config", client]].concat();
        place.command(&options).output().unwrap()
    };
    let local = "127.0.0.1:7077";
    for (client, address, more, url, token) in [
        ("claude-code", local, &[][..], "http://127.0.0.1:7077/mcp", "${MEMORY_TOKEN}"),
        ("cursor", local, &["--behind-proxy"], "https://HOST/mcp", "${env:MEMORY_TOKEN}"),
        ("vscode", "0.0.0.0:80", &["--behind-proxy"], "http://HOST:80/mcp", "${input:memory-token}"),
        (
            "vscode",
            "[::1]:80",
            &["--tls-cert", "c", "--tls-key", "k"],
            "https://[::1]:80/mcp",
            "${input:memory-token}",
        ),
    ] {
        let printed = print(address, more, client);
        assert!(printed.status.success(), "{printed:?}");
        let configuration: Value = serde_json::from_slice(&printed.stdout).unwrap();
        let entry = entry(&configuration);
        assert_eq!(entry["url"], url, "{client}");
        assert_eq!(entry["headers"]["Authorization"], format!("Bearer {token}"));
        assert!(entry.get("command").is_none(), "{entry}");
    }
    for (client, address) in [("claude-desktop", local), ("cursor", "127.0.0.1:0")] {
        let refused = print(address, &[], client);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(3), 0), "{refused:?}");
    }
}

#[test]
fn nothing_is_printed_for_a_server_that_would_not_start() {
    let place = Place::new();
    let printed = place.command(&["serve", "--print-config", "vscode"]).output().unwrap();
    assert_eq!((printed.status.code(), printed.stdout.len()), (Some(3), 0), "{printed:?}");
}

#[test]
fn the_configurations_on_the_page_are_json_and_start_a_server() {
    let page = include_str!("../../../../docs/mcp.md");
    let mut blocks = 0;
    for block in page.split("```json\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let configuration: Value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        if configuration.get("mcpServers").is_none() && configuration.get("servers").is_none() {
            continue;
        }
        blocks += 1;
        let entry = entry(&configuration);
        assert_eq!(entry["command"], "memory");
        let words = arguments(entry);
        assert_eq!(words.first().map(String::as_str), Some("serve"), "{words:?}");
        let place = Place::new();
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        place.connect_with(&words).ok(json!({"op": "describe"}));
    }
    assert!(blocks >= 4, "{blocks} configurations");
}
