//! The memory of one agent.

use std::sync::Arc;

use memory_core::ErrorKind;
use memory_hierarchical::{
    Agent, AgentMemory, Counts, DerivesFrom, Direction, Edge, EdgeKind, Episodic, GraphStore as _, Semantic,
    SimilarTo, Supersedes, TransitionedTo, limits,
};
use serde_json::json;

use crate::support::*;

fn memory(world: &World, name: &str) -> AgentMemory {
    AgentMemory::new(world.graphs.clone(), agent(name), world.clock.clone(), world.ids.clone())
}

async fn store(memory: &AgentMemory, ids: &[&str]) {
    for id in ids {
        memory.store_semantic(semantic(id)).await.unwrap();
    }
}

fn replaces(newer: &str, older: &str) -> Supersedes {
    match supersedes(newer, older) {
        Edge::Supersedes(edge) => edge,
        other => panic!("{other:?}"),
    }
}

on_both_stores! {
    async fn an_id_and_a_time_are_filled_in(world) {
        let memory = memory(&world, "ada");
        let node = memory.store_semantic(Semantic::new("seam", "traits decouple")).await.unwrap();
        let event = memory.store_episodic(Episodic::new("reviewed a change", "session")).await.unwrap();
        assert_eq!(node.created_at, "2027-01-15T08:00:00.000Z");
        assert!(!node.memory_id.is_empty() && node.memory_id != event.memory_id);
        assert_eq!(memory.nodes(&[node.memory_id, event.memory_id]).await.unwrap().len(), 2);
        assert_eq!(memory.stats().await.unwrap().counts.semantic_node_count, 1);
    }

    async fn a_field_beyond_its_limit_is_refused_and_nothing_is_stored(world) {
        let memory = memory(&world, "ada");
        let with = |change: fn(&mut Semantic)| {
            let mut node = semantic("a");
            change(&mut node);
            node
        };
        for (node, kind) in [
            (with(|node| node.memory_id = "x".repeat(256)), ErrorKind::TooLarge),
            (with(|node| node.confidence = 1.000_001), ErrorKind::InvalidArgument),
            (with(|node| node.confidence = -0.1), ErrorKind::InvalidArgument),
            (with(|node| node.confidence = f64::NAN), ErrorKind::InvalidArgument),
            (with(|node| node.confidence = f64::INFINITY), ErrorKind::InvalidArgument),
            (with(|node| node.content = "x".repeat(limits::MAX_CONTENT_BYTES + 1)), ErrorKind::TooLarge),
            (with(|node| node.content = " \n".to_owned()), ErrorKind::InvalidArgument),
            (with(|node| node.tags = vec!["x".to_owned(); 65]), ErrorKind::TooLarge),
            (with(|node| node.tags = vec!["x".repeat(256)]), ErrorKind::TooLarge),
            (with(|node| node.metadata = json!("x".repeat(65_536))), ErrorKind::TooLarge),
            (with(|node| node.entity_name = "x".repeat(1_025)), ErrorKind::TooLarge),
            (with(|node| node.concept = "x".repeat(1_025)), ErrorKind::TooLarge),
            (with(|node| node.source_id = "x".repeat(1_025)), ErrorKind::TooLarge),
        ] {
            assert_eq!(memory.store_semantic(node).await.unwrap_err().kind(), kind);
        }
        let event = |change: fn(&mut Episodic)| {
            let mut node = episodic("e");
            change(&mut node);
            node
        };
        for node in [
            event(|node| node.memory_id = "x".repeat(256)),
            event(|node| node.content = "x".repeat(limits::MAX_CONTENT_BYTES + 1)),
            event(|node| node.source_label = "x".repeat(1_025)),
            event(|node| node.tags = vec!["x".to_owned(); 65]),
            event(|node| node.metadata = json!("x".repeat(65_536))),
        ] {
            assert_eq!(memory.store_episodic(node).await.unwrap_err().kind(), ErrorKind::TooLarge);
        }
        // Before a write begins: not even the revision grows.
        let nothing = memory.stats().await.unwrap();
        assert_eq!((nothing.revision, nothing.counts), (0, Counts::default()));
        let largest = Semantic {
            memory_id: "x".repeat(255),
            content: "x".repeat(limits::MAX_CONTENT_BYTES),
            tags: vec!["x".repeat(255); 64],
            ..semantic("a")
        };
        memory.store_semantic(largest).await.unwrap();
    }

    async fn an_edge_beyond_its_limits_is_refused_before_its_ends_are_looked_for(world) {
        let memory = memory(&world, "ada");
        let edges = (similar("a", "b"), derives("a", "e"), supersedes("a", "b"), transitioned("a", "b"));
        let (Edge::SimilarTo(near), Edge::DerivesFrom(drawn), Edge::Supersedes(newer), Edge::TransitionedTo(after)) = edges
        else {
            panic!("{edges:?}");
        };
        for edge in [
            Edge::SimilarTo(SimilarTo { weight: 1.5, ..near.clone() }),
            Edge::DerivesFrom(DerivesFrom { confidence: -f64::EPSILON, ..drawn.clone() }),
        ] {
            assert_eq!(memory.link(edge).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        let long = || "x".repeat(1_025);
        for edge in [
            Edge::SimilarTo(SimilarTo { metadata: json!("x".repeat(65_536)), ..near }),
            Edge::DerivesFrom(DerivesFrom { extraction_method: long(), ..drawn }),
            Edge::Supersedes(Supersedes { reason: long(), ..newer.clone() }),
            Edge::Supersedes(Supersedes { temporal_delta: long(), ..newer }),
            Edge::TransitionedTo(TransitionedTo { from_value: long(), ..after.clone() }),
            Edge::TransitionedTo(TransitionedTo { to_value: long(), ..after.clone() }),
            Edge::TransitionedTo(TransitionedTo { transition_type: long(), ..after }),
        ] {
            assert_eq!(memory.link(edge).await.unwrap_err().kind(), ErrorKind::TooLarge);
        }
        assert_eq!(memory.stats().await.unwrap().revision, 0);
    }

    async fn a_circle_of_superseding_is_refused_at_any_distance(world) {
        let memory = memory(&world, "ada");
        store(&memory, &["a", "b", "c", "d"]).await;
        memory.supersede(replaces("b", "a")).await.unwrap();
        memory.supersede(replaces("c", "b")).await.unwrap();
        memory.supersede(replaces("d", "b")).await.unwrap();
        for (newer, older) in [("a", "a"), ("a", "b"), ("a", "c"), ("b", "d")] {
            let refused = memory.supersede(replaces(newer, older)).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{newer} {older}");
            assert_eq!(refused.details()["source_id"], newer);
        }
        assert_eq!(memory.stats().await.unwrap().counts.supersedes_edge_count, 3);
    }

    async fn neighbours_are_seen_in_either_direction(world) {
        let memory = memory(&world, "ada");
        store(&memory, &["a", "b", "c"]).await;
        memory.store_episodic(episodic("e")).await.unwrap();
        for edge in [similar("a", "b"), similar("c", "a"), derives("a", "e")] {
            memory.link(edge).await.unwrap();
        }
        let ids = |found: &memory_hierarchical::Neighbours| -> Vec<String> {
            found.shown.iter().map(|one| one.node.id().to_owned()).collect()
        };
        let both = memory.neighbours("a", Direction::Both, &EdgeKind::ALL, 10).await.unwrap();
        assert_eq!(ids(&both), ["b", "c", "e"]);
        let out = memory.neighbours("a", Direction::Outgoing, &[EdgeKind::SimilarTo], 10).await.unwrap();
        assert_eq!(ids(&out), ["b"]);
        let one = memory.neighbours("a", Direction::Both, &EdgeKind::ALL, 1).await.unwrap();
        assert_eq!((one.total, one.shown.len()), (3, 1));
        let unknown = memory.neighbours("x", Direction::Both, &EdgeKind::ALL, 1).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
    }

    async fn a_path_is_the_shortest_one_within_its_steps(world) {
        let memory = memory(&world, "ada");
        store(&memory, &["a", "b", "c", "d", "lonely"]).await;
        for (source, target) in [("a", "b"), ("b", "c"), ("c", "d"), ("b", "d"), ("d", "a")] {
            memory.link(similar(source, target)).await.unwrap();
        }
        let path = memory.path("a", "d", Direction::Outgoing, 4).await.unwrap().unwrap();
        assert_eq!(path, [similar("a", "b"), similar("b", "d")]);
        let back = memory.path("a", "d", Direction::Both, 4).await.unwrap().unwrap();
        assert_eq!(back, [similar("d", "a")]);
        assert_eq!(memory.path("a", "a", Direction::Both, 4).await.unwrap(), Some(Vec::new()));
        assert_eq!(memory.path("a", "d", Direction::Outgoing, 1).await.unwrap(), None);
        assert_eq!(memory.path("a", "lonely", Direction::Both, 16).await.unwrap(), None);
        let long = memory.path("a", "d", Direction::Both, 17).await.unwrap_err();
        assert_eq!(long.kind(), ErrorKind::TooLarge);
    }

    async fn a_history_is_told_in_the_order_in_which_memories_replaced_each_other(world) {
        let memory = memory(&world, "ada");
        // Their ids and times suggest otherwise.
        for (id, time) in [("a", "2025-01-03"), ("b", "2025-01-02"), ("c", "2025-01-01"), ("d", "2024-01-01")] {
            let (entity_name, created_at) = ("Zürich 東京".to_owned(), time.to_owned());
            memory.store_semantic(Semantic { entity_name, created_at, ..semantic(id) }).await.unwrap();
        }
        store(&memory, &["other"]).await;
        memory.supersede(replaces("b", "a")).await.unwrap();
        memory.link(transitioned("c", "b")).await.unwrap();
        memory.supersede(replaces("other", "d")).await.unwrap();
        let history = memory.history("Zürich 東京").await.unwrap();
        let order: Vec<&str> = history.iter().map(|entry| entry.memory.memory_id.as_str()).collect();
        assert_eq!(order, ["d", "a", "b", "c"]);
        assert_eq!(history[1].superseded_by, ["b"]);
        assert_eq!(history[0].superseded_by, ["other"]);
        assert_eq!(history[2].from, [supersedes("b", "a")]);
        assert_eq!(history[3].from, [transitioned("c", "b")]);
        assert!(memory.history("nobody").await.unwrap().is_empty());
    }

    async fn a_history_with_a_circle_of_transitions_ends(world) {
        let memory = memory(&world, "ada");
        for id in ["a", "b"] {
            memory.store_semantic(Semantic { entity_name: "door".to_owned(), ..semantic(id) }).await.unwrap();
        }
        memory.link(transitioned("a", "b")).await.unwrap();
        memory.link(transitioned("b", "a")).await.unwrap();
        assert_eq!(memory.history("door").await.unwrap().len(), 2);
    }

    async fn agents_have_any_name_that_is_safe_as_a_files_and_keep_apart(world) {
        let names = ["ada", "Ada", "ada lovelace", "größe", "日本", "\u{1F600}", "e\u{301}", "é", "a%b", "a_b", "a'b\""];
        for name in names {
            let memory = memory(&world, name);
            memory.store_semantic(Semantic { content: name.to_owned(), ..semantic("same") }).await.unwrap();
        }
        for name in names {
            let found = memory(&world, name).nodes(&["same".to_owned()]).await.unwrap();
            assert!(matches!(&found[..], [memory_hierarchical::Node::Semantic(node)] if node.content == name), "{name}");
        }
        let mut sorted: Vec<Agent> = names.iter().map(|name| agent(name)).collect();
        sorted.sort();
        assert_eq!(world.graphs.agents().await.unwrap(), sorted);
    }

    async fn a_store_opened_again_has_what_was_written(world) {
        store(&memory(&world, "ada"), &["a"]).await;
        let again = memory_hierarchical::SqlGraphs::open(world.provider(), &tenant(), world.ids.clone()).await.unwrap();
        let ada = AgentMemory::new(Arc::new(again), agent("ada"), world.clock.clone(), world.ids.clone());
        assert_eq!(ada.stats().await.unwrap().counts.semantic_node_count, 1);
        let other = memory_hierarchical::SqlGraphs::open(world.provider(), &"other".parse().unwrap(), world.ids.clone()).await.unwrap();
        assert!(other.agents().await.unwrap().is_empty());
    }
}

on_both_stores! {
    async fn what_is_there_is_opened_and_read_while_another_writes(world) {
        store(&memory(&world, "ada"), &["a"]).await;
        let tenant = tenant();
        let sessions = || memory_hierarchical::Sessions::open(world.provider(), &tenant, world.clock.clone(), world.ids.clone());
        sessions().await.unwrap();
        let write = world.graphs.write(&agent("ada")).await.unwrap();
        let read = async {
            let graphs = memory_hierarchical::SqlGraphs::open(world.provider(), &tenant, world.ids.clone()).await.unwrap();
            assert_eq!(graphs.agents().await.unwrap(), [agent("ada")]);
            assert!(sessions().await.unwrap().list().await.unwrap().is_empty());
        };
        // Otherwise it would wait for the end of the write.
        tokio::time::timeout(std::time::Duration::from_secs(20), read).await.unwrap();
        drop(write);
    }

    async fn what_is_missing_of_the_tables_is_made_when_they_are_opened(world) {
        store(&memory(&world, "ada"), &["a"]).await;
        let tables = memory_core::host::HostTables::new(world.provider(), &tenant(), memory_hierarchical::SPACE).unwrap();
        tables.plain().exec("DROP TABLE similar_to_edges", &[]).await.unwrap();
        assert!(!tables.has("similar_to_edges").await.unwrap());
        memory_hierarchical::SqlGraphs::open(world.provider(), &tenant(), world.ids.clone()).await.unwrap();
        assert!(tables.has("semantic_memories, similar_to_edges").await.unwrap());
    }
}

#[test]
fn a_malformed_name_of_an_agent_is_refused() {
    let long = "x".repeat(256);
    for name in [
        "",
        ".",
        "..",
        "a/b",
        "a\\b",
        "/a",
        "a..b",
        "../a",
        "a\nb",
        "a\0b",
        " a",
        "a ",
        "\u{7f}",
        "a\u{202e}b",
        "a\u{200b}",
        "a\u{2028}b",
        &long,
    ] {
        assert_eq!(Agent::new(name).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name:?}");
    }
    for name in ["می\u{200c}خواهم", "記憶", "👩\u{200d}🔬"] {
        assert!(Agent::new(name).is_ok(), "{name}");
    }
    assert!(Agent::new("x".repeat(255)).is_ok());
}
