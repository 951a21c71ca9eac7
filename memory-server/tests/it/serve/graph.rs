//! Graphs of agents over MCP, each with its own connection.

use serde_json::json;

use crate::serve::client::{Client, Place};
use crate::support::user::has;

/// The operations that a client is shown, except those that everybody has.
fn ops(client: &mut Client) -> Vec<String> {
    let listed = client.request("tools/list", json!({}));
    let ops = &listed["result"]["tools"][0]["inputSchema"]["properties"]["op"]["enum"];
    let ops = ops.as_array().unwrap().iter().map(|op| op.as_str().unwrap().to_owned());
    ops.filter(|op| !["list_scopes", "describe"].contains(&op.as_str())).collect()
}

#[test]
fn an_agent_keeps_a_graph_of_its_own_as_far_as_the_operator_lets_it() {
    let place = Place::new();
    place.write(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:memory.db\"\n[agents.ann]\ngraph = \"supersede\"\n\
         [agents.bob]\ngraph = \"add\"\n[agents.cat]\ngraph = \"read\"\n",
    );
    let mut ann = place.connect_with(&["--agent", "ann"]);
    let mut bob = place.connect_with(&["--agent", "bob"]);
    assert_eq!(ops(&mut ann), ["remember", "relate", "recall_graph"]);
    for (id, content) in [("old", "the proxy allows 30 seconds"), ("new", "the proxy allows 90 seconds")] {
        let kept = ann.ok(json!({"op": "remember", "content": content, "memory_id": id}));
        has(&kept, json!({"memory_id": id}));
    }
    let replaces = json!({"op": "relate", "source_id": "new", "relation": "supersedes", "target_id": "old"});
    assert_eq!(ann.ok(replaces.clone())["is_new"], true);
    let recall = json!({"op": "recall_graph", "query": "proxy seconds"});
    assert_eq!(bob.ok(recall.clone())["hits"], json!([]), "another agent's graph");
    assert_eq!(bob.refused(replaces)["code"], "scope_denied");
    assert!(ann.close().status.success());

    let mut later = place.connect_with(&["--agent", "ann"]);
    let found = later.ok(recall.clone());
    for (at, id, superseded) in [(0, "new", false), (1, "old", true)] {
        has(&found["hits"][at], json!({"superseded": superseded}));
        has(&found["hits"][at]["memory"], json!({"memory_id": id}));
    }
    let mut reader = place.connect_with(&["--agent", "cat"]);
    assert_eq!(ops(&mut reader), ["recall_graph"]);
    assert_eq!(reader.refused(json!({"op": "remember", "content": "x"}))["code"], "scope_denied");
    let mut stranger = place.connect_with(&["--agent", "stranger"]);
    assert_eq!(ops(&mut stranger), Vec::<String>::new());
    assert_eq!(stranger.refused(recall)["code"], "scope_denied");
}

#[test]
fn what_an_agent_may_do_with_its_graph_is_one_of_three_words() {
    let place = Place::new();
    place.write(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:memory.db\"\n[agents.ann]\ngraph = \"write\"\n",
    );
    let refused = place.command(&["serve", "--agent", "ann"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    for word in ["line 4", "`read`", "`add`", "`supersede`"] {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
}
