//! The operations on an agent's graph, on each store that serves them.

use std::sync::Arc;

use memory::{GraphAccess, Memory, MemoryTool, Policy, RunContext, ScopeKind};
use serde_json::{Map, Value, json};

use super::{code, ok, refused};

fn tool_of(memory: &Memory, tenant: &str, agent: &str, access: GraphAccess) -> MemoryTool {
    let run = RunContext::new(tenant.parse().unwrap(), agent.parse().unwrap(), "run-1".parse().unwrap());
    MemoryTool::new(memory.clone(), Policy::default().with_graph(access), run).unwrap()
}

fn tool(memory: &Memory, agent: &str, access: GraphAccess) -> MemoryTool {
    tool_of(memory, "acme", agent, access)
}

async fn knows(tool: &MemoryTool, id: &str, content: &str) {
    let known = json!({"op": "remember", "content": content, "memory_id": id});
    assert_eq!(ok(tool, &known.to_string()).await["memory_id"], id);
}

async fn relates(tool: &MemoryTool, source: &str, relation: &str, target: &str) -> Map<String, Value> {
    let edge = json!({"op": "relate", "source_id": source, "relation": relation, "target_id": target});
    ok(tool, &edge.to_string()).await
}

/// The ids found, and whether each is superseded.
async fn recalled(tool: &MemoryTool, query: &str) -> Vec<(String, bool)> {
    let found = ok(tool, &json!({"op": "recall_graph", "query": query}).to_string()).await;
    let hit = |hit: &Value| {
        (hit["memory"]["memory_id"].as_str().unwrap().to_owned(), hit["superseded"].as_bool().unwrap())
    };
    found["hits"].as_array().unwrap().iter().map(hit).collect()
}

on_both_stores! {
    async fn what_is_remembered_and_related_is_recalled_along_edges(memory) {
        let ada = tool(&memory, "ada", GraphAccess::Supersede);
        knows(&ada, "old", "the proxy allows 30 seconds").await;
        knows(&ada, "new", "the limit was raised").await;
        let event = r#"{"op":"remember","kind":"episodic","content":"changed it on Monday","source":"session","memory_id":"e"}"#;
        ok(&ada, event).await;
        assert_eq!(relates(&ada, "new", "supersedes", "old").await, *json!({"is_new": true}).as_object().unwrap());
        assert_eq!(relates(&ada, "new", "supersedes", "old").await["is_new"], false);
        relates(&ada, "new", "derives_from", "e").await;
        let found: Vec<(String, bool)> =
            [("new", false), ("e", false), ("old", true)].map(|(id, is)| (id.to_owned(), is)).into();
        assert_eq!(recalled(&ada, "proxy seconds").await, found, "the superseded one last, though its words match");
        let hits = ok(&ada, r#"{"op":"recall_graph","query":"proxy","steps":0}"#).await["hits"].clone();
        assert_eq!(hits.as_array().unwrap().len(), 1);
        assert_eq!((hits[0]["score"].as_f64().unwrap() > 0.0, hits[0].get("path")), (true, None));
        // Another tool of the agent, such as that of its next run.
        assert_eq!(recalled(&tool(&memory, "ada", GraphAccess::Read), "proxy").await, found);
    }

    async fn a_graph_is_that_of_the_caller_and_no_call_names_another(memory) {
        let ada = tool(&memory, "ada", GraphAccess::Supersede);
        knows(&ada, "a", "the proxy allows 30 seconds").await;
        for other in [tool(&memory, "bob", GraphAccess::Supersede), tool_of(&memory, "rival", "ada", GraphAccess::Supersede)] {
            assert_eq!(recalled(&other, "proxy").await, []);
            knows(&other, "a", "the proxy is elsewhere").await;
            assert_eq!(recalled(&other, "30 seconds").await, []);
            knows(&other, "b", "another").await;
            let edge = json!({"op": "relate", "source_id": "b", "relation": "similar_to", "target_id": "a"});
            assert_eq!(ok(&other, &edge.to_string()).await["is_new"], true, "to its own `a`");
        }
        assert_eq!(recalled(&ada, "proxy").await, [("a".to_owned(), false)]);
        for field in ["agent", "agent_id", "tenant", "user", "run", "scope", "created_at", "metadata"] {
            let (code, message, _) = refused(&ada, &format!(r#"{{"op":"recall_graph","query":"proxy","{field}":"bob"}}"#)).await;
            assert_eq!(code, "invalid_argument");
            assert!(message.contains("unknown field"), "{message}");
        }
        let (code, message, _) = refused(&tool(&memory, "team/bot", GraphAccess::Read), r#"{"op":"recall_graph","query":"x"}"#).await;
        assert_eq!(code, "invalid_argument");
        assert!(message.contains("this agent can have no graph"), "{message}");
    }

    async fn the_policy_grants_each_operation_or_it_is_neither_shown_nor_run(memory) {
        let calls = [
            ("remember", r#"{"op":"remember","content":"x"}"#),
            ("relate", r#"{"op":"relate","source_id":"a","relation":"similar_to","target_id":"b"}"#),
            ("recall_graph", r#"{"op":"recall_graph","query":"x"}"#),
        ];
        let denied = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
        let run = RunContext::new("acme".parse().unwrap(), "ada".parse().unwrap(), "run-1".parse().unwrap());
        let none = MemoryTool::new(memory.clone(), denied, run).unwrap();
        for (name, input) in calls {
            assert_eq!(code(&none, input).await, "scope_denied", "{name}");
            assert!(!none.description().contains(&format!("- {name}(")), "{name}");
        }
        assert!(none.schema()["properties"].get("relation").is_none());
        assert!(ok(&none, r#"{"op":"describe"}"#).await.get("graph").is_none());

        let reader = tool(&memory, "ada", GraphAccess::Read);
        let (refusal, message, _) = refused(&reader, calls[0].1).await;
        assert_eq!(refusal, "scope_denied");
        assert!(message.contains("only recall from your graph"), "{message}");
        assert_eq!(ok(&reader, r#"{"op":"describe"}"#).await["graph"], "read");
        assert!(reader.description().contains("- recall_graph(query, steps?, top_k?): "), "{}", reader.description());
        assert!(reader.schema()["properties"].get("content").is_none());

        let adds = tool(&memory, "ada", GraphAccess::Add);
        knows(&adds, "a", "one").await;
        knows(&adds, "b", "two").await;
        let edge = r#"{"op":"relate","source_id":"a","relation":"supersedes","target_id":"b"}"#;
        let (refusal, message, details) = refused(&adds, edge).await;
        assert_eq!((refusal.as_str(), &details["relation"]), ("scope_denied", &json!("supersedes")), "{message}");
        relates(&adds, "a", "transitioned_to", "b").await;
        relates(&tool(&memory, "ada", GraphAccess::Supersede), "a", "supersedes", "b").await;
    }

    async fn bad_input_is_refused_and_changes_nothing(memory) {
        let ada = tool(&memory, "ada", GraphAccess::Supersede);
        knows(&ada, "a", "one").await;
        knows(&ada, "b", "two").await;
        relates(&ada, "a", "supersedes", "b").await;
        for (bad, expected) in [
            (json!({"op": "remember"}), "invalid_argument"),
            (json!({"op": "remember", "content": 7}), "invalid_argument"),
            (json!({"op": "remember", "content": "x", "kind": "procedural"}), "invalid_argument"),
            (json!({"op": "remember", "content": "x", "confidence": 42}), "invalid_argument"),
            (json!({"op": "remember", "content": "x", "kind": "episodic", "confidence": 0.5}), "invalid_argument"),
            (json!({"op": "remember", "content": "a\u{0}b"}), "invalid_argument"),
            (json!({"op": "remember", "content": "x", "memory_id": "a"}), "conflict"),
            (json!({"op": "remember", "content": "x", "memory_id": "i".repeat(256)}), "too_large"),
            (json!({"op": "remember", "content": "x".repeat((1 << 20) + 1)}), "too_large"),
            (json!({"op": "remember", "content": "x", "tags": vec!["t"; 65]}), "too_large"),
            (json!({"op": "relate", "source_id": "a", "relation": "likes", "target_id": "b"}), "invalid_argument"),
            (json!({"op": "relate", "source_id": "a", "relation": "similar_to", "target_id": "b", "weight": -1}), "invalid_argument"),
            (json!({"op": "relate", "source_id": "a", "relation": "similar_to", "target_id": "c"}), "not_found"),
            (json!({"op": "relate", "source_id": "a", "relation": "derives_from", "target_id": "b"}), "not_found"),
            (json!({"op": "relate", "source_id": "b", "relation": "supersedes", "target_id": "a"}), "conflict"),
            (json!({"op": "relate", "source_id": "a", "relation": "supersedes", "target_id": "a"}), "conflict"),
            (json!({"op": "recall_graph"}), "invalid_argument"),
            (json!({"op": "recall_graph", "query": "x", "top_k": 0}), "invalid_argument"),
            (json!({"op": "recall_graph", "query": "x", "steps": 5}), "too_large"),
            (json!({"op": "recall_graph", "query": "x", "steps": -1}), "invalid_argument"),
        ] {
            let input = bad.to_string();
            assert_eq!(code(&ada, &input).await, expected, "{}", input.chars().take(200).collect::<String>());
        }
        let graphs = memory::hierarchical::open(&memory, &"acme".parse().unwrap()).await.unwrap();
        let agent = memory::hierarchical::Agent::new("ada").unwrap();
        let stats = memory::hierarchical::memory_of(graphs, agent).stats().await.unwrap();
        assert_eq!((stats.counts.semantic_node_count, stats.counts.supersedes_edge_count), (2, 1));
    }

    async fn answers_stay_within_rows_and_bytes(memory) {
        let run = RunContext::new("acme".parse().unwrap(), "ada".parse().unwrap(), "run-1".parse().unwrap());
        let policy = Policy::default().with_graph(GraphAccess::Add).with_max_rows(2).with_max_answer_bytes(16 << 10);
        let ada = MemoryTool::new(memory.clone(), policy, run).unwrap();
        for id in ["a", "b", "c"] {
            knows(&ada, id, &format!("short {id}")).await;
        }
        knows(&ada, "long", &"word ".repeat(10_000)).await;
        let few = ok(&ada, r#"{"op":"recall_graph","query":"short"}"#).await;
        assert_eq!((few["hits"].as_array().unwrap().len(), &few["truncated"]), (2, &json!(true)));
        let long = ok(&ada, r#"{"op":"recall_graph","query":"word"}"#).await;
        assert_eq!(long["hits"][0]["memory_id"], "long");
        assert!(long["hits"][0]["omitted_bytes"].as_u64().unwrap() > 50_000, "{long:?}");
    }
}

#[tokio::test]
async fn a_store_without_tables_of_the_host_refuses_and_says_what_serves_them() {
    let fake = Memory::new(Arc::<super::fake::Fake>::default()).unwrap();
    let tool = tool(&fake, "ada", GraphAccess::Supersede);
    let (code, message, details) = refused(&tool, r#"{"op":"recall_graph","query":"x"}"#).await;
    assert_eq!((code.as_str(), &details["provider"]), ("capability_unsupported", &json!(fake.name())));
    assert!(message.contains("such as sqlite, or postgres with `sql.url`"), "{message}");
    assert!(!tool.description().contains("- recall_graph("));
}
