//! The graphs and sessions of a tenant for the cases about them.

use std::sync::Arc;

use memory_core::{Clock, IdGen, TenantId};
use memory_hierarchical::transfer::{Graph, Imported, Mode, import};
use memory_hierarchical::{
    Agent, AgentMemory, DEFAULT_MEMORY_BYTES, DerivesFrom, Edge, Episodic, GraphHit, GraphRecall, GraphStore,
    RecallOptions, Semantic, Sessions, SimilarTo, Supersedes, TransitionedTo,
};
use serde_json::json;

use crate::check::CaseResult;
use crate::cx::Cx;

/// The graphs and sessions of a tenant.
pub(crate) struct Graphs {
    pub(crate) store: Arc<dyn GraphStore>,
    pub(crate) recall: GraphRecall,
    pub(crate) sessions: Sessions,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
}

impl Cx {
    /// The graphs of the case's tenant; another handle at every call.
    pub(crate) async fn graphs(&self) -> CaseResult<Graphs> {
        self.graphs_of(&self.tenant()).await
    }

    /// As [`Cx::graphs`], of that tenant.
    pub(crate) async fn graphs_of(&self, tenant: &TenantId) -> CaseResult<Graphs> {
        let (clock, ids) = self.store().time_and_ids();
        let (clock, ids): (Arc<dyn Clock>, Arc<dyn IdGen>) = (clock, ids);
        let provider = self.store().shared_provider();
        let store =
            self.store().harness().open_graphs(Arc::clone(&provider), tenant, Arc::clone(&ids)).await?;
        let sessions = Sessions::open(provider, tenant, Arc::clone(&clock), Arc::clone(&ids)).await?;
        let recall = GraphRecall::new(Arc::clone(&store), DEFAULT_MEMORY_BYTES);
        Ok(Graphs { store, recall, sessions, clock, ids })
    }
}

impl Graphs {
    /// The memory of that agent.
    pub(crate) fn of(&self, agent: &Agent) -> AgentMemory {
        AgentMemory::new(
            Arc::clone(&self.store),
            agent.clone(),
            Arc::clone(&self.clock),
            Arc::clone(&self.ids),
        )
    }

    /// What a recall finds.
    pub(crate) async fn find(&self, agent: &Agent, query: &str) -> CaseResult<Vec<GraphHit>> {
        Ok(self.recall.recall(agent, query, &RecallOptions::default()).await?.hits)
    }

    /// The ids of what a recall finds.
    pub(crate) async fn found(&self, agent: &Agent, query: &str) -> CaseResult<Vec<String>> {
        Ok(self.find(agent, query).await?.iter().map(|hit| hit.node.id().to_owned()).collect())
    }

    /// The whole graph, with the metadata of its edges.
    pub(crate) async fn whole(&self, agent: &Agent) -> CaseResult<Graph> {
        Ok(Graph::read(&*self.store, agent).await?)
    }

    /// Imports a graph.
    pub(crate) async fn import(
        &self,
        agent: &Agent,
        graph: &Graph,
        mode: Mode,
    ) -> memory_core::Result<Imported> {
        import(&*self.store, agent, graph.clone(), mode).await
    }
}

/// The agent of that name.
pub(crate) fn agent(name: &str) -> CaseResult<Agent> {
    Ok(Agent::new(name)?)
}

/// Knowledge.
pub(crate) fn known(id: &str, content: &str) -> Semantic {
    Semantic {
        memory_id: id.to_owned(),
        created_at: "2026-01-31T08:30:00Z".to_owned(),
        ..Semantic::new("", content)
    }
}

/// An event.
pub(crate) fn event(id: &str, content: &str) -> Episodic {
    Episodic {
        memory_id: id.to_owned(),
        created_at: "2026-01-31T08:30:00Z".to_owned(),
        ..Episodic::new(content, "session")
    }
}

/// A resemblance.
pub(crate) fn similar(source: &str, target: &str, weight: f64) -> Edge {
    let (source_id, target_id) = (source.to_owned(), target.to_owned());
    Edge::SimilarTo(SimilarTo { source_id, target_id, weight, metadata: json!({ "by": ["words", 2] }) })
}

/// An origin.
pub(crate) fn derived(source: &str, target: &str, confidence: f64) -> Edge {
    let (source_id, target_id) = (source.to_owned(), target.to_owned());
    Edge::DerivesFrom(DerivesFrom { source_id, target_id, extraction_method: "model".to_owned(), confidence })
}

/// A replacement.
pub(crate) fn supersedes(source: &str, target: &str) -> Edge {
    let (source_id, target_id) = (source.to_owned(), target.to_owned());
    Edge::Supersedes(Supersedes {
        source_id,
        target_id,
        reason: "measured again".to_owned(),
        temporal_delta: "2 days".to_owned(),
    })
}

/// A change of a value.
pub(crate) fn changed(source: &str, target: &str) -> Edge {
    let (source_id, target_id) = (source.to_owned(), target.to_owned());
    Edge::TransitionedTo(TransitionedTo {
        source_id,
        target_id,
        from_value: "30".to_owned(),
        to_value: "90".to_owned(),
        turn: -7,
        transition_type: "config".to_owned(),
    })
}

/// A graph with two memories of knowledge, an event and an edge of every kind.
pub(crate) fn small() -> Graph {
    let mut graph = Graph {
        semantic: vec![known("a", "the proxy allows 90 seconds"), known("b", "the proxy allows 30 seconds")],
        episodic: vec![event("e", "raised the limit")],
        ..Graph::default()
    };
    for edge in [similar("a", "b", 0.25), derived("a", "e", 0.5), supersedes("a", "b"), changed("a", "b")] {
        graph.push(edge);
    }
    graph
}
