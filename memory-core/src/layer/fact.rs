//! A remembered fact.

use serde::{Deserialize, Serialize};

use super::adding::Role;
use super::ids::FactId;
use crate::entry::Metadata;
use crate::time::Timestamp;

/// What a fact's score means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScoreKind {
    /// Cosine similarity, higher is nearer.
    Cosine,
    /// A similarity in [0, 1] of the service's own kind.
    Similarity,
    /// Orders one result; not comparable across results.
    Rank,
    /// The service returned none.
    None,
}

/// The part of a signal in a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Share {
    /// The signal.
    pub signal: String,
    /// What it adds to the score.
    #[serde(deserialize_with = "crate::json::exact_f64")]
    pub value: f64,
}

impl Share {
    /// A signal's part.
    #[must_use]
    pub fn new(signal: impl Into<String>, value: f64) -> Self {
        Self { signal: signal.into(), value }
    }
}

/// One remembered fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Fact {
    /// Its id.
    pub id: FactId,
    /// The fact in words.
    pub memory: String,
    /// Its score, finite, if the result has scores.
    #[serde(
        default,
        deserialize_with = "crate::json::exact_f64_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub score: Option<f64>,
    /// What the score means.
    pub score_kind: ScoreKind,
    /// The metadata stored with it.
    pub metadata: Metadata,
    /// Where it came from, if the layer knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// When it was stored, if the layer knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// The speaker's name, for a fact that is what somebody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// The speaker's role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The session it was said in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When it was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Its place among the facts of the scope: neighbours differ by 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// The fact that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<FactId>,
    /// What a picture that was sent along shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// How near it is to the question, 0 to 1, where the score only orders.
    #[serde(
        default,
        deserialize_with = "crate::json::exact_f64_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub similarity: Option<f64>,
    /// When it was last said or confirmed, for a layer with `Capabilities::layer_confirm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<Timestamp>,
    /// Until when it held, if it was corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<Timestamp>,
    /// The fact that corrects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<FactId>,
    /// From when on it holds, for a derived fact of which that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<Timestamp>,
    /// The facts that support it, for one that was derived from others, such as by a model; empty: it was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<FactId>,
    /// What its score is made of, if the query asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
}

impl Fact {
    /// A fact without score, metadata, provenance and time.
    #[must_use]
    pub fn new(id: FactId, memory: impl Into<String>) -> Self {
        Self {
            id,
            memory: memory.into(),
            score: None,
            score_kind: ScoreKind::None,
            metadata: Metadata::new(),
            provenance: None,
            created_at: None,
            speaker: None,
            role: None,
            session: None,
            at: None,
            order: None,
            answers: None,
            caption: None,
            similarity: None,
            confirmed_at: None,
            valid_to: None,
            superseded_by: None,
            valid_from: None,
            sources: Vec::new(),
            shares: Vec::new(),
        }
    }
}
