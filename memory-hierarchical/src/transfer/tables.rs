//! Something about each of the six tables.

use serde::Serialize;

use crate::model::{Counts, EdgeKind};
use crate::rows::Table;

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
    /// That of a table.
    pub const fn of(&mut self, table: Table) -> &mut T {
        match table {
            Table::Semantic => &mut self.semantic_nodes,
            Table::Episodic => &mut self.episodic_nodes,
            Table::Edges(EdgeKind::SimilarTo) => &mut self.similar_to_edges,
            Table::Edges(EdgeKind::DerivesFrom) => &mut self.derives_from_edges,
            Table::Edges(EdgeKind::Supersedes) => &mut self.supersedes_edges,
            Table::Edges(EdgeKind::TransitionedTo) => &mut self.transitioned_to_edges,
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
    /// Left alone: the graph, or the file before it, has the same (or an edge of that kind between these two).
    pub skipped: u64,
    /// Errors: when merging, memories whose ids the graph uses for others. Any other fault refuses the whole file.
    pub errors: u64,
}
