//! Converts rows of replies to facts, and finds the end of a page.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::layer::{Fact, ScoreKind};
use memory_core::{Cursor, Error, Key, Metadata, Result, Scalar, Scope};
use serde_json::Value;

use crate::service::owner::Service;

/// The facts of one reply: without repetitions, and with scores of one kind or none.
///
/// # Errors
/// `corrupt` if a fact is repeated.
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

/// The members of an object that fit into metadata: scalars. Other programs may have written others.
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

/// Cursors of one listing, identified by a text such as `mem0.facts`.
#[derive(Clone, Copy, Debug)]
pub struct Cursors(pub &'static str);

impl Cursors {
    /// A cursor of a scope for `place`.
    ///
    /// # Errors
    /// `invalid_argument` for a place that is empty or too long.
    pub fn write(self, scope: &Scope, place: &str) -> Result<String> {
        Ok(Cursor::after_key(scope, self.0, &Key::new(place)?).as_str().to_owned())
    }

    /// The place of a cursor.
    ///
    /// # Errors
    /// `invalid_argument` for a cursor of another scope or listing.
    pub fn read(self, scope: &Scope, cursor: &str) -> Result<String> {
        Ok(Cursor::from_text(cursor).key(scope, self.0)?.as_str().to_owned())
    }

    /// The number that [`Cursors::write`] took as the place; 0 without a cursor.
    ///
    /// # Errors
    /// As [`Cursors::read`].
    pub fn number(self, scope: &Scope, cursor: Option<&str>) -> Result<usize> {
        match cursor {
            Some(cursor) => self.read(scope, cursor)?.parse().map_err(|_| Self::foreign()),
            None => Ok(0),
        }
    }

    /// For an invalid cursor.
    #[must_use]
    pub fn foreign() -> Error {
        Error::invalid("the cursor is not from this listing; start again without a cursor")
    }
}
