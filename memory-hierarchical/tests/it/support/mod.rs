//! Graphs on each store.

mod stores;

pub(crate) use stores::{Kept, Store};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use memory_core::{Clock, IdGen, Provider, TenantId, Timestamp};
use memory_hierarchical::{
    Agent, DerivesFrom, Edge, Episodic, Semantic, SimilarTo, SqlGraphs, Supersedes, TransitionedTo,
};
use serde_json::json;

/// Runs a test's body on each store.
macro_rules! on_both_stores {
    ($($(#[$doc:meta])* async fn $name:ident($world:ident) $body:block)+) => {
        $(mod $name {
            #[allow(unused_imports, reason = "not every body needs all")]
            use super::*;

            async fn body($world: $crate::support::World) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                body($crate::support::World::on($crate::support::Store::sqlite()).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                if let Some(store) = $crate::support::Store::postgres().await {
                    body($crate::support::World::on(store).await).await;
                }
            }
        })+
    };
}
pub(crate) use on_both_stores;

/// A clock that tests move.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn set(&self, time: &str) {
        self.0.store(time.parse::<Timestamp>().unwrap().as_millis(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis_clamped(self.0.load(Ordering::SeqCst))
    }
}

#[derive(Debug, Default)]
pub(crate) struct TestIds(AtomicU64);

impl IdGen for TestIds {
    fn fresh(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::SeqCst)) + 1
    }
}

/// A tenant's graphs in a store of its own.
pub(crate) struct World {
    pub(crate) graphs: Arc<SqlGraphs>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) ids: Arc<TestIds>,
    pub(crate) store: Kept,
}

pub(crate) fn tenant() -> TenantId {
    "acme".parse().unwrap()
}

impl World {
    pub(crate) async fn on(store: Kept) -> Self {
        let graphs = Arc::new(SqlGraphs::open(Arc::clone(&store.provider), &tenant()).await.unwrap());
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)));
        Self { graphs, clock, ids: Arc::default(), store }
    }

    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.store.provider)
    }
}

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
