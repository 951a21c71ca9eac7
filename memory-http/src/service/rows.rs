//! Rows of replies as facts, and where a page of them ends.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::layer::{Fact, ScoreKind};
use memory_core::{Cursor, Error, Key, Metadata, Result, Scalar, Scope};
use serde_json::Value;

use crate::service::owner::Service;

/// The facts of one reply: none twice, and all scores of one kind or none at all.
///
/// # Errors
/// `corrupt` where a fact is there twice.
pub fn distinct_facts(service: Service, mut facts: Vec<Fact>) -> Result<Vec<Fact>> {
    let mut seen = BTreeSet::new();
    if !facts.iter().all(|fact| seen.insert(&fact.id)) {
        return Err(service.corrupt("the same memory twice"));
    }
    if facts.iter().any(|fact| fact.score.is_none()) {
        for fact in &mut facts {
            (fact.score, fact.score_kind) = (None, ScoreKind::None);
        }
    }
    Ok(facts)
}

/// The members of an object that metadata can hold: flat ones. Others may have been written by other programs.
#[must_use]
pub fn flat_metadata(members: BTreeMap<String, Value>) -> Metadata {
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

/// Cursors of one listing. The text is what they were made for, as `mem0.facts`.
#[derive(Clone, Copy, Debug)]
pub struct Cursors(pub &'static str);

impl Cursors {
    /// A cursor of a scope that marks `place`.
    ///
    /// # Errors
    /// `invalid_argument` for a place that is empty or too long.
    pub fn write(self, scope: &Scope, place: &str) -> Result<String> {
        Ok(Cursor::after_key(scope, self.0, &Key::new(place)?).as_str().to_owned())
    }

    /// The place that a cursor marks.
    ///
    /// # Errors
    /// `invalid_argument` for a cursor of another scope or listing.
    pub fn read(self, scope: &Scope, cursor: &str) -> Result<String> {
        Ok(Cursor::from_text(cursor).key(scope, self.0)?.as_str().to_owned())
    }

    /// Of a cursor that marks no place of its listing.
    #[must_use]
    pub fn foreign() -> Error {
        Error::invalid("the cursor is not one that this listing returned; start again without a cursor")
    }
}
