//! Shared state of two agents, each with its own connection.

use serde_json::json;

use crate::serve::client::Place;
use crate::support::service::Service;
use crate::support::user::has;

/// A vague note waits, an authority decides, and the decision outlives the connections.
fn an_issue_goes_its_way(more: &str) {
    let place = Place::new();
    let config = format!(
        "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\nshared_space = \"team\"\n\
         [agents.ann]\nshared_state = \"note\"\n[agents.chief]\nshared_state = \"authority\"\n{more}"
    );
    place.write("memory.toml", &config);
    let mut ann = place.connect_with(&["--agent", "ann"]);
    let mut chief = place.connect_with(&["--agent", "chief"]);
    for words in ["issue redis_timeout: Redis times out under load", "issue lint: the linter fails"] {
        has(&ann.ok(json!({"op": "note", "note": words}))["outcomes"][0], json!({"outcome": "committed"}));
    }
    assert_eq!(chief.ok(json!({"op": "shared", "bucket": "issues"}))["rows"][1]["id"], "redis_timeout");
    let vague = ann.ok(json!({"op": "note", "note": "the earlier blocker is fixed"}));
    has(&vague["outcomes"][0], json!({"outcome": "deferred"}));
    let id = &vague["outcomes"][0]["pending_id"];
    let bind = json!({"op": "pending", "bind": id, "target": "redis_timeout"});
    assert_eq!(ann.refused(bind.clone())["code"], "forbidden");
    assert_eq!(&chief.ok(json!({"op": "pending"}))["pending"][0]["id"], id);
    assert_eq!(chief.ok(bind)["outcome"], "committed");
    for ended in [ann.close(), chief.close()] {
        assert!(ended.status.success(), "{ended:?}");
    }

    let mut later = place.connect_with(&["--agent", "ann"]);
    let row = later.ok(json!({"op": "shared", "bucket": "issues", "id": "redis_timeout"}));
    assert_eq!(row["rows"][0]["status"], "resolved", "{row}");
    let why = later.ok(json!({"op": "why", "bucket": "issues", "id": "redis_timeout"}));
    has(&why["events"][1], json!({"note": "the earlier blocker is fixed", "reason": "reviewed"}));
    assert_eq!(why["events"][1]["reviewed_by"]["agent"], "chief");
    // An agent without a section, and a tenant without a space.
    let mut stranger = place.connect_with(&["--agent", "stranger"]);
    assert_eq!(stranger.refused(json!({"op": "shared", "bucket": "issues"}))["code"], "scope_denied");
    let mut rival = place.connect_with(&["--agent", "ann", "--tenant", "rival"]);
    assert_eq!(rival.ok(json!({"op": "shared", "bucket": "issues"}))["rows"], json!([]));
}

#[test]
fn an_issue_is_noted_by_one_agent_and_ended_by_the_decision_of_another() {
    an_issue_goes_its_way("");
}

#[test]
fn an_agent_that_may_forget_does_so_over_mcp_and_another_is_not_even_shown_how() {
    let place = Place::new();
    place.write(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:memory.db\"\n[agents.chief]\nshared_state = \"authority\"\n\
         [agents.keeper]\nshared_state = \"forget\"\n",
    );
    let mut chief = place.connect_with(&["--agent", "chief"]);
    let mut keeper = place.connect_with(&["--agent", "keeper"]);
    let noted = chief.ok(json!({"op": "note", "note": "issue ottilie: Ottilie lost her key"}));
    let forget = json!({"op": "forget_shared", "note_id": noted["note_id"]});
    assert_eq!(chief.refused(forget.clone())["code"], "scope_denied");
    assert!(!chief.ok(json!({"op": "describe"})).to_string().contains("forget_shared"));
    has(&keeper.ok(forget.clone()), json!({"rows": [{"bucket": "issues", "id": "ottilie"}], "notes": 1}));
    assert_eq!(keeper.refused(forget)["code"], "not_found");
    assert_eq!(chief.ok(json!({"op": "shared", "bucket": "issues"}))["rows"], json!([]));
}

#[test]
fn worker_processes_serve_shared_state_too() {
    an_issue_goes_its_way("[sql]\nenabled = true\nworkers = 1\n");
}

#[test]
fn what_an_agent_may_do_with_shared_state_is_one_of_four_words() {
    let place = Place::new();
    place.write(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:memory.db\"\n[agents.ann]\nshared_state = \"write\"\n",
    );
    let refused = place.command(&["serve", "--agent", "ann"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    for word in ["line 4", "`read`", "`note`", "`authority`", "`forget`"] {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
}

#[test]
fn a_language_model_reads_the_notes_where_the_configuration_says_so() {
    let service = Service::of(|_| {
        let write =
            json!({"bucket": "issues", "operation": "upsert", "payload": {"title": "the disk is full"}});
        let content = json!({"decision": "accept", "writes": [write], "reason": ""}).to_string();
        let message = json!({"role": "assistant", "content": content});
        (200, json!({"choices": [{"finish_reason": "stop", "message": message}]}))
    });
    let (place, address) = (Place::new(), service.address());
    place.write(
        "memory.toml",
        &format!(
            "[backends.main]\nurl = \"sqlite:memory.db\"\n[agents.ann]\nshared_state = \"note\"\n\
             [models.chat]\nbase_url = \"http://{address}/v1\"\nmodel = \"small\"\n[egress]\nallow = [\"{address}\"]\n\
             [governed]\ninterpreter = \"model\"\n"
        ),
    );
    let mut ann = place.connect_with(&["--agent", "ann"]);
    let noted = ann.ok(json!({"op": "note", "note": "no space is left on the build machine"}));
    has(&noted["outcomes"][0], json!({"outcome": "committed"}));
    assert_eq!(
        ann.ok(json!({"op": "shared", "bucket": "issues"}))["rows"][0]["fields"]["title"],
        "the disk is full"
    );
    assert_eq!(service.asked().len(), 1);
}
