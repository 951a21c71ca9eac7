//! Nodes and edges, with the names they have in files of format 1.1.

use std::fmt;

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most bytes of the name of an agent.
const MAX_AGENT_BYTES: usize = 255;

/// Whose graph it is: the partition key of every node and edge. Always from the caller, never from a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Agent(String);

impl Agent {
    /// A name of 1 to 255 bytes without `/`, `\`, `..`, control characters and those that change how a line is shown, so that it is safe as a file's name.
    ///
    /// # Errors
    /// `invalid_argument` for any other.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let refused = match name.as_str() {
            "" | "." => Some("is empty or `.`"),
            "*" => Some("is `*`, which stands for every agent"),
            _ if name.len() > MAX_AGENT_BYTES => Some("is longer than 255 bytes"),
            _ if name.contains(['/', '\\']) => Some("contains a slash"),
            _ if name.contains("..") => Some("contains `..`"),
            _ if name.contains(|c: char| c.is_control() || is_invisible(c)) => {
                Some("contains a control character")
            }
            _ if name.trim() != name => Some("begins or ends with a space"),
            _ => None,
        };
        match refused {
            Some(why) => Err(Error::invalid(format!("the name of an agent {why}; choose another"))),
            None => Ok(Self(name)),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Line ends, direction marks, and spaces without width: names that contain them look like others. Joiners are allowed,
/// since words of some scripts need them.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an agent knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Semantic {
    /// Its id, unique in the agent's graph.
    pub memory_id: String,
    /// A short label.
    pub concept: String,
    /// The knowledge itself.
    pub content: String,
    /// 0 to 1.
    pub confidence: f64,
    /// The episodic memory it came from; may be empty.
    pub source_id: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Any JSON.
    #[serde(deserialize_with = "memory_core::json::tree")]
    pub metadata: Value,
    /// RFC 3339 or Unix seconds, kept as given.
    pub created_at: String,
    /// The entity it is about; may be empty.
    pub entity_name: String,
}

impl Semantic {
    /// Knowledge held with certainty, without tags and metadata. [`AgentMemory`](crate::AgentMemory) assigns its id and
    /// time when storing it.
    #[must_use]
    pub fn new(concept: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            memory_id: String::new(),
            concept: concept.into(),
            content: content.into(),
            confidence: 1.0,
            source_id: String::new(),
            tags: Vec::new(),
            metadata: Value::Object(serde_json::Map::new()),
            created_at: String::new(),
            entity_name: String::new(),
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episodic {
    /// Its id, unique in the agent's graph.
    pub memory_id: String,
    /// The event.
    pub content: String,
    /// Where it comes from: `session`, `tool_call`, …
    pub source_label: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Any JSON.
    #[serde(deserialize_with = "memory_core::json::tree")]
    pub metadata: Value,
    /// RFC 3339 or Unix seconds, kept as given.
    pub created_at: String,
}

impl Episodic {
    /// An event without tags and metadata. [`AgentMemory`](crate::AgentMemory) assigns its id and time when storing it.
    #[must_use]
    pub fn new(content: impl Into<String>, source_label: impl Into<String>) -> Self {
        Self {
            memory_id: String::new(),
            content: content.into(),
            source_label: source_label.into(),
            tags: Vec::new(),
            metadata: Value::Object(serde_json::Map::new()),
            created_at: String::new(),
        }
    }
}

/// A semantic memory resembles another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimilarTo {
    /// A semantic memory.
    pub source_id: String,
    /// A semantic memory.
    pub target_id: String,
    /// 0 to 1.
    pub weight: f64,
    /// Any JSON.
    #[serde(deserialize_with = "memory_core::json::tree")]
    pub metadata: Value,
}

/// A semantic memory was derived from an episodic one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DerivesFrom {
    /// A semantic memory.
    pub source_id: String,
    /// An episodic memory.
    pub target_id: String,
    /// How it was drawn.
    pub extraction_method: String,
    /// 0 to 1.
    pub confidence: f64,
}

/// A semantic memory replaces another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Supersedes {
    /// The newer semantic memory.
    pub source_id: String,
    /// The memory that it replaces.
    pub target_id: String,
    /// Why.
    pub reason: String,
    /// The time between them, as its writer put it.
    pub temporal_delta: String,
}

/// A value changed: the source holds the new value, the target the old one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransitionedTo {
    /// A semantic memory.
    pub source_id: String,
    /// A semantic memory.
    pub target_id: String,
    /// The value before.
    pub from_value: String,
    /// The value after.
    pub to_value: String,
    /// The turn of the conversation.
    pub turn: i64,
    /// The kind of change.
    pub transition_type: String,
}

/// A memory of either kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Node {
    /// What the agent knows.
    Semantic(Semantic),
    /// What happened.
    Episodic(Episodic),
}

impl Node {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Semantic(node) => &node.memory_id,
            Self::Episodic(node) => &node.memory_id,
        }
    }
}

/// The kinds of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EdgeKind {
    /// Semantic to semantic.
    SimilarTo,
    /// Semantic to episodic.
    DerivesFrom,
    /// Semantic to semantic.
    Supersedes,
    /// Semantic to semantic.
    TransitionedTo,
}

impl EdgeKind {
    /// Every kind, in the order of the format.
    pub const ALL: [Self; 4] = [Self::SimilarTo, Self::DerivesFrom, Self::Supersedes, Self::TransitionedTo];
}

/// An edge of any kind. Two memories have at most one edge of a kind in a direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Edge {
    /// Semantic to semantic.
    SimilarTo(SimilarTo),
    /// Semantic to episodic.
    DerivesFrom(DerivesFrom),
    /// Semantic to semantic.
    Supersedes(Supersedes),
    /// Semantic to semantic.
    TransitionedTo(TransitionedTo),
}

impl Edge {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> EdgeKind {
        match self {
            Self::SimilarTo(_) => EdgeKind::SimilarTo,
            Self::DerivesFrom(_) => EdgeKind::DerivesFrom,
            Self::Supersedes(_) => EdgeKind::Supersedes,
            Self::TransitionedTo(_) => EdgeKind::TransitionedTo,
        }
    }

    /// The id of its other end, seen from this one.
    #[must_use]
    pub fn other_end(&self, id: &str) -> &str {
        let (source, target) = self.ends();
        if source == id { target } else { source }
    }

    /// The ids of its source and its target.
    #[must_use]
    pub fn ends(&self) -> (&str, &str) {
        match self {
            Self::SimilarTo(edge) => (&edge.source_id, &edge.target_id),
            Self::DerivesFrom(edge) => (&edge.source_id, &edge.target_id),
            Self::Supersedes(edge) => (&edge.source_id, &edge.target_id),
            Self::TransitionedTo(edge) => (&edge.source_id, &edge.target_id),
        }
    }
}

/// How many there are of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Semantic memories.
    pub semantic_node_count: u64,
    /// Episodic memories.
    pub episodic_node_count: u64,
    /// `SIMILAR_TO` edges.
    pub similar_to_edge_count: u64,
    /// `DERIVES_FROM` edges.
    pub derives_from_edge_count: u64,
    /// `SUPERSEDES` edges.
    pub supersedes_edge_count: u64,
    /// `TRANSITIONED_TO` edges.
    pub transitioned_to_edge_count: u64,
}
