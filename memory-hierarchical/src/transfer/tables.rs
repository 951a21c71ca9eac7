//! Something about each of the six tables.

use serde::Serialize;

use crate::model::{Counts, EdgeKind};

/// One value for each table, named as the arrays of a JSON file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tables<T> {
    /// Of the semantic memories.
    pub semantic_nodes: T,
    /// Of the episodic memories.
    pub episodic_nodes: T,
    /// Of the `SIMILAR_TO` edges.
    pub similar_to_edges: T,
    /// Of the `DERIVES_FROM` edges.
    pub derives_from_edges: T,
    /// Of the `SUPERSEDES` edges.
    pub supersedes_edges: T,
    /// Of the `TRANSITIONED_TO` edges.
    pub transitioned_to_edges: T,
}

impl<T> Tables<T> {
    /// That of the edges of a kind.
    pub const fn of_edges(&mut self, kind: EdgeKind) -> &mut T {
        match kind {
            EdgeKind::SimilarTo => &mut self.similar_to_edges,
            EdgeKind::DerivesFrom => &mut self.derives_from_edges,
            EdgeKind::Supersedes => &mut self.supersedes_edges,
            EdgeKind::TransitionedTo => &mut self.transitioned_to_edges,
        }
    }

    /// Each with the name of its table, in the order of the format.
    pub const fn named(&self) -> [(&'static str, &T); 6] {
        [
            ("semantic_nodes", &self.semantic_nodes),
            ("episodic_nodes", &self.episodic_nodes),
            ("similar_to_edges", &self.similar_to_edges),
            ("derives_from_edges", &self.derives_from_edges),
            ("supersedes_edges", &self.supersedes_edges),
            ("transitioned_to_edges", &self.transitioned_to_edges),
        ]
    }
}

impl From<Counts> for Tables<u64> {
    fn from(counts: Counts) -> Self {
        Self {
            semantic_nodes: counts.semantic_node_count,
            episodic_nodes: counts.episodic_node_count,
            similar_to_edges: counts.similar_to_edge_count,
            derives_from_edges: counts.derives_from_edge_count,
            supersedes_edges: counts.supersedes_edge_count,
            transitioned_to_edges: counts.transitioned_to_edge_count,
        }
    }
}

/// What became of the rows of a table; together they are all that the file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Stored.
    pub imported: u64,
    /// Left alone: the graph, or the file before it, has one with that id (or of that kind between these two).
    pub skipped: u64,
}

/// The name of the array of edges of a kind.
pub(super) const fn edge_table(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::SimilarTo => "similar_to_edges",
        EdgeKind::DerivesFrom => "derives_from_edges",
        EdgeKind::Supersedes => "supersedes_edges",
        EdgeKind::TransitionedTo => "transitioned_to_edges",
    }
}
