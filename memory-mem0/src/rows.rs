//! Rows of replies: reads them, checks their owner, and turns them into facts.

use std::collections::BTreeMap;

use memory_core::layer::{Fact, ScoreKind};
use memory_core::{Error, Metadata, Result, Scalar};
use memory_http::service::{Owner, distinct_facts, flat_metadata};
use serde::Deserialize;
use serde_json::Value;

use crate::owner::SERVICE;

/// Names that mem0 reserves: it drops them, reads a date from them, or reads them as operators.
const RESERVED: [&str; 27] = [
    "user_id",
    "agent_id",
    "app_id",
    "run_id",
    "session_id",
    "actor_id",
    "memory_id",
    "id",
    "data",
    "memory",
    "hash",
    "role",
    "score",
    "created_at",
    "updated_at",
    "expiration_date",
    "attributed_to",
    "memory_type",
    "metadata",
    "categories",
    "text_lemmatized",
    "AND",
    "OR",
    "NOT",
    "linked_memory_ids",
    "timestamp",
    "keywords",
];

/// One memory, as a search, a listing or a fetch returns it.
#[derive(Deserialize)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) memory: Option<String>,
    pub(crate) user_id: Option<String>,
    pub(crate) score: Option<f64>,
    metadata: Option<BTreeMap<String, Value>>,
    created_at: Option<String>,
    attributed_to: Option<String>,
}

/// A list of memories.
#[derive(Deserialize)]
pub(crate) struct Rows {
    pub(crate) results: Vec<Row>,
    /// The URL of the next page. It is never followed; it only says that there is more.
    #[serde(default)]
    pub(crate) next: Option<Value>,
}

/// Facts from the rows of one reply. All must be the owner's, and none may occur twice.
/// Fails with `corrupt` for a reply that cannot be trusted.
pub(crate) fn facts(rows: Vec<Row>, owner: &Owner, scored: bool) -> Result<Vec<Fact>> {
    let mut facts = Vec::with_capacity(rows.len());
    for row in rows {
        owner.check(row.user_id.as_deref())?;
        facts.push(fact(row, scored)?);
    }
    distinct_facts(SERVICE, facts)
}

/// The fact of a row whose owner has been checked.
fn fact(row: Row, scored: bool) -> Result<Fact> {
    let id = SERVICE.fact_id(&row.id)?;
    let memory = row.memory.ok_or_else(|| SERVICE.corrupt("a memory without text"))?;
    let mut fact = Fact::new(id, memory);
    if let Some(score) = row.score.filter(|_| scored) {
        if !score.is_finite() {
            return Err(SERVICE.corrupt("a score that is not a number"));
        }
        // A mean of cosine, BM25 and entity scores; how many of them varies between answers.
        (fact.score, fact.score_kind) = (Some(score), ScoreKind::Rank);
    }
    fact.metadata = flat_metadata(row.metadata.unwrap_or_default());
    fact.created_at = row.created_at.and_then(|text| text.parse().ok());
    fact.provenance = row.attributed_to.filter(|who| who.len() <= 64 && !who.chars().any(char::is_control));
    Ok(fact)
}

/// Refuses metadata that mem0 would misread.
/// Fails with `invalid_argument`, naming the member.
pub(crate) fn check_metadata(metadata: &Metadata) -> Result<()> {
    for (name, value) in metadata.iter() {
        if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) || name.starts_with(['$', '_'])
        {
            return Err(Error::invalid(format!(
                "mem0 reserves the metadata name `{name}`; choose another name"
            ))
            .with_detail("name", name));
        }
        if *value == Scalar::Text("*".to_owned()) {
            return Err(Error::invalid(format!(
                "the metadata `{name}` is `*`, which mem0 reads as a wildcard; choose another value"
            ))
            .with_detail("name", name));
        }
    }
    Ok(())
}
