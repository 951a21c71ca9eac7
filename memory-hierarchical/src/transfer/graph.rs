//! A whole graph, between a store and a file.

use memory_core::{Error, Result, Retry};
use serde_json::Value;

use crate::model::{
    Agent, Counts, DerivesFrom, Edge, EdgeKind, Episodic, Node, Semantic, SimilarTo, Supersedes,
    TransitionedTo,
};
use crate::rows::{Order, Row, Table, Values};
use crate::store::{GraphStore, each_row};

/// Most bytes of a file that is read or written: 500 MiB.
pub const MAX_BYTES: u64 = 500 << 20;

/// How often to retry reading a graph that others keep writing.
const ATTEMPTS: usize = 5;

/// The whole graph of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// What the agent knows.
    pub semantic: Vec<Semantic>,
    /// What happened.
    pub episodic: Vec<Episodic>,
    /// `SIMILAR_TO` edges.
    pub similar_to: Vec<SimilarTo>,
    /// `DERIVES_FROM` edges.
    pub derives_from: Vec<DerivesFrom>,
    /// `SUPERSEDES` edges.
    pub supersedes: Vec<Supersedes>,
    /// `TRANSITIONED_TO` edges.
    pub transitioned_to: Vec<TransitionedTo>,
}

impl Graph {
    /// The agent's graph at one moment: memories by id, edges by source and target.
    ///
    /// # Errors
    /// `not_found` if the agent has no graph; `unavailable` if it is written so often that no moment of rest is found;
    /// the store's errors.
    pub async fn read(store: &dyn GraphStore, agent: &Agent) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let revision = store.revision(agent).await?;
            if revision == 0 {
                return Err(Error::not_found(format!(
                    "the agent `{agent}` has no graph in this store; check the name"
                )));
            }
            let graph = Self::read_once(store, agent).await?;
            if store.revision(agent).await? == revision {
                return Ok(graph);
            }
        }
        Err(Error::unavailable("the graph is being written all the time; try again later")
            .with_retry(Retry::Now))
    }

    async fn read_once(store: &dyn GraphStore, agent: &Agent) -> Result<Self> {
        let mut graph = Self::default();
        for table in Table::ALL {
            let mut take = |_, row| {
                graph.push_row(row);
                true
            };
            each_row(store, agent, table, Order::Key, &mut take).await?;
        }
        graph.sort_metadata();
        Ok(graph)
    }

    /// Adds an edge.
    pub fn push(&mut self, edge: Edge) {
        match edge {
            Edge::SimilarTo(edge) => self.similar_to.push(edge),
            Edge::DerivesFrom(edge) => self.derives_from.push(edge),
            Edge::Supersedes(edge) => self.supersedes.push(edge),
            Edge::TransitionedTo(edge) => self.transitioned_to.push(edge),
        }
    }

    pub(crate) fn push_row(&mut self, row: Row) {
        match row {
            Row::Node(Node::Semantic(node)) => self.semantic.push(node),
            Row::Node(Node::Episodic(node)) => self.episodic.push(node),
            Row::Edge(edge) => self.push(edge),
        }
    }

    /// The rows of a table, to be written.
    pub(crate) fn values(&self, table: Table) -> Box<dyn Iterator<Item = Result<Values>> + Send + '_> {
        match table {
            Table::Semantic => Box::new(self.semantic.iter().map(Semantic::values)),
            Table::Episodic => Box::new(self.episodic.iter().map(Episodic::values)),
            Table::Edges(kind) => Box::new(self.edges(kind).map(|edge| edge.values())),
        }
    }

    /// The edges of a kind.
    pub fn edges(&self, kind: EdgeKind) -> Box<dyn Iterator<Item = Edge> + Send + '_> {
        match kind {
            EdgeKind::SimilarTo => Box::new(self.similar_to.iter().cloned().map(Edge::SimilarTo)),
            EdgeKind::DerivesFrom => Box::new(self.derives_from.iter().cloned().map(Edge::DerivesFrom)),
            EdgeKind::Supersedes => Box::new(self.supersedes.iter().cloned().map(Edge::Supersedes)),
            EdgeKind::TransitionedTo => {
                Box::new(self.transitioned_to.iter().cloned().map(Edge::TransitionedTo))
            }
        }
    }

    /// How much it holds.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        Counts {
            semantic_node_count: count(self.semantic.len()),
            episodic_node_count: count(self.episodic.len()),
            similar_to_edge_count: count(self.similar_to.len()),
            derives_from_edge_count: count(self.derives_from.len()),
            supersedes_edge_count: count(self.supersedes.len()),
            transitioned_to_edge_count: count(self.transitioned_to.len()),
        }
    }

    /// Sorts the members of every object in the metadata, as the format has them. Without serde_json's `preserve_order` they
    /// are never in another order.
    fn sort_metadata(&mut self) {
        self.semantic.iter_mut().for_each(|node| Value::sort_all_objects(&mut node.metadata));
        self.episodic.iter_mut().for_each(|node| Value::sort_all_objects(&mut node.metadata));
        self.similar_to.iter_mut().for_each(|edge| Value::sort_all_objects(&mut edge.metadata));
    }
}
