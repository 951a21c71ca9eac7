//! Who gets in.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::door::{Door, INITIALIZE, RULES, get, set};
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
    // Behind a proxy the name is its own matter, and metrics need a token.
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
