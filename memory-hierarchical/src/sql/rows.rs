//! The tables of nodes and edges: their columns, and rows as values and back.

use memory_core::Result;
use memory_core::host::{Cells, int, text};
use memory_core::sql::SqlValue;
use memory_core::{Error, ErrorKind};
use serde::Serialize;

use crate::model::{DerivesFrom, Edge, EdgeKind, Episodic, Semantic, SimilarTo, Supersedes, TransitionedTo};

/// A table of nodes or edges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Its columns after `agent_id`, in the order of a row's values.
    pub(super) columns: &'static str,
}

pub(super) const SEMANTIC: Table = Table {
    name: "semantic_memories",
    columns: "memory_id, concept, content, confidence, source_id, tags, metadata, created_at, entity_name",
};

pub(super) const EPISODIC: Table = Table {
    name: "episodic_memories",
    columns: "memory_id, content, source_label, tags, metadata, created_at",
};

/// The table of a kind of edge.
pub(super) const fn edge_table(kind: EdgeKind) -> Table {
    match kind {
        EdgeKind::SimilarTo => {
            Table { name: "similar_to_edges", columns: "source_id, target_id, weight, metadata" }
        }
        EdgeKind::DerivesFrom => Table {
            name: "derives_from_edges",
            columns: "source_id, target_id, extraction_method, confidence",
        },
        EdgeKind::Supersedes => {
            Table { name: "supersedes_edges", columns: "source_id, target_id, reason, temporal_delta" }
        }
        EdgeKind::TransitionedTo => Table {
            name: "transitioned_to_edges",
            columns: "source_id, target_id, from_value, to_value, turn, transition_type",
        },
    }
}

/// The table of the nodes at which edges of this kind end.
pub(super) const fn target_table(kind: EdgeKind) -> Table {
    match kind {
        EdgeKind::DerivesFrom => EPISODIC,
        EdgeKind::SimilarTo | EdgeKind::Supersedes | EdgeKind::TransitionedTo => SEMANTIC,
    }
}

fn json(value: &impl Serialize) -> Result<SqlValue> {
    let written = serde_json::to_string(value);
    written.map(text).map_err(|error| Error::invalid("this cannot be written as JSON").with_source(error))
}

fn real(number: f64) -> Result<SqlValue> {
    if number.is_nan() {
        return Err(Error::invalid("a number of a memory or an edge is not a number; give one from 0 to 1"));
    }
    Ok(SqlValue::Real(number))
}

pub(super) fn semantic_values(node: &Semantic) -> Result<Vec<SqlValue>> {
    Ok(vec![
        text(&node.memory_id),
        text(&node.concept),
        text(&node.content),
        real(node.confidence)?,
        text(&node.source_id),
        json(&node.tags)?,
        json(&node.metadata)?,
        text(&node.created_at),
        text(&node.entity_name),
    ])
}

pub(super) fn read_semantic(cells: &mut Cells) -> Result<Semantic> {
    Ok(Semantic {
        memory_id: cells.text()?,
        concept: cells.text()?,
        content: cells.text()?,
        confidence: cells.real()?,
        source_id: cells.text()?,
        tags: stored(&cells.text()?)?,
        metadata: stored(&cells.text()?)?,
        created_at: cells.text()?,
        entity_name: cells.text()?,
    })
}

pub(super) fn episodic_values(node: &Episodic) -> Result<Vec<SqlValue>> {
    Ok(vec![
        text(&node.memory_id),
        text(&node.content),
        text(&node.source_label),
        json(&node.tags)?,
        json(&node.metadata)?,
        text(&node.created_at),
    ])
}

pub(super) fn read_episodic(cells: &mut Cells) -> Result<Episodic> {
    Ok(Episodic {
        memory_id: cells.text()?,
        content: cells.text()?,
        source_label: cells.text()?,
        tags: stored(&cells.text()?)?,
        metadata: stored(&cells.text()?)?,
        created_at: cells.text()?,
    })
}

pub(super) fn edge_values(edge: &Edge) -> Result<Vec<SqlValue>> {
    let (source, target) = edge.ends();
    let mut values = vec![text(source), text(target)];
    match edge {
        Edge::SimilarTo(edge) => values.extend([real(edge.weight)?, json(&edge.metadata)?]),
        Edge::DerivesFrom(edge) => values.extend([text(&edge.extraction_method), real(edge.confidence)?]),
        Edge::Supersedes(edge) => values.extend([text(&edge.reason), text(&edge.temporal_delta)]),
        Edge::TransitionedTo(edge) => values.extend([
            text(&edge.from_value),
            text(&edge.to_value),
            int(edge.turn),
            text(&edge.transition_type),
        ]),
    }
    Ok(values)
}

pub(super) fn read_edge(kind: EdgeKind, cells: &mut Cells) -> Result<Edge> {
    let (source_id, target_id) = (cells.text()?, cells.text()?);
    Ok(match kind {
        EdgeKind::SimilarTo => Edge::SimilarTo(SimilarTo {
            source_id,
            target_id,
            weight: cells.real()?,
            metadata: stored(&cells.text()?)?,
        }),
        EdgeKind::DerivesFrom => Edge::DerivesFrom(DerivesFrom {
            source_id,
            target_id,
            extraction_method: cells.text()?,
            confidence: cells.real()?,
        }),
        EdgeKind::Supersedes => Edge::Supersedes(Supersedes {
            source_id,
            target_id,
            reason: cells.text()?,
            temporal_delta: cells.text()?,
        }),
        EdgeKind::TransitionedTo => Edge::TransitionedTo(TransitionedTo {
            source_id,
            target_id,
            from_value: cells.text()?,
            to_value: cells.text()?,
            turn: cells.int()?,
            transition_type: cells.text()?,
        }),
    })
}

/// JSON of a column. Read here and not by [`Cells::json`], so that numbers keep their bits.
fn stored<T: serde::de::DeserializeOwned>(written: &str) -> Result<T> {
    serde_json::from_str(written).map_err(|error| {
        Error::new(ErrorKind::Corrupt, "a graph's table holds what is not the JSON it was given")
            .with_source(error)
    })
}
