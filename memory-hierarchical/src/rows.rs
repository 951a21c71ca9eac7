//! Memories and edges as rows of six tables: what a [`GraphStore`](crate::GraphStore) reads and writes, and what a database of
//! the original has.

use memory_core::sql::SqlValue;
use memory_core::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{
    DerivesFrom, Edge, EdgeKind, Episodic, Node, Semantic, SimilarTo, Supersedes, TransitionedTo,
};

/// A table of memories or edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// What agents know.
    Semantic,
    /// What happened.
    Episodic,
    /// The edges of a kind.
    Edges(EdgeKind),
}

impl Table {
    /// Every table, memories before the edges that end at them.
    pub const ALL: [Self; 6] = [
        Self::Semantic,
        Self::Episodic,
        Self::Edges(EdgeKind::SimilarTo),
        Self::Edges(EdgeKind::DerivesFrom),
        Self::Edges(EdgeKind::Supersedes),
        Self::Edges(EdgeKind::TransitionedTo),
    ];
    /// The tables of memories.
    pub const NODES: [Self; 2] = [Self::Semantic, Self::Episodic];

    /// Its name in a database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Semantic => "semantic_memories",
            Self::Episodic => "episodic_memories",
            Self::Edges(EdgeKind::SimilarTo) => "similar_to_edges",
            Self::Edges(EdgeKind::DerivesFrom) => "derives_from_edges",
            Self::Edges(EdgeKind::Supersedes) => "supersedes_edges",
            Self::Edges(EdgeKind::TransitionedTo) => "transitioned_to_edges",
        }
    }

    /// Its columns in the order of a row's values, without the store's own.
    #[must_use]
    pub const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Semantic => &[
                "memory_id",
                "concept",
                "content",
                "confidence",
                "source_id",
                "tags",
                "metadata",
                "created_at",
                "entity_name",
            ],
            Self::Episodic => &["memory_id", "content", "source_label", "tags", "metadata", "created_at"],
            Self::Edges(EdgeKind::SimilarTo) => &["source_id", "target_id", "weight", "metadata"],
            Self::Edges(EdgeKind::DerivesFrom) => {
                &["source_id", "target_id", "extraction_method", "confidence"]
            }
            Self::Edges(EdgeKind::Supersedes) => &["source_id", "target_id", "reason", "temporal_delta"],
            Self::Edges(EdgeKind::TransitionedTo) => {
                &["source_id", "target_id", "from_value", "to_value", "turn", "transition_type"]
            }
        }
    }

    /// The leading columns that are unique among an agent's rows.
    #[must_use]
    pub const fn key(self) -> &'static [&'static str] {
        match self {
            Self::Semantic | Self::Episodic => &["memory_id"],
            Self::Edges(_) => &["source_id", "target_id"],
        }
    }

    /// The table of the memories that edges of a kind lead to. They all start at [`Semantic`](Self::Semantic).
    #[must_use]
    pub const fn of_targets(kind: EdgeKind) -> Self {
        match kind {
            EdgeKind::DerivesFrom => Self::Episodic,
            EdgeKind::SimilarTo | EdgeKind::Supersedes | EdgeKind::TransitionedTo => Self::Semantic,
        }
    }
}

/// Some rows of a table, in an order.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Which rows, and their order.
    pub order: Order<'a>,
    /// Only those after this key; empty for all.
    pub after: &'a [&'a str],
    /// Most rows.
    pub limit: usize,
}

impl Page<'_> {
    /// The first rows by key.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self { order: Order::Key, after: &[], limit }
    }
}

/// Which rows, in which order. Keys are compared by their bytes.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// All, by key.
    Key,
    /// The memories about an entity, by key.
    Entity(&'a str),
    /// The edges that have this id in a column of their key, by key.
    At(&'static str, &'a str),
    /// By the revision that added them, then by key.
    Added {
        /// The page starts after its key in this revision.
        from: u64,
        /// The last revision.
        through: u64,
    },
}

/// A row: a memory or an edge.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// A memory.
    Node(Node),
    /// An edge.
    Edge(Edge),
}

/// The values of a row, taken in order.
pub trait Cells {
    /// What is wrong with a value.
    type Fault;

    /// A text.
    ///
    /// # Errors
    /// For another value.
    fn text(&mut self) -> std::result::Result<String, Self::Fault>;

    /// A real number.
    ///
    /// # Errors
    /// For another value.
    fn real(&mut self) -> std::result::Result<f64, Self::Fault>;

    /// An integer.
    ///
    /// # Errors
    /// For another value.
    fn int(&mut self) -> std::result::Result<i64, Self::Fault>;

    /// JSON in a text, whose numbers keep their bits.
    ///
    /// # Errors
    /// For another value.
    fn json<T: DeserializeOwned>(&mut self) -> std::result::Result<T, Self::Fault>;
}

/// Metadata, in which every name is a name.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Tree(#[serde(deserialize_with = "memory_core::json::tree")] pub(crate) Value);

impl Row {
    /// Reads the values of a table's columns.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn read<C: Cells>(table: Table, cells: &mut C) -> std::result::Result<Self, C::Fault> {
        let kind = match table {
            Table::Semantic => {
                return Ok(Self::Node(Node::Semantic(Semantic {
                    memory_id: cells.text()?,
                    concept: cells.text()?,
                    content: cells.text()?,
                    confidence: cells.real()?,
                    source_id: cells.text()?,
                    tags: cells.json()?,
                    metadata: cells.json::<Tree>()?.0,
                    created_at: cells.text()?,
                    entity_name: cells.text()?,
                })));
            }
            Table::Episodic => {
                return Ok(Self::Node(Node::Episodic(Episodic {
                    memory_id: cells.text()?,
                    content: cells.text()?,
                    source_label: cells.text()?,
                    tags: cells.json()?,
                    metadata: cells.json::<Tree>()?.0,
                    created_at: cells.text()?,
                })));
            }
            Table::Edges(kind) => kind,
        };
        let (source_id, target_id) = (cells.text()?, cells.text()?);
        Ok(Self::Edge(match kind {
            EdgeKind::SimilarTo => Edge::SimilarTo(SimilarTo {
                source_id,
                target_id,
                weight: cells.real()?,
                metadata: cells.json::<Tree>()?.0,
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
        }))
    }

    /// Its key: an id, or the ids of both ends.
    #[must_use]
    pub fn key(&self) -> Vec<&str> {
        match self {
            Self::Node(node) => vec![node.id()],
            Self::Edge(edge) => vec![edge.ends().0, edge.ends().1],
        }
    }

    /// The memory.
    #[must_use]
    pub fn node(self) -> Option<Node> {
        if let Self::Node(node) = self { Some(node) } else { None }
    }

    /// The edge.
    #[must_use]
    pub fn edge(self) -> Option<Edge> {
        if let Self::Edge(edge) = self { Some(edge) } else { None }
    }
}

/// A row to write: the values of a table's columns, which are texts, real numbers and integers.
pub type Values = Vec<SqlValue>;

/// The text in a row's column; empty if there is none.
#[must_use]
pub fn text_at(row: &[SqlValue], column: usize) -> &str {
    if let Some(SqlValue::Text(text)) = row.get(column) { text } else { "" }
}

/// A text. U+0000 is refused everywhere, because one of the stores cannot keep it.
fn text(text: &str) -> Result<SqlValue> {
    if text.contains('\0') {
        return Err(Error::invalid("a text of a memory or an edge holds U+0000; remove it"));
    }
    Ok(SqlValue::Text(text.to_owned()))
}

fn json(value: &impl Serialize) -> Result<SqlValue> {
    let written = serde_json::to_string(value);
    // Control characters are escaped.
    written
        .map(SqlValue::Text)
        .map_err(|error| Error::invalid("this cannot be written as JSON").with_source(error))
}

fn real(number: f64) -> Result<SqlValue> {
    if number.is_nan() {
        return Err(Error::invalid("a number of a memory or an edge is not a number; give one from 0 to 1"));
    }
    // SQLite does not keep the sign of a zero, so no store does.
    Ok(SqlValue::Real(number + 0.0))
}

impl Semantic {
    pub(crate) fn values(&self) -> Result<Values> {
        Ok(vec![
            text(&self.memory_id)?,
            text(&self.concept)?,
            text(&self.content)?,
            real(self.confidence)?,
            text(&self.source_id)?,
            json(&self.tags)?,
            json(&self.metadata)?,
            text(&self.created_at)?,
            text(&self.entity_name)?,
        ])
    }
}

impl Episodic {
    pub(crate) fn values(&self) -> Result<Values> {
        Ok(vec![
            text(&self.memory_id)?,
            text(&self.content)?,
            text(&self.source_label)?,
            json(&self.tags)?,
            json(&self.metadata)?,
            text(&self.created_at)?,
        ])
    }
}

impl Edge {
    pub(crate) fn values(&self) -> Result<Values> {
        let (source, target) = self.ends();
        let mut values = vec![text(source)?, text(target)?];
        values.extend(match self {
            Self::SimilarTo(edge) => vec![real(edge.weight)?, json(&edge.metadata)?],
            Self::DerivesFrom(edge) => vec![text(&edge.extraction_method)?, real(edge.confidence)?],
            Self::Supersedes(edge) => vec![text(&edge.reason)?, text(&edge.temporal_delta)?],
            Self::TransitionedTo(edge) => vec![
                text(&edge.from_value)?,
                text(&edge.to_value)?,
                SqlValue::Int(edge.turn),
                text(&edge.transition_type)?,
            ],
        });
        Ok(values)
    }
}
