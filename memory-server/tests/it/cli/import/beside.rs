//! Exports of conversations: imported while others write, in parts, and with records that cannot be stored.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Stdio};

use serde_json::{Value, json};

use crate::support::user::{User, has};

/// More blank lines than any buffer between here and the import holds: once they are written, everything before them
/// was read.
const FILLING: usize = 8 << 20;

/// An export of a conversation of this many turns, in the default scope.
fn export(turns: usize) -> String {
    let source = User::new();
    let line = |n: usize| format!("{{\"role\":\"user\",\"content\":\"boat {n} lies in Bergen\"}}\n");
    source.file("chat.jsonl", (0..turns).map(line).collect::<String>());
    assert_eq!(source.json(&["import", "chat.jsonl"])["created"], turns);
    source.ok(&["export"])
}

/// An import that has read the first part of a file and waits for the rest.
fn half_way(user: &User, first: &str) -> (Child, ChildStdin) {
    let mut child = user.command(&["import", "-", "--json"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(first.as_bytes()).unwrap();
    pipe.write_all(&vec![b'\n'; FILLING]).unwrap();
    (child, pipe)
}

fn facts(user: &User) -> Vec<String> {
    let facts = user.run(&["facts", "--all", "--json"]).lines();
    let mut words: Vec<String> =
        facts.iter().map(|fact| fact["memory"].as_str().unwrap().to_owned()).collect();
    words.sort();
    words
}

fn recalled(user: &User, question: &str) -> usize {
    user.json(&["recall", question, "-k", "100"])["facts"].as_array().unwrap().len()
}

#[test]
fn what_is_added_while_an_export_is_imported_stays_and_the_export_is_added_to_it() {
    let user = User::new();
    let export = export(3);
    let head = export.find("\"key\":\"~turn/id/").and_then(|at| export[..at].rfind('\n')).unwrap();
    let (first, rest) = export.split_at(head + 1);
    user.ok(&["add", "warm", "--user", "other"]);
    let (child, mut pipe) = half_way(&user, first);
    user.ok(&["add", "boat 7 lies in Oslo"]);
    pipe.write_all(rest.as_bytes()).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    has(&report, json!({"created": 3, "kept": 0}));
    assert_eq!(facts(&user).len(), 4);
    assert_eq!(recalled(&user, "boat lies"), 4);
}

#[test]
fn a_log_has_no_head_before_it_is_complete_and_a_killed_import_goes_on() {
    let user = User::new();
    let export = export(600);
    let records: Vec<&str> = export.split_inclusive('\n').collect();
    let without_last = records[..records.len() - 1].concat();
    let (mut child, _pipe) = half_way(&user, &without_last);
    assert_eq!(user.run(&["get", "~turn/head"]).code, Some(1), "there is no such entry");
    let there = facts(&user).len();
    assert!((1..600).contains(&there), "{there} of 600");
    child.kill().unwrap();
    child.wait().unwrap();
    user.file("backup.jsonl", &export);
    let report = user.json(&["import", "backup.jsonl"]);
    has(&report, json!({"kept": 0, "problems": {"count": 0, "first": []}}));
    assert_eq!((facts(&user).len(), recalled(&user, "boat 599")), (600, 100));
    let again = user.json(&["import", "backup.jsonl"]);
    has(&again, json!({"created": 0, "kept": 0, "unchanged": records.len() - 1}));

    // Killed, and then somebody else began a conversation.
    let other = User::new();
    let (mut child, _pipe) = half_way(&other, &without_last);
    child.kill().unwrap();
    child.wait().unwrap();
    other.ok(&["add", "boat 700 lies in Oslo"]);
    other.file("backup.jsonl", &export);
    other.ok(&["import", "backup.jsonl"]);
    let facts = facts(&other);
    assert_eq!(facts.len(), 601);
    assert!(facts.windows(2).all(|pair| pair[0] != pair[1]), "none twice");
}

#[test]
fn records_that_cannot_be_stored_are_named_and_the_rest_is_a_conversation() {
    let user = User::new();
    let export = export(4);
    let mut lines: Vec<String> = export.lines().map(str::to_owned).collect();
    let at = |words: &str| lines.iter().position(|line| line.contains(words)).unwrap();
    let (robot, large) = (at("\"boat 1 lies"), at("\"boat 2 lies"));
    lines[robot] = lines[robot].replace("\"role\":\"user\"", "\"role\":\"robot\"");
    lines[large] = lines[large].replace("boat 2", &"x".repeat(1 << 20));
    let strange = lines[robot + 2].replace("~turn/log/0000000000000003", "~turn/log/3");
    assert_ne!(strange, lines[robot + 2]);
    lines.push(strange);
    lines.push(
        lines[1].replace("~turn/head", "z").replace("\"epoch\"", &format!("\"{}\"", "x".repeat(1 << 20))),
    );
    user.file("backup.jsonl", lines.join("\n"));
    let ran = user.run(&["import", "backup.jsonl", "--json"]);
    let report = ran.document();
    assert_eq!((ran.code, &report["problems"]["count"]), (Some(7), &json!(4)), "{ran:?}");
    assert_eq!(facts(&user), ["boat 0 lies in Bergen", "boat 3 lies in Bergen"]);
    assert_eq!(recalled(&user, "boat"), 2);
}
