//! Who gets in.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::door::{Door, INITIALIZE, RULES, get, set};
use crate::serve::client::Place;
use crate::support::user::User;

#[test]
fn nothing_is_served_without_a_token() {
    let door = Door::open("");
    for path in ["/mcp", "/v1/anything", "/nothing"] {
        let answer = door.get(path, &[]);
        assert_eq!((answer.status, answer.code()), (401, "unauthenticated".to_owned()), "{path}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let made = door.token("ann", &["--agent", "ann"]);
    let flipped = if made.ends_with('0') { "1" } else { "0" };
    let other = format!("{}{flipped}", &made[..made.len() - 1]);
    for wrong in ["", "Bearer", "Bearer x", &format!("Basic {made}"), &format!("Bearer {other}"), &made] {
        assert_eq!(door.get("/mcp", &[("Authorization", wrong)]).status, 401, "{wrong}");
    }
    let right = format!("Bearer {made}");
    let twice = [("Authorization", right.as_str()), ("Authorization", &right)];
    assert_eq!(door.get("/mcp", &twice).status, 400);
    assert_eq!(door.get("/nothing", &[("Authorization", &right)]).status, 404);
}

#[test]
fn a_revoked_or_expired_token_is_refused_at_once_by_a_running_server() {
    let door = Door::open("");
    let ann = door.token("ann", &["--agent", "ann"]);
    let bob = door.token("bob", &["--agent", "bob"]);
    let short = door.token("short", &["--agent", "ann", "--expires", "1ms"]);
    let session = door.session(&ann);
    door.ok(&ann, &session, set("agent", "k", "v"));
    assert_eq!(door.post(&short, None, INITIALIZE).status, 401);
    door.user.ok(&["token", "revoke", "ann"]);
    let call = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#;
    assert_eq!(door.post(&ann, Some(&session), call).status, 401);
    let session = door.session(&bob);
    assert_eq!(door.ok(&bob, &session, get("agent", "k"))["found"], false);
}

#[test]
fn tokens_are_kept_as_hashes_in_a_private_file_and_listed_without_them() {
    let user = User::new();
    user.file("memory.toml", RULES);
    let made =
        user.json(&["token", "create", "ci", "--tenant", "acme", "--agent", "ann", "--ops", "get,set"]);
    let token = made["token"].as_str().unwrap();
    assert!(token.starts_with("memtok_") && token.len() >= 7 + 12 + 1 + 64, "{token}");
    let file = user.home().join("memory.tokens.jsonl");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = token.rsplit('_').next().unwrap();
    assert!(!std::fs::read_to_string(&file).unwrap().contains(secret));

    let listed = user.json(&["token", "list"]);
    let one = &listed["tokens"][0];
    assert_eq!(
        (&one["name"], &one["tenant"], &one["ops"]),
        (&json!("ci"), &json!("acme"), &json!(["get", "set"]))
    );
    assert!(!listed.to_string().contains(secret));
    user.refused(&["token", "create", "ci", "--agent", "bob"], 4, "conflict");
    user.ok(&["token", "revoke", made["id"].as_str().unwrap()]);
    assert_eq!(user.json(&["token", "list"])["tokens"], json!([]));
    assert_eq!(user.json(&["token", "list", "--all"])["tokens"][0]["status"], "revoked");
    user.refused(&["token", "revoke", "ci"], 3, "not_found");
    user.refused(&["token", "create", "t-0123456789ab"], 3, "invalid_argument");
    user.refused(&["token", "create", "idle", "--read-only", "--ops", "set,delete"], 3, "invalid_argument");
    assert_eq!(user.run(&["token", "create", "x", "--ops", "everything"]).code, Some(2));

    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    user.refused(&["token", "list"], 3, "forbidden");
    user.refused(&["serve", "--http", "127.0.0.1:0"], 3, "forbidden");
}

#[test]
fn it_listens_elsewhere_only_with_tokens_and_tls_or_a_proxy() {
    let user = User::new();
    user.file("memory.toml", RULES);
    let everywhere = ["serve", "--http", "0.0.0.0:0"];
    let refused = user.refused(&[&everywhere[..], &["--behind-proxy"]].concat(), 3, "forbidden");
    assert!(refused["message"].as_str().unwrap().contains("token create"), "{refused}");
    user.ok(&["token", "create", "ann", "--agent", "ann"]);
    let refused = user.refused(&everywhere, 3, "forbidden");
    assert!(refused["message"].as_str().unwrap().contains("--behind-proxy"), "{refused}");
    // Behind a proxy the name is the proxy's business, and metrics need a token.
    let door = Door::start(user, &["--behind-proxy"]);
    let elsewhere = [("Host", "memory.example")];
    assert_eq!(door.get("/healthz", &elsewhere).status, 200);
    assert_eq!(door.get("/metrics", &elsewhere).status, 401);
}

#[test]
fn rules_of_memory_toml_bind_tokens_too() {
    let elsewhere = "[backends.other]\nurl = \"sqlite:other.db\"\n[agents.bob]\nbackend = \"other\"\n";
    let user = User::new();
    user.file(
        "memory.toml",
        format!("{RULES}backend = \"main\"\n[agents.ann]\nmemory_scopes = [\"agent\"]\n{elsewhere}"),
    );
    let door = Door::start(user, &[]);
    let bob = door.token("bob", &["--agent", "bob"]);
    assert_eq!(door.post(&bob, None, INITIALIZE).code(), "forbidden");
    let ann = door.token("ann", &["--agent", "ann", "--user", "ada", "--scopes", "agent,user"]);
    let session = door.session(&ann);
    door.ok(&ann, &session, set("agent", "k", "v"));
    assert_eq!(door.refused(&ann, &session, set("user", "k", "v")), "scope_denied");
}

#[test]
fn without_a_configuration_tokens_are_in_the_data_folder() {
    let user = User::new();
    user.json(&["token", "create", "laptop", "--agent", "claude"]);
    let door = Door::start(user, &[]);
    let token = door.token("another", &["--agent", "claude"]);
    let session = door.session(&token);
    door.ok(&token, &session, set("agent", "k", "v"));
    assert_eq!(door.ok(&token, &session, get("agent", "k"))["value"], "v");
}

#[test]
fn a_token_of_one_agent_uses_conversations_and_runs_over_its_url_and_meets_no_other() {
    let door = Door::open("");
    let url = |name: &str, agent: &str| {
        let token = door.token(name, &["--tenant", "acme", "--agent", agent]);
        let file = door.user.file(name, token);
        format!("memory+http://127.0.0.1:{}?api_key=file:{}", door.port, file.display())
    };
    let (claude, other) = (url("one", "claude"), url("two", "claude"));
    let host = format!("127.0.0.1:{}", door.port);
    let at = |url: &str, arguments: &[&str]| {
        let client = User::new();
        client.ok(&[
            arguments,
            &["--tenant", "acme", "--agent", "claude", "--allow-host", &host, "--url", url],
        ]
        .concat())
    };
    at(&claude, &["add", "I keep bees in Bergen"]);
    assert!(at(&claude, &["recall", "where are the bees"]).contains("Bergen"));
    assert!(at(&other, &["recall", "where are the bees"]).contains("Bergen"), "it is the agent's");
    // The remote memory has a run with its own entries, page after page.
    let place = Place::new();
    let options =
        ["--tenant", "acme", "--agent", "claude", "--scopes", "agent,run", "--allow-host", &host, "--url"];
    let mut client = place.connect_with(&[&options[..], &[&claude]].concat());
    let found = client.ok(json!({"op": "recall", "query": "bees"}));
    assert!(found.to_string().contains("Bergen"), "{found}");
    for key in ["a", "b", "c"] {
        client.ok(json!({"op": "set", "scope": "run", "key": key, "value": "x".repeat(400_000)}));
    }
    let (mut keys, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = client.ok(json!({"op": "list", "scope": "run", "cursor": cursor}));
        keys.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["key"].clone()));
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(keys, ["a", "b", "c"]);
    drop(client.close());
}

#[test]
fn runs_of_the_same_name_are_each_tokens_own() {
    let door = Door::open("");
    let ids: Vec<(String, String)> = ["one", "two"]
        .into_iter()
        .map(|name| {
            let made = door.user.json(&["token", "create", name, "--tenant", "acme", "--agent", "ann"]);
            ["id", "token"].map(|part| made[part].as_str().unwrap().to_owned()).into()
        })
        .collect();
    let ask = |token: &str, op: &str, arguments: &serde_json::Value| {
        let bearer = format!("Bearer {token}");
        door.request("POST", &format!("/v1/ops/{op}"), &[("Authorization", &bearer)], &arguments.to_string())
    };
    let [(id, one), (_, two)] = &ids[..] else { panic!("{ids:?}") };
    let entry = |run: &str| json!({"scope": {"tenant": "acme", "kind": "run", "id": run}, "key": "k"});
    let mut set = entry("run-1");
    set["value"] = json!(1);
    assert_eq!(ask(one, "set", &set).status, 200);
    assert!(ask(one, "get", &entry("run-1")).body.contains("\"value\":1"));
    assert!(ask(one, "get", &entry(&format!("{id}-run-1"))).body.contains("\"value\":1"), "its whole name");
    for foreign in ["run-1", &format!("{id}-run-1")] {
        assert_eq!(ask(two, "get", &entry(foreign)).body, "null", "{foreign}");
    }
    let add = |agent: &str, tenant: &str| {
        json!({"run": {"tenant": tenant, "agent": agent, "run": "run-1"},
            "scope": {"tenant": "acme", "kind": "agent", "id": "ann"},
            "messages": [{"role": "user", "content": "I keep bees"}]})
    };
    assert_eq!(ask(one, "add", &add("ann", "acme")).status, 200);
    assert_eq!(ask(two, "add", &add("ann", "acme")).status, 200);
    for (agent, tenant) in [("bob", "acme"), ("ann", "globex")] {
        let refused = ask(one, "add", &add(agent, tenant));
        assert_eq!((refused.status, refused.code()), (403, "scope_denied".to_owned()));
    }
    // Ending one does not end the other.
    let end = json!({"tenant": "acme", "root_run": "run-1"});
    assert_eq!(ask(one, "end_run", &end).status, 200);
    assert_eq!(ask(one, "set", &set).status, 410);
    assert_eq!(ask(two, "set", &set).status, 200);
}

#[test]
fn a_token_that_would_be_expired_at_once_is_not_made() {
    let user = User::new();
    let error = user.refused(&["token", "create", "ci", "--expires", "0s"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("above 0"), "{error}");
    assert_eq!(user.json(&["token", "list", "--all"])["tokens"], json!([]));
}

/// However much of it is under way when it is refused.
#[test]
fn a_stream_that_is_refused_says_why() {
    let door = Door::open("[agents.mig]\nsql_scopes = [\"agent\"]\n[sql]\nenabled = true\n");
    let file = door.user.file("token-of-app", door.token("app", &["--agent", "mig", "--read-only"]));
    let url = format!("memory+http://127.0.0.1:{}?api_key=file:{}", door.port, file.display());
    let host = format!("127.0.0.1:{}", door.port);
    let client = User::new();
    let here = ["--url", "sqlite:here.db"];
    client.ok(&[&["sql", "CREATE TABLE t (x)"][..], &here].concat());
    let rows = "INSERT INTO t WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 8) SELECT \
                hex(zeroblob(400000)) FROM c";
    client.ok(&[&["sql", rows][..], &here].concat());
    client.ok(&[&["sql", "--dump", "d.dump"][..], &here].concat());
    let there = ["--agent", "mig", "--allow-host", &host, "--url", &url];
    for _ in 0..3 {
        let error = client.refused(&[&["sql", "--restore", "d.dump"][..], &there].concat(), 3, "read_only");
        assert!(error["message"].as_str().unwrap().contains("read"), "{error}");
    }
}

#[test]
fn an_export_is_imported_with_an_ordinary_token() {
    let door = Door::open("");
    let file = door.user.file("token-of-app", door.token("app", &[]));
    let url = format!("memory+http://127.0.0.1:{}?api_key=file:{}", door.port, file.display());
    let host = format!("127.0.0.1:{}", door.port);
    let client = User::new();
    let here = ["--url", "sqlite:here.db"];
    client.ok(&[&["set", "likes/tea", "true"][..], &here].concat());
    client.ok(&[&["add", "I keep bees in Bergen"][..], &here].concat());
    client.ok(&[&["export", "--out", "all.jsonl"][..], &here].concat());
    let there = ["--agent", "mig", "--allow-host", &host, "--url", &url];
    for dry in [&["--dry-run"][..], &[]] {
        let ran = client.run(&[&["import", "all.jsonl"][..], dry, &there].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(dry.len() == 1 || ran.stderr.contains("may come back"), "{ran:?}");
    }
    assert_eq!(client.ok(&[&["get", "likes/tea"][..], &there].concat()), "true\n");
    assert!(client.ok(&[&["recall", "bees"][..], &there].concat()).contains("Bergen"));
    let refused = client.run(&[&["import", "https://api.example/memories"][..], &there].concat());
    assert!(refused.stderr.contains("docs/importing.md"), "{refused:?}");
}
