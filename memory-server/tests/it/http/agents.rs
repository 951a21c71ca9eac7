//! Shared state and graphs over `/v1`, as agents.

use serde_json::{Value, json};

use super::door::{Answer, Door};
use crate::support::described;
use crate::support::user::has;

const RULES: &str = "shared_space = \"team\"\n[agents.ann]\nshared_state = \"note\"\ngraph = \"add\"\n\
    [agents.chief]\nshared_state = \"authority\"\n[agents.keeper]\nshared_state = \"forget\"\n[audit]\nfile = \"audit.jsonl\"\n";

struct Agents {
    door: Door,
    token: String,
}

impl Agents {
    fn send(&self, token: &str, path: &str, headers: &[(&str, &str)], fields: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [&[("Authorization", bearer.as_str())], headers].concat();
        self.door.request("POST", &format!("/v1/tenants/{path}"), &headers, &fields.to_string())
    }

    /// As an agent of acme, with the tenant's token.
    fn ok(&self, agent: &str, op: &str, fields: &Value) -> Value {
        let answer = self.send(&self.token, &format!("acme/agents/{agent}/{op}"), &[], fields);
        assert_eq!(answer.status, 200, "{op} {fields}: {answer:?}");
        let reply = serde_json::from_str(&answer.body).unwrap();
        described::check(&format!("/v1/tenants/{{tenant}}/agents/{{agent}}/{op}"), &reply);
        reply
    }

    fn refused(&self, token: &str, path: &str, fields: &Value) -> (u16, String) {
        let answer = self.send(token, path, &[], fields);
        (answer.status, answer.code())
    }
}

fn agents() -> Agents {
    let door = Door::open(RULES);
    let token = door.token("ops", &["--tenant", "acme"]);
    Agents { door, token }
}

#[test]
fn agents_note_decide_and_prove_over_v1_as_by_the_tool() {
    let agents = agents();
    let note = |text: &str| agents.ok("ann", "note", &json!({"note": text}));
    for words in ["issue redis_timeout: Redis times out under load", "issue lint: the linter fails"] {
        has(&note(words)["outcomes"][0], json!({"outcome": "committed"}));
    }
    has(
        &agents.ok("chief", "shared", &json!({"bucket": "issues"}))["rows"][1],
        json!({"id": "redis_timeout"}),
    );
    let id = note("the earlier blocker is fixed")["outcomes"][0]["pending_id"].clone();
    let bind = json!({"bind": id, "target": "redis_timeout"});
    assert_eq!(
        agents.refused(&agents.token, "acme/agents/ann/pending", &bind),
        (403, "forbidden".to_owned())
    );
    assert_eq!(agents.ok("chief", "pending", &json!({}))["pending"][0]["id"], id);
    assert_eq!(agents.ok("chief", "pending", &bind)["outcome"], "committed");
    let why = agents.ok("ann", "why", &json!({"bucket": "issues", "id": "redis_timeout"}));
    has(&why["events"][1], json!({"note": "the earlier blocker is fixed"}));
    assert_eq!(why["events"][1]["reviewed_by"]["agent"], "chief");
    assert!(why["events"][1]["reviewed_by"]["run"].as_str().unwrap().ends_with("-v1"));

    let other = note("the other blocker is fixed")["outcomes"][0]["pending_id"].clone();
    let reject = json!({"id": other, "reason": "there is no other"});
    assert_eq!(
        agents.refused(&agents.token, "acme/agents/ann/reject", &reject),
        (403, "scope_denied".to_owned())
    );
    assert_eq!(agents.ok("chief", "reject", &reject)["outcome"], "rejected");

    agents.ok("ann", "note", &json!({"note": "issue disk: the disk is full", "promote": false}));
    assert_eq!(agents.refused(&agents.token, "acme/agents/ann/promote", &json!({})).0, 403);
    has(&agents.ok("chief", "promote", &json!({})), json!({"notes": 1, "committed": 1}));
    let proof = agents.ok("ann", "verify", &json!({}));
    has(&proof, json!({"events": 5}));
    assert_eq!(agents.ok("ann", "verify", &json!({"anchor": proof["anchor"]})), proof);
    let forged = json!({"anchor": {"seq": 2, "hash": "0".repeat(64)}});
    assert_eq!(agents.refused(&agents.token, "acme/agents/ann/verify", &forged).1, "corrupt");
}

#[test]
fn whom_the_policy_and_the_token_let_forgets_over_v1() {
    let agents = agents();
    let secret = agents.ok("ann", "note", &json!({"note": "issue ottilie: Ottilie lost her key"}));
    let row = json!({"bucket": "issues", "id": "ottilie"});
    assert_eq!(
        agents.refused(&agents.token, "acme/agents/chief/forget_shared", &row),
        (403, "scope_denied".to_owned()),
        "authority is not enough"
    );
    let other = agents.door.token("other", &["--tenant", "acme", "--ops", "add,recall"]);
    assert_eq!(
        agents.refused(&other, "acme/agents/keeper/forget_shared", &row),
        (403, "forbidden".to_owned())
    );
    let reads = agents.door.token("reads", &["--tenant", "acme", "--read-only"]);
    assert_eq!(
        agents.refused(&reads, "acme/agents/keeper/forget_shared", &row),
        (403, "read_only".to_owned())
    );

    let trial = agents.ok("keeper", "forget_shared", &json!({"note_id": secret["note_id"], "dry_run": true}));
    let gone = json!([{"bucket": "issues", "id": "ottilie"}]);
    has(&trial, json!({"dry_run": true, "rows": gone, "notes": 1, "events": 1}));
    has(&agents.ok("ann", "shared", &row)["rows"][0], json!({"id": "ottilie"}));
    has(&agents.ok("keeper", "forget_shared", &row), json!({"dry_run": false, "rows": gone}));
    assert_eq!(agents.ok("ann", "shared", &row)["rows"], json!([]));
    assert_eq!(agents.refused(&agents.token, "acme/agents/keeper/forget_shared", &row).1, "not_found");
    has(&agents.ok("ann", "verify", &json!({})), json!({"events": 1, "erased": 1}));
}

#[test]
fn an_agent_has_its_graph_over_v1() {
    let agents = agents();
    for (id, content) in [("d1", "the deploy fails with a timeout"), ("d2", "raise the limit of the proxy")] {
        agents.ok("ann", "remember", &json!({"memory_id": id, "content": content}));
    }
    agents.ok(
        "ann",
        "remember",
        &json!({"memory_id": "e1", "kind": "episodic", "content": "reviewed the deploy"}),
    );
    let relate = |relation: &str| json!({"source_id": "d2", "target_id": "d1", "relation": relation});
    assert_eq!(agents.ok("ann", "relate", &relate("similar_to"))["is_new"], true);
    assert_eq!(
        agents.refused(&agents.token, "acme/agents/ann/relate", &relate("supersedes")).1,
        "scope_denied"
    );
    assert_eq!(
        agents.ok("ann", "recall_graph", &json!({"query": "deploy timeout"}))["hits"][0]["memory"]["memory_id"],
        "d1"
    );
    let beside = agents.ok("ann", "neighbours", &json!({"memory_id": "d1", "direction": "incoming"}));
    assert_eq!((&beside["total"], &beside["neighbours"][0]["node"]["memory_id"]), (&json!(1), &json!("d2")));
    has(
        &agents.ok("ann", "graph_stats", &json!({})),
        json!({"semantic_node_count": 2, "episodic_node_count": 1}),
    );
    assert_eq!(agents.ok("ann", "sessions", &json!({})), json!({"sessions": [], "truncated": false}));
    for (fields, status) in
        [(json!({"memory_id": "none"}), 404), (json!({"id": "d1"}), 400), (json!([]), 400)]
    {
        assert_eq!(
            agents.refused(&agents.token, "acme/agents/ann/neighbours", &fields).0,
            status,
            "{fields}"
        );
    }
    assert_eq!(agents.refused(&agents.token, "acme/agents/ann/forget", &json!({})).0, 404);
}

#[test]
fn who_speaks_for_an_agent_says_the_token_and_what_it_may_the_policy() {
    let agents = agents();
    let [ann, reads, none] = [
        agents.door.token("ann", &["--tenant", "acme", "--agent", "ann"]),
        agents.door.token("reads", &["--tenant", "acme", "--agent", "ann", "--read-only"]),
        agents.door.token("user", &["--tenant", "acme", "--user", "ada"]),
    ];
    let note = json!({"note": "issue a: b"});
    assert_eq!(agents.send(&ann, "acme/agents/ann/note", &[], &note).status, 200);
    for (token, path, code) in [
        (&ann, "acme/agents/chief/note", "scope_denied"),
        (&ann, "globex/agents/ann/note", "scope_denied"),
        (&reads, "acme/agents/ann/note", "read_only"),
        (&none, "acme/agents/ann/note", "scope_denied"),
        (&agents.token, "globex/agents/ann/note", "scope_denied"),
        // An agent without a section.
        (&agents.token, "acme/agents/bob/note", "scope_denied"),
    ] {
        assert_eq!(agents.refused(token, path, &note), (403, code.to_owned()), "{path}");
    }
    let shared = json!({"bucket": "issues"});
    assert_eq!(agents.send(&reads, "acme/agents/ann/shared", &[], &shared).status, 200);

    // A note sent twice is one note, for the same agent.
    let key = [("Idempotency-Key", "n-1")];
    let twice = json!({"note": "issue once: noted once"});
    let first = agents.send(&agents.token, "acme/agents/ann/note", &key, &twice);
    let again = agents.send(&agents.token, "acme/agents/ann/note", &key, &twice);
    assert_eq!((&first.body, again.header("idempotency-replayed")), (&again.body, Some("true")));
    assert_eq!(agents.send(&agents.token, "acme/agents/chief/note", &key, &twice).status, 409);

    let mut door = agents.door;
    door.signal("TERM");
    assert!(door.ended().0.success());
    let text = std::fs::read_to_string(door.user.home().join("audit.jsonl")).unwrap();
    assert!(!text.contains("noted once"), "{text}");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    has(
        &records[0],
        json!({"kind": "request", "op": "note", "tenant": "acme", "scope_id": "ann", "outcome": "ok"}),
    );
    has(&records[1], json!({"op": "note", "scope_id": "chief", "outcome": "scope_denied"}));
}
