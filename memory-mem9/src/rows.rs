//! Rows of replies: read, held against their owner, and turned into facts.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::layer::{Fact, FactId, ScoreKind};
use memory_core::{Error, ErrorKind, Metadata, Result, Scalar};
use serde::Deserialize;
use serde_json::Value;

use crate::config::Ranking;
use crate::owner::{Owner, is_uuid};

/// What mem9 calls a fact that it made of what was said.
pub(crate) const INSIGHT: &str = "insight";

/// One memory.
#[derive(Deserialize)]
pub(crate) struct Row {
    pub(crate) id: String,
    content: Option<String>,
    memory_type: Option<String>,
    pub(crate) agent_id: Option<String>,
    pub(crate) state: Option<String>,
    score: Option<f64>,
    confidence: Option<f64>,
    metadata: Option<BTreeMap<String, Value>>,
    created_at: Option<String>,
    source: Option<String>,
}

/// A list of them.
#[derive(Deserialize)]
pub(crate) struct Rows {
    pub(crate) memories: Vec<Row>,
    #[serde(default)]
    pub(crate) total: Option<u64>,
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("mem9 answered with {what}; nothing of the reply is used"))
}

/// Facts of the rows of one reply: all the owner's, none twice. Raw turns of a conversation, which some servers mix
/// in, are none.
///
/// # Errors
/// `corrupt` for a reply that cannot be trusted.
pub(crate) fn facts(rows: Vec<Row>, owner: &Owner, ranking: Option<Ranking>) -> Result<Vec<Fact>> {
    let mut seen = BTreeSet::new();
    let mut facts = Vec::with_capacity(rows.len());
    for row in rows {
        owner.check(row.agent_id.as_deref())?;
        if row.memory_type.as_deref().is_some_and(|kind| kind != INSIGHT) {
            continue;
        }
        let fact = fact(row, ranking)?;
        if !seen.insert(fact.id.clone()) {
            return Err(wrong("the same memory twice"));
        }
        facts.push(fact);
    }
    // One answer's scores are of one kind.
    if facts.iter().any(|fact| fact.score.is_none()) {
        for fact in &mut facts {
            (fact.score, fact.score_kind) = (None, ScoreKind::None);
        }
    }
    Ok(facts)
}

fn fact(row: Row, ranking: Option<Ranking>) -> Result<Fact> {
    let id = fact_id(&row.id)?;
    let memory = row.content.ok_or_else(|| wrong("a memory without words"))?;
    let mut fact = Fact::new(id, memory);
    let score = match ranking {
        None => None,
        Some(Ranking::Confidence) => {
            row.confidence.map(|confidence| (confidence / 100.0, ScoreKind::Similarity))
        }
        // Ranks of a text search, cosines and reciprocal ranks, mixed.
        Some(Ranking::Plain) => row.score.map(|score| (score, ScoreKind::Rank)),
    };
    if let Some((score, kind)) = score {
        if !score.is_finite() || (kind == ScoreKind::Similarity && !(0.0..=1.0).contains(&score)) {
            return Err(wrong("a score that is none"));
        }
        (fact.score, fact.score_kind) = (Some(score), kind);
    }
    fact.metadata = metadata(row.metadata.unwrap_or_default());
    fact.created_at = row.created_at.and_then(|text| text.parse().ok());
    fact.provenance = row.source.filter(|who| who.len() <= 128 && !who.chars().any(char::is_control));
    Ok(fact)
}

/// An id that mem9 gave.
///
/// # Errors
/// `corrupt` for one that is none.
pub(crate) fn fact_id(id: &str) -> Result<FactId> {
    if is_uuid(id) { FactId::new(id) } else { Err(wrong("a memory whose id is no UUID")) }
}

/// What of the metadata is flat; others may write there what this crate does not.
fn metadata(members: BTreeMap<String, Value>) -> Metadata {
    let scalar = |value: Value| match value {
        Value::Bool(value) => Some(Scalar::Bool(value)),
        Value::String(text) => Some(Scalar::Text(text)),
        Value::Number(number) => {
            number.as_i64().map(Scalar::Int).or_else(|| number.as_f64().map(Scalar::Float))
        }
        _ => None,
    };
    members
        .into_iter()
        .filter_map(|(name, value)| Some((name, scalar(value)?)))
        .filter(|(name, value)| Metadata::new().with(name, value.clone()).check().is_ok())
        .collect()
}
