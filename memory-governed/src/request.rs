//! What a note is taken to mean: the interface between interpreting, which may be a model's work, and all that follows.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bucket::{Bucket, Operation};

/// What the interpreter made of a note.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It asks for these writes.
    Accept(Vec<WriteRequest>),
    /// It means nothing for shared state; why.
    Reject(String),
    /// It could not be told now (the model timed out, was busy or answered nonsense): the note stays new; why.
    Retry(String),
}

/// A write that a note asks for. Who asks, when, and how far they are trusted is never part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRequest {
    /// The kind of shared state.
    pub bucket: Bucket,
    /// What to do.
    pub operation: Operation,
    /// The row, if the note names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    /// The row's members.
    #[serde(default)]
    pub payload: Map<String, Value>,
    /// The words of the note that refer to the row ("the earlier blocker").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_text: Option<String>,
    /// Other names of the row: at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidate_aliases: Vec<String>,
    /// How sure the interpreter is, 0 to 1. Recorded, and decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Why, in the interpreter's words. Recorded, and decides nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rationale: String,
}
