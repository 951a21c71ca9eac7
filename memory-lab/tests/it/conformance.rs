//! `conformance`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use memory::{BackendExt as _, GetOptions, Json, Key, Scope};
use serde_json::json;

use crate::user::User;

#[test]
fn the_default_store_passes_and_the_report_has_its_documented_members() {
    let user = User::new();
    let report = user.json(&["conformance", "--filter", "kv.set"]);
    assert_eq!(report["provider"], "sqlite");
    let cases = &report["cases"];
    assert!(cases["total"].as_u64().unwrap() > 0);
    assert_eq!((&cases["failed"], &report["failed"]), (&json!(0), &json!([])));
    assert_eq!(report["mutants"], json!({"total": 0, "caught": 0, "survivors": []}));
}

#[test]
fn the_default_store_has_an_embedder_unless_disabled() {
    let user = User::new();
    for (options, proved) in [(&[][..], true), (&["--no-embedder"][..], false)] {
        let report = user.json(&[&["conformance", "--filter", "embed."], options].concat());
        let cases = &report["cases"];
        assert_eq!(cases["failed"], 0);
        let (refusals, total) = (cases["refusals"].as_u64().unwrap(), cases["total"].as_u64().unwrap());
        assert_eq!(refusals, if proved { 0 } else { total }, "{cases}");
    }
}

#[test]
fn mutants_are_run_and_counted() {
    let user = User::new();
    let ran = user.run(&["conformance", "--filter", "del.absent", "--mutants", "--json", "--quiet"]);
    let report = ran.document();
    let mutants = &report["mutants"];
    let survivors = mutants["survivors"].as_array().unwrap().len() as u64;
    assert!(mutants["caught"].as_u64().unwrap() > 0, "{mutants}");
    assert_eq!(mutants["total"], mutants["caught"].as_u64().unwrap() + survivors);
    assert_eq!(ran.code, Some(i32::from(survivors > 0)));
}

#[tokio::test]
async fn a_named_store_is_tested_and_keeps_its_contents() {
    let user = User::new();
    let file = format!("sqlite:{}", user.home().join("m.db").display());
    let (scope, key) = (Scope::user("default", "default").unwrap(), Key::new("k").unwrap());
    let memory = memory::open(&file).await.unwrap();
    memory.backend().unwrap().put(&scope, &key, Json::from(1)).await.unwrap();
    drop(memory);
    for url in ["sqlite:m.db", "sqlite::memory:"] {
        let report = user.json(&["conformance", "--url", url, "--filter", "iso."]);
        assert_eq!((&report["provider"], &report["cases"]["failed"]), (&json!(url), &json!(0)));
    }
    let memory = memory::open(&file).await.unwrap();
    let entry = memory.backend().unwrap().get(&scope, &key, GetOptions::default()).await.unwrap();
    assert_eq!(entry.unwrap().value, Json::from(1));
}

#[test]
fn unknown_cases_and_stores_are_refused() {
    let user = User::new();
    let error = user.refused(&["conformance", "--filter", "no-such-case"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("ttl"), "{error}");
    user.refused(&["conformance", "--url", "nosuch:x"], 3, "invalid_argument");
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_example_in_python_passes_the_key_value_part_and_refuses_the_rest() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/python-server/server.py");
    let mut python = Command::new("python3");
    let started =
        python.args([script, "0", "--test-clock"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut server = match started {
        Ok(child) => Running(child),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: there is no python3");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let host = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/v1")).expect(&line);
    let url = format!("memory+http://{host}");
    let short =
        ["conformance", "--allow-host", host, "--url", &format!("http://{host}"), "--filter", "kv.set"];
    let report = User::new().json(&short);
    assert_eq!((&report["provider"], &report["cases"]["failed"]), (&json!(url), &json!(0)), "{report}");
    let report = User::new().json(&["conformance", "--allow-host", host, "--url", &url]);
    let cases = &report["cases"];
    assert_eq!((&cases["failed"], &report["level"]), (&json!(0), &json!("store")), "{report}");
    assert!(cases["passed"].as_u64().unwrap() > 0 && cases["refusals"].as_u64().unwrap() > 0, "{cases}");
    // It obeys the clock of the suite, so nothing is skipped but what no server can be asked for.
    for skipped in report["skipped"].as_array().unwrap() {
        assert_eq!(skipped["why"], "the harness does not limit the disk", "{skipped}");
    }
}
