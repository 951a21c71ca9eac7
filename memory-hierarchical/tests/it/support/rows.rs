//! Memories and edges.

use memory_hierarchical::{
    Agent, DerivesFrom, Edge, Episodic, Semantic, SimilarTo, Supersedes, TransitionedTo,
};
use serde_json::json;

pub(crate) fn agent(name: &str) -> Agent {
    Agent::new(name).unwrap()
}

pub(crate) fn semantic(id: &str) -> Semantic {
    Semantic {
        memory_id: id.to_owned(),
        concept: format!("concept of {id}"),
        content: format!("what is known as {id}"),
        confidence: 0.1 + 0.2,
        source_id: String::new(),
        tags: vec!["a".to_owned(), "ü".to_owned()],
        metadata: json!({ "turn": 5, "share": 0.1, "deep": [null, true, "x"] }),
        created_at: "1741872000".to_owned(),
        entity_name: String::new(),
    }
}

pub(crate) fn episodic(id: &str) -> Episodic {
    Episodic {
        memory_id: id.to_owned(),
        content: format!("{id} happened"),
        source_label: "session".to_owned(),
        tags: Vec::new(),
        metadata: json!({}),
        created_at: "2025-03-13T13:20:00+00:00".to_owned(),
    }
}

pub(crate) fn similar(source: &str, target: &str) -> Edge {
    let (source_id, target_id) = (source.to_owned(), target.to_owned());
    Edge::SimilarTo(SimilarTo { source_id, target_id, weight: 0.7, metadata: json!({}) })
}

pub(crate) fn derives(source: &str, target: &str) -> Edge {
    let (source_id, target_id) = (source.to_owned(), target.to_owned());
    let extraction_method = "llm-extraction".to_owned();
    Edge::DerivesFrom(DerivesFrom { source_id, target_id, extraction_method, confidence: 1.0 })
}

pub(crate) fn supersedes(source: &str, target: &str) -> Edge {
    let (source_id, target_id) = (source.to_owned(), target.to_owned());
    let (reason, temporal_delta) = ("newer".to_owned(), "1 day".to_owned());
    Edge::Supersedes(Supersedes { source_id, target_id, reason, temporal_delta })
}

pub(crate) fn transitioned(source: &str, target: &str) -> Edge {
    Edge::TransitionedTo(TransitionedTo {
        source_id: source.to_owned(),
        target_id: target.to_owned(),
        from_value: "open".to_owned(),
        to_value: "closed".to_owned(),
        turn: -9_007_199_254_740_993,
        transition_type: "status".to_owned(),
    })
}
