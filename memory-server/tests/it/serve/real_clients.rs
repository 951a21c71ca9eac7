//! Real clients. `cargo xtask test` installs them and sets these variables; without them the tests are skipped with a
//! note.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::serve::client::Place;

/// A Python with the package `mcp`.
const PYTHON: &str = "MEMORY_TEST_MCP_PYTHON";
/// The MCP Inspector's program.
const INSPECTOR: &str = "MEMORY_TEST_MCP_INSPECTOR";
/// The folder of a static model.
const MODEL: &str = "MEMORY_TEST_MODEL";

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/serve/clients.py");

/// The value of a variable; if unset, prints that the test is skipped.
fn given(variable: &str) -> Option<String> {
    let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
    if value.is_none() {
        println!("left out: {variable} is not set; `cargo xtask test` sets it where it can");
    }
    value
}

/// Runs a scenario of `clients.py` on both kinds of session.
fn python(scenario: &str, more: &[&str]) {
    python_with(scenario, more, &[]);
}

fn python_with(scenario: &str, more: &[&str], environment: &[(&str, &str)]) {
    let Some(python) = given(PYTHON) else { return };
    for mode in ["legacy", "2026-07-28"] {
        let place = Place::new();
        let ran = Command::new(&python)
            .args([SCENARIOS, scenario, mode, crate::PROGRAM])
            .arg(place.path())
            .args(more)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{scenario}, {mode}: {}\n{stdout}\n{stderr}", ran.status);
    }
}

macro_rules! python {
    ($($name:ident: $scenario:literal;)*) => {$(
        #[test]
        fn $name() {
            python($scenario, &[]);
        }
    )*};
}

python! {
    python_lists_the_tool: "lists_the_tool";
    python_calls_every_operation: "calls_every_operation";
    python_is_denied_a_scope: "is_denied_a_scope";
    python_finds_by_words_what_an_earlier_connection_stored: "finds_by_words_what_an_earlier_connection_stored";
    python_shares_primes_by_sql: "shares_primes_by_sql";
    python_shares_state: "shares_state";
    python_cancels_a_call: "cancels_a_call";
    python_hears_of_progress: "hears_of_progress";
    python_calls_concurrently: "calls_concurrently";
}

/// The same over HTTP.
macro_rules! python_over_http {
    ($($name:ident: $scenario:literal;)*) => {$(
        #[test]
        fn $name() {
            python_with($scenario, &[], &[("MEMORY_TEST_OVER_HTTP", "1")]);
        }
    )*};
}

#[cfg(unix)]
python_over_http! {
    python_calls_every_operation_over_http: "calls_every_operation";
    python_is_denied_a_scope_over_http: "is_denied_a_scope";
    python_reads_resources_and_the_prompt_over_http: "reads_resources_and_the_prompt";
    python_hears_of_progress_over_http: "hears_of_progress";
    python_calls_concurrently_over_http: "calls_concurrently";
}

#[cfg(unix)]
python! {
    python_is_killed_in_mid_call: "is_killed_in_mid_call";
    python_signs_in_with_the_issuer_that_the_server_names: "signs_in_with_the_issuer_that_the_server_names";
}

#[test]
fn python_finds_by_meaning_what_an_earlier_connection_stored() {
    let Some(model) = given(MODEL) else { return };
    python("finds_by_meaning_what_an_earlier_connection_stored", &[&model]);
}

#[test]
fn python_keeps_facts_with_mem0() {
    let service = crate::support::service::Service::mem0();
    python("keeps_facts_with_mem0", &[&service.address(), memory_fakes::mem0::KEY]);
}

/// A separate database.
const FILE: [&str; 2] = ["--url", "sqlite:memory.db"];

/// One call of the Inspector's command line; returns the result it prints.
fn inspect(inspector: &str, place: &Place, options: &[&str], question: &[&str]) -> Value {
    let ran = Command::new("node")
        .args([inspector, "--cli", crate::PROGRAM, "serve"])
        .args(options)
        .args(["--agent", "claude", "--user", "ada"])
        .args(question)
        .current_dir(place.path())
        .env("HOME", place.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{question:?}: {ran:?}");
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Calls the tool.
fn called(inspector: &str, place: &Place, options: &[&str], arguments: &[&str]) -> Value {
    let arguments = arguments.iter().flat_map(|argument| ["--tool-arg", argument]);
    let question = ["--method", "tools/call", "--tool-name", "memory"].into_iter().chain(arguments);
    inspect(inspector, place, options, &question.collect::<Vec<_>>())
}

#[test]
fn the_inspector_keeps_facts_with_mem9() {
    let Some(inspector) = given(INSPECTOR) else { return };
    let service = crate::support::service::Service::mem9();
    let parameters = "preview=true&tenancy=shared_key&api_key=file:keys/mem9";
    let place = crate::serve::layer::place_of(&service, "mem9", parameters);
    let call = |arguments: &[&str]| called(&inspector, &place, &["--backend", "mem9"], arguments);
    let said = r#"messages=[{"role":"user","content":"I love green tea."}]"#;
    let added = call(&["op=add", said]);
    assert_eq!(added["structuredContent"]["status"], "done", "{added}");
    let found = call(&["op=recall", "query=green tea"]);
    assert_eq!(found["structuredContent"]["facts"][0]["memory"], "I love green tea", "{found}");
}

#[test]
fn the_inspector_lists_and_calls_the_tool() {
    let Some(inspector) = given(INSPECTOR) else { return };
    let place = Place::new();
    let listed = inspect(&inspector, &place, &FILE, &["--method", "tools/list"]);
    assert_eq!(listed["tools"][0]["name"], "memory");
    let call = |arguments: &[&str]| called(&inspector, &place, &FILE, arguments);
    let stored = call(&["op=set", "key=food", "value=\"allergic to peanuts\""]);
    assert_eq!(stored["structuredContent"]["version"], 1, "{stored}");
    let found = call(&["op=search", "query=peanuts"]);
    assert_eq!(found["structuredContent"]["hits"][0]["key"], "food", "{found}");
    let refused = call(&["op=gte"]);
    assert_eq!(
        (&refused["isError"], &refused["structuredContent"]["error"]["code"]),
        (&true.into(), &"invalid_argument".into())
    );
}
