//! `--json` on every command: documents on standard output, errors of one shape on standard error.

use serde_json::Value;

use crate::support::user::{Ran, User};

/// A command, arguments with which it fails, and possibly others with which it succeeds.
type Tried = (&'static str, &'static [&'static str], Option<&'static [&'static str]>);

/// Per command: arguments with which it fails if `--config` names no file, and arguments with which it succeeds on the
/// store below; `None` if it needs a service or an interrupted run.
const COMMANDS: &[Tried] = &[
    ("get", &["k"], Some(&["k"])),
    ("set", &["k", "1"], Some(&["k", "1"])),
    ("delete", &["k"], Some(&["once"])),
    ("list", &[], Some(&["--all"])),
    ("incr", &["n"], Some(&["n"])),
    ("update", &["l", "--append", "1"], Some(&["l", "--append", "1"])),
    ("search", &["word"], Some(&["word", "--explain"])),
    ("add", &["word"], None),
    ("recall", &["word"], None),
    ("facts", &[], None),
    ("event", &["e"], None),
    ("extract", &["--status"], None),
    ("forget", &["--user", "nobody", "--yes"], Some(&["--user", "nobody", "--dry-run"])),
    ("note", &["word"], Some(&["word"])),
    ("promote", &[], Some(&[])),
    ("shared", &[], Some(&[])),
    ("why", &["row"], None),
    ("pending", &[], Some(&[])),
    ("review list", &[], Some(&[])),
    ("review show", &["p"], None),
    ("review bind", &["p", "row"], None),
    ("review reject", &["p"], None),
    ("review reopen", &["row"], None),
    ("rebuild", &[], Some(&[])),
    ("verify", &[], Some(&[])),
    ("graph backend", &["--graph-backend", "none"], Some(&[])),
    ("graph remember", &["word"], Some(&["word", "--id", "m"])),
    ("graph tree", &[], Some(&[])),
    ("graph show", &["m"], Some(&["m"])),
    ("graph history", &["e"], Some(&["e"])),
    ("graph stats", &[], Some(&[])),
    ("graph relate", &["m", "similar_to", "n"], None),
    ("graph recall", &["word"], Some(&["word"])),
    ("graph export", &["ada", "graph.json"], None),
    ("graph import", &["ada", "absent.json"], None),
    ("graph migrate", &["absent.db"], None),
    ("graph sessions", &[], Some(&[])),
    ("graph clean", &["*"], None),
    ("sql", &["SELECT 1"], Some(&["SELECT 1"])),
    ("scopes", &[], Some(&["--all"])),
    ("stats", &[], Some(&[])),
    ("reembed", &[], None),
    ("drift status", &[], Some(&[])),
    ("drift diff", &[], None),
    ("drift ack", &["00000000000000000000000000000000.0.0000000000000000"], None),
    ("drift restore", &["absent"], None),
    ("drift repair", &[], Some(&["--dry-run"])),
    ("import", &["said.jsonl"], Some(&["said.jsonl"])),
    ("export", &[], Some(&[])),
    ("snapshot", &["s"], Some(&["s"])),
    ("restore", &["said.jsonl"], Some(&["s"])),
    ("migrate", &["sqlite:a.db", "sqlite:b.db"], None),
    ("gc", &[], Some(&["--dry-run"])),
    ("serve", &["--agent", "a"], Some(&["--agent", "a", "--print-config", "cursor"])),
    ("tool-schema", &["--for", "mcp"], Some(&["--for", "mcp"])),
    ("token create", &["t"], Some(&["t", "--agent", "a", "--tokens", "tokens"])),
    ("token list", &[], Some(&["--tokens", "tokens"])),
    ("token revoke", &["t"], Some(&["t", "--tokens", "tokens"])),
    ("sql-worker", &[], None),
    ("init", &["no/such/folder/memory.toml"], Some(&["begun.toml"])),
    ("doctor", &[], Some(&["--offline"])),
    ("demo", &["--dir", "said.jsonl"], Some(&[])),
    ("describe", &[], Some(&[])),
    ("backend create", &["b", "sqlite:b.db"], None),
    ("backend fork", &["b"], None),
    ("backend list", &[], None),
    ("backend show", &["b"], None),
    ("backend retire", &["b"], None),
    ("backend test", &["b"], None),
    ("backend journal", &["b"], None),
    ("config init", &["no/such/folder/memory.toml"], Some(&["other.toml"])),
    ("config check", &[], None),
    ("config", &[], Some(&[])),
    ("postgres provision", &[], None),
    ("postgres doctor", &[], None),
    ("shell", &[], None),
    // These fail only if called wrongly.
    ("completions", &["nosh"], Some(&["bash"])),
    ("man", &["said.jsonl"], Some(&["pages"])),
];

/// Every command that does something, as typed.
fn commands(of: &clap::Command, name: &str, found: &mut Vec<String>) {
    let below = of.get_subcommands().filter(|below| below.get_name() != "help");
    let below: Vec<_> = below.collect();
    if !name.is_empty() && (below.is_empty() || !of.is_subcommand_required_set()) {
        found.push(name.to_owned());
    }
    for command in below {
        commands(command, format!("{name} {}", command.get_name()).trim(), found);
    }
}

/// One object, in the common shape, alone on standard error.
fn refused(ran: &Ran) -> Value {
    assert!(ran.code.is_some_and(|code| code > 0) && ran.stdout.is_empty(), "{ran:?}");
    let document: Value = serde_json::from_str(&ran.stderr).unwrap_or_else(|why| panic!("{why}: {ran:?}"));
    assert_eq!(document.as_object().unwrap().keys().collect::<Vec<_>>(), ["error"], "{ran:?}");
    let error = document["error"].as_object().unwrap();
    assert!(error["code"].is_string() && error["message"].is_string() && error["retryable"].is_boolean());
    assert!(error.get("details").is_none_or(Value::is_object), "{ran:?}");
    assert!(error.keys().all(|key| ["code", "message", "details", "retryable"].contains(&key.as_str())));
    document["error"].clone()
}

#[test]
fn every_command_takes_json_and_every_error_has_one_shape() {
    let mut found = Vec::new();
    commands(&memory_server::command_line(), "", &mut found);
    let mut listed: Vec<_> = COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed, "a command is new, or gone: list it here");

    let user = User::new();
    user.file("said.jsonl", "{\"role\":\"user\",\"content\":\"a word\"}\n");
    for (name, wrong, _) in COMMANDS {
        let words: Vec<&str> = name.split(' ').collect();
        let misused = refused(&user.run(&[&words[..], &["--json", "--no-such-option"]].concat()));
        assert_eq!(misused["code"], "invalid_argument", "{name}");
        refused(&user.run(&[&words[..], wrong, &["--config", "absent.toml", "--json"]].concat()));
    }
    let left: Vec<_> =
        std::fs::read_dir(user.home()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["said.jsonl"]);

    user.ok(&["set", "k", "\"a word\""]);
    user.ok(&["set", "once", "1"]);
    for (name, _, right) in COMMANDS {
        let Some(right) = right else { continue };
        let ran = user.run(&[&name.split(' ').collect::<Vec<_>>()[..], right, &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        let documents = serde_json::Deserializer::from_str(&ran.stdout).into_iter::<Value>();
        assert!(documents.map(Result::unwrap).count() > 0, "{name}: {ran:?}");
    }
}
