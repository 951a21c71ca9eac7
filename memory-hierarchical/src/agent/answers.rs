//! What an agent's memory answers.

use serde::Serialize;

use crate::model::{Counts, Edge, Node, Semantic};

/// A memory beside another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbour {
    /// The edge between them.
    pub edge: Edge,
    /// The memory at its other end.
    pub node: Node,
}

/// The memories beside another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbours {
    /// How many edges there are, shown or not.
    pub total: usize,
    /// By kind, source and target.
    pub shown: Vec<Neighbour>,
}

/// A step in the history of an entity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryEntry {
    /// What was known.
    pub memory: Semantic,
    /// The edges to the older memories of the entity that it follows from.
    pub from: Vec<Edge>,
    /// The memories that have superseded it.
    pub superseded_by: Vec<String>,
}

/// How much an agent remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Memories and edges.
    #[serde(flatten)]
    pub counts: Counts,
    /// The graph's revision: it grows with every write.
    pub revision: u64,
}
