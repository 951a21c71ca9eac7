//! Identities and rules come from the operator, never from the client.

use serde_json::{Value, json};

use crate::serve::client::Place;
use crate::support::user::has;

const RULES: &str = "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\ntenant = \"acme\"\nagent = \"claude\"\n\
    user = \"ada\"\nmemory_scopes = [\"agent\", \"run\"]\n[agents.other]\nmemory_scopes = [\"user\"]\n";

#[test]
fn a_scope_that_is_not_allowed_is_refused_with_its_code() {
    let place = Place::new();
    place.write("memory.toml", RULES);
    let mut client = place.connect_with(&[]);
    client.ok(json!({"op": "set", "scope": "agent", "key": "k", "value": 1}));
    let error = client.refused(json!({"op": "set", "scope": "user", "key": "k", "value": 1}));
    has(
        &error,
        json!({"code": "scope_denied", "details": {"scope": "user", "allowed": ["agent", "run"]}, "retryable": false}),
    );
}

#[test]
fn the_command_line_selects_the_agent_and_its_rules() {
    let place = Place::new();
    place.write("memory.toml", RULES);
    let mut client = place.connect_with(&["--agent", "other", "--user", "bob"]);
    client.ok(json!({"op": "set", "scope": "user", "key": "k", "value": 1}));
    assert_eq!(client.refused(json!({"op": "get", "key": "k"}))["code"], "scope_denied");
}

#[test]
fn without_a_configuration_the_named_agent_and_the_default_user_are_served() {
    let place = Place::new();
    let mut client = place.connect_with(&["--url", "sqlite:memory.db", "--agent", "claude"]);
    client.ok(json!({"op": "set", "scope": "agent", "key": "k", "value": 1}));
    client.ok(json!({"op": "set", "scope": "run", "key": "k", "value": 1}));
    client.ok(json!({"op": "set", "scope": "user", "key": "k", "value": 2}));
    drop(client);
    let mut other = place.connect_with(&["--url", "sqlite:memory.db", "--agent", "other", "--user", "ada"]);
    assert_eq!(other.ok(json!({"op": "get", "scope": "user", "key": "k"}))["found"], false);
}

#[test]
fn a_configuration_that_allows_a_user_s_scope_and_names_no_user_means_the_default_one() {
    let place = Place::new();
    let rules = |scopes: &str| {
        format!(
            "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\nagent = \"claude\"\nmemory_scopes = [{scopes}]\n"
        )
    };
    place.write("memory.toml", &rules(r#""agent", "user""#));
    let mut client = place.connect_with(&[]);
    client.ok(json!({"op": "set", "scope": "user", "key": "k", "value": 1}));
    drop(client);
    let mut same = place.connect_with(&["--user", "default"]);
    assert_eq!(same.ok(json!({"op": "get", "scope": "user", "key": "k"}))["found"], true);
    drop(same);
    // A host that names its users has no default one.
    let mut trusted = place.connect_with(&["--trust-meta"]);
    let error = trusted.refused(json!({"op": "get", "scope": "user", "key": "k"}));
    has(&error, json!({"code": "scope_denied", "details": {"allowed": ["agent"], "scope": "user"}}));
    drop(trusted);
    place.write("memory.toml", &rules(r#""agent""#));
    let mut without = place.connect_with(&[]);
    let error = without.refused(json!({"op": "get", "scope": "user", "key": "k"}));
    has(&error, json!({"code": "scope_denied", "details": {"allowed": ["agent"], "scope": "user"}}));
}

#[test]
fn a_store_of_the_command_line_needs_no_backend_in_the_configuration() {
    let place = Place::new();
    place.write("memory.toml", "[default]\nagent = \"claude\"\nmemory_scopes = [\"agent\"]\n");
    let mut client = place.connect_with(&["--url", "sqlite:other.db"]);
    client.ok(json!({"op": "set", "key": "k", "value": 1}));
    assert_eq!(client.refused(json!({"op": "get", "scope": "run", "key": "k"}))["code"], "scope_denied");
    assert!(place.path().join("other.db").exists());
}

#[test]
fn scopes_narrow_the_rules_and_never_widen_them() {
    let place = Place::new();
    place.write("memory.toml", RULES);
    let mut client = place.connect_with(&["--scopes", "run,user"]);
    client.ok(json!({"op": "set", "scope": "run", "key": "k", "value": 1}));
    for scope in ["agent", "user"] {
        assert_eq!(client.refused(json!({"op": "get", "scope": scope, "key": "k"}))["code"], "scope_denied");
    }
}

#[test]
fn a_server_for_nobody_does_not_start() {
    let place = Place::new();
    for (options, word) in [
        (&["--url", "sqlite:memory.db"][..], "--agent"),
        (&["--url", "sqlite:memory.db", "--agent", "*"], "id"),
        (&["--url", "sqlite:memory.db", "--agent", "a", "--run", "r"], "--run"),
        (&["--url", "nosuch:x", "--agent", "a"], "nosuch"),
    ] {
        let ended = place.start(options).close();
        assert_eq!(ended.status.code(), Some(3), "{options:?}: {ended:?}");
        assert!(ended.stderr.contains(word), "{options:?}: {}", ended.stderr);
        assert_eq!(ended.rest, Vec::<Value>::new());
    }
}

#[test]
fn a_policy_that_denies_everything_is_reported_at_start() {
    let place = Place::new();
    place
        .write("memory.toml", "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\nagent = \"claude\"\n");
    let mut client = place.connect_with(&[]);
    let error = client.refused(json!({"op": "get", "key": "k"}));
    assert_eq!(error["code"], "scope_denied");
    assert!(client.close().stderr.contains("every agent is denied everything"));
}

#[test]
fn tenants_agents_and_users_have_separate_memories() {
    let place = Place::new();
    let options = |tenant, agent, user| {
        ["--url", "sqlite:memory.db", "--tenant", tenant, "--agent", agent, "--user", user]
    };
    let mut client = place.connect_with(&options("acme", "claude", "ada"));
    for scope in ["agent", "user"] {
        client.ok(json!({"op": "set", "scope": scope, "key": "k", "value": 1}));
    }
    client.close();
    for (tenant, agent, user, sees) in [
        ("acme", "claude", "ada", [true, true]),
        ("acme", "other", "ada", [false, true]),
        ("acme", "claude", "bob", [true, false]),
        ("rival", "claude", "ada", [false, false]),
    ] {
        let mut client = place.connect_with(&options(tenant, agent, user));
        for (scope, sees) in ["agent", "user"].into_iter().zip(sees) {
            let found = client.ok(json!({"op": "get", "scope": scope, "key": "k"}));
            assert_eq!(found["found"], sees, "{tenant} {agent} {user} {scope}");
        }
    }
}

/// Calls with metadata from the client.
fn call(client: &mut crate::serve::client::Client, meta: &Value, arguments: Value) -> Value {
    let params = json!({"name": "memory", "arguments": arguments, "_meta": meta});
    client.request("tools/call", params)["result"]["structuredContent"].clone()
}

#[test]
fn metadata_of_a_client_changes_nothing() {
    let place = Place::new();
    let mut client = place.connect();
    let meta = json!({"memory/user": "eve", "memory/run": "r", "tenant": "x", "agent": "y", "user": "z"});
    call(&mut client, &meta, json!({"op": "set", "scope": "user", "key": "k", "value": 1}));
    assert_eq!(client.ok(json!({"op": "get", "scope": "user", "key": "k"}))["found"], true);
}

#[test]
fn a_trusted_host_names_user_and_run_and_nothing_else() {
    let place = Place::new();
    let mut client = place.connect_with(&[
        "--url",
        "sqlite:memory.db",
        "--agent",
        "claude",
        "--user",
        "ada",
        "--trust-meta",
    ]);
    let eve = json!({"memory/user": "eve", "memory/run": "r1", "memory/agent": "x", "memory/tenant": "y"});
    for scope in ["agent", "user", "run"] {
        call(&mut client, &eve, json!({"op": "set", "scope": scope, "key": "k", "value": 1}));
    }
    let mut found = |meta: &Value, scope: &str| {
        call(&mut client, meta, json!({"op": "get", "scope": scope, "key": "k"}))["found"].clone()
    };
    assert_eq!(found(&json!({}), "agent"), true, "the agent is the operator's");
    assert_eq!(found(&json!({}), "user"), false);
    assert_eq!(found(&json!({"memory/user": "eve"}), "user"), true);
    assert_eq!(found(&json!({"memory/user": "eve"}), "run"), false, "another run");
    assert_eq!(found(&json!({"memory/run": "r1"}), "run"), true);
    for wrong in [json!({"memory/user": "*"}), json!({"memory/user": 7}), json!({"memory/run": ""})] {
        let answer = call(&mut client, &wrong, json!({"op": "describe"}));
        assert_eq!(answer["error"]["code"], "invalid_argument", "{wrong}");
    }
}

#[test]
fn more_than_256_runs_are_refused() {
    let place = Place::new();
    let mut client = place.connect_with(&["--url", "sqlite:memory.db", "--agent", "claude", "--trust-meta"]);
    let mut codes = Vec::new();
    for n in 0..260 {
        let meta = json!({"memory/run": format!("r{n}")});
        codes.push(call(&mut client, &meta, json!({"op": "list"}))["error"]["code"].clone());
    }
    assert_eq!(codes.iter().filter(|code| code.is_null()).count(), 256);
    assert_eq!(codes.last().unwrap(), "unavailable");
    client.ok(json!({"op": "list"}));
}

#[test]
fn the_audit_reaches_its_file_and_standard_error_and_shows_no_secret() {
    let place = Place::new();
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    place.write(
        "memory.toml",
        &format!("{RULES}[audit]\nfile = \"audit.jsonl\"\ntracing = true\nmode = \"full\"\n"),
    );
    let mut client = place.connect_with(&[]);
    client.ok(json!({"op": "set", "key": "k", "value": secret}));
    client.refused(json!({"op": "get", "key": "k", "scope": "user"}));
    let ended = client.close();
    let file = std::fs::read_to_string(place.path().join("audit.jsonl")).unwrap();
    let outcomes: Vec<Value> = file
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|record| json!([record["op"], record["tenant"], record["agent"], record["outcome"]]))
        .collect();
    assert_eq!(
        outcomes,
        [json!(["set", "acme", "claude", "ok"]), json!(["get", "acme", "claude", "scope_denied"])]
    );
    assert!(
        ended.stderr.contains("memory::audit") && ended.stderr.contains("scope_denied"),
        "{}",
        ended.stderr
    );
    assert!(!file.contains(&secret) && !ended.stderr.contains(&secret));
}
