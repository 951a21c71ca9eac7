//! Rows of replies: reads them, checks their owner, and turns them into facts.

use std::collections::BTreeMap;

use memory_core::Result;
use memory_core::layer::{Fact, ScoreKind};
use memory_http::service::{Owner, distinct_facts, flat_metadata};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::config::Ranking;
use crate::owner::SERVICE;

/// The memory type of a fact that mem9 extracted from messages.
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

/// A list of memories.
#[derive(Deserialize)]
pub(crate) struct Rows {
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) memories: Vec<Row>,
    #[serde(default)]
    pub(crate) total: Option<u64>,
}

/// mem9 is written in Go, which encodes a list that was never filled as `null`.
fn null_is_empty<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Row>, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// Facts from the rows of one reply. All must be the owner's, and none may occur twice. Raw messages, which some servers
/// include, are left out.
/// Fails with `corrupt` for a reply that cannot be trusted.
pub(crate) fn facts(rows: Vec<Row>, owner: &Owner, ranking: Option<Ranking>) -> Result<Vec<Fact>> {
    let mut facts = Vec::with_capacity(rows.len());
    for row in rows {
        owner.check(row.agent_id.as_deref())?;
        if row.memory_type.as_deref().is_some_and(|kind| kind != INSIGHT) {
            continue;
        }
        facts.push(fact(row, ranking)?);
    }
    distinct_facts(SERVICE, facts)
}

fn fact(row: Row, ranking: Option<Ranking>) -> Result<Fact> {
    let id = SERVICE.fact_id(&row.id)?;
    let memory = row.content.ok_or_else(|| SERVICE.corrupt("a memory without text"))?;
    let mut fact = Fact::new(id, memory);
    let score = match ranking {
        None => None,
        Some(Ranking::Confidence) => {
            row.confidence.map(|confidence| (confidence / 100.0, ScoreKind::Similarity))
        }
        // A mixture of text ranks, cosines and reciprocal ranks.
        Some(Ranking::Plain) => row.score.map(|score| (score, ScoreKind::Rank)),
    };
    if let Some((score, kind)) = score {
        if !score.is_finite() || (kind == ScoreKind::Similarity && !(0.0..=1.0).contains(&score)) {
            return Err(SERVICE.corrupt("a score that is not a number"));
        }
        (fact.score, fact.score_kind) = (Some(score), kind);
    }
    fact.metadata = flat_metadata(row.metadata.unwrap_or_default());
    fact.created_at = row.created_at.and_then(|text| text.parse().ok());
    fact.provenance = row.source.filter(|who| who.len() <= 128 && !who.chars().any(char::is_control));
    Ok(fact)
}
