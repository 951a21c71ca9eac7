//! A typed filter over metadata, source and times that every backend evaluates the same way.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Metadata, Scalar, Source, check_metadata_name};
use crate::error::{Error, Result};
use crate::limits::{MAX_FILTER_DEPTH, MAX_FILTER_NODES};
use crate::time::Timestamp;

/// What a comparison tests. JSON: `"metadata.NAME"`, `"source"`, `"created_at"`, `"updated_at"`, `"expires_at"`.
/// Everything after the first dot is the member's name, including further dots.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub enum Field {
    /// The metadata member with this name.
    Metadata(String),
    /// The source label.
    Source,
    /// Creation time.
    CreatedAt,
    /// Time of the last write.
    UpdatedAt,
    /// Expiry.
    ExpiresAt,
}

impl TryFrom<String> for Field {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        match text.as_str() {
            "source" => Ok(Self::Source),
            "created_at" => Ok(Self::CreatedAt),
            "updated_at" => Ok(Self::UpdatedAt),
            "expires_at" => Ok(Self::ExpiresAt),
            other => match other.strip_prefix("metadata.") {
                Some(name) => {
                    check_metadata_name(name)?;
                    Ok(Self::Metadata(name.to_owned()))
                }
                None => Err(Error::invalid(
                    "a filter field is `metadata.NAME`, `source`, `created_at`, `updated_at` or `expires_at`",
                )),
            },
        }
    }
}

impl From<Field> for String {
    fn from(field: Field) -> Self {
        match field {
            Field::Metadata(name) => format!("metadata.{name}"),
            Field::Source => "source".to_owned(),
            Field::CreatedAt => "created_at".to_owned(),
            Field::UpdatedAt => "updated_at".to_owned(),
            Field::ExpiresAt => "expires_at".to_owned(),
        }
    }
}

/// A condition on an entry. JSON: `{"eq": ["metadata.city", "Oslo"]}`, `{"in": ["source", ["a", "b"]]}`,
/// `{"exists": "metadata.city"}`, `{"and": [...]}`, `{"or": [...]}`, `{"not": {...}}`.
///
/// Two-valued: a comparison with an absent field, or between different types, is false; `ne` and
/// `not` are exact complements, so `ne` holds for an absent field. Numbers compare as numbers, text
/// and source by bytes. Time fields compare with RFC 3339 text or milliseconds since the epoch.
/// An empty `and` holds, an empty `or` and an empty `in` do not. At most 16 levels and 1,024 nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Filter {
    /// Equal.
    Eq(Field, Scalar),
    /// Not equal, or absent, or of another type.
    Ne(Field, Scalar),
    /// Less than.
    Lt(Field, Scalar),
    /// Less than or equal.
    Lte(Field, Scalar),
    /// Greater than.
    Gt(Field, Scalar),
    /// Greater than or equal.
    Gte(Field, Scalar),
    /// Equal to one of these.
    In(Field, Vec<Scalar>),
    /// The field is present.
    Exists(Field),
    /// All hold.
    And(Vec<Filter>),
    /// At least one holds.
    Or(Vec<Filter>),
    /// Does not hold.
    Not(Box<Filter>),
}

/// The parts of an entry that a filter can test.
#[derive(Clone, Copy, Debug)]
pub struct FilterView<'a> {
    /// Metadata.
    pub metadata: &'a Metadata,
    /// Source label.
    pub source: Option<&'a Source>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last write.
    pub updated_at: Timestamp,
    /// Expiry.
    pub expires_at: Option<Timestamp>,
}

impl<'a> From<&'a Entry> for FilterView<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self {
            metadata: &entry.metadata,
            source: entry.source.as_ref(),
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            expires_at: entry.expires_at,
        }
    }
}

impl FilterView<'_> {
    fn compare(&self, field: &Field, operand: &Scalar) -> Option<Ordering> {
        match field {
            Field::Metadata(name) => self.metadata.get(name)?.compare(operand),
            Field::Source => match operand {
                Scalar::Text(text) => Some(self.source?.as_str().as_bytes().cmp(text.as_bytes())),
                _ => None,
            },
            Field::CreatedAt => compare_time(Some(self.created_at), operand),
            Field::UpdatedAt => compare_time(Some(self.updated_at), operand),
            Field::ExpiresAt => compare_time(self.expires_at, operand),
        }
    }

    fn has(&self, field: &Field) -> bool {
        match field {
            Field::Metadata(name) => self.metadata.get(name).is_some(),
            Field::Source => self.source.is_some(),
            Field::CreatedAt | Field::UpdatedAt => true,
            Field::ExpiresAt => self.expires_at.is_some(),
        }
    }
}

fn compare_time(stored: Option<Timestamp>, operand: &Scalar) -> Option<Ordering> {
    let stored = stored?;
    match operand {
        Scalar::Int(_) | Scalar::Float(_) => Scalar::Int(stored.as_millis()).compare(operand),
        Scalar::Text(text) => Some(stored.cmp(&text.parse().ok()?)),
        Scalar::Bool(_) => None,
    }
}

impl Filter {
    /// Whether the filter holds for an entry.
    #[must_use]
    pub fn matches<'a>(&self, entry: impl Into<FilterView<'a>>) -> bool {
        self.matches_view(&entry.into())
    }

    fn matches_view(&self, view: &FilterView<'_>) -> bool {
        match self {
            Self::Eq(field, operand) => view.compare(field, operand) == Some(Ordering::Equal),
            Self::Ne(field, operand) => view.compare(field, operand) != Some(Ordering::Equal),
            Self::Lt(field, operand) => view.compare(field, operand) == Some(Ordering::Less),
            Self::Lte(field, operand) => view.compare(field, operand).is_some_and(Ordering::is_le),
            Self::Gt(field, operand) => view.compare(field, operand) == Some(Ordering::Greater),
            Self::Gte(field, operand) => view.compare(field, operand).is_some_and(Ordering::is_ge),
            Self::In(field, operands) => {
                operands.iter().any(|operand| view.compare(field, operand) == Some(Ordering::Equal))
            }
            Self::Exists(field) => view.has(field),
            Self::And(filters) => filters.iter().all(|filter| filter.matches_view(view)),
            Self::Or(filters) => filters.iter().any(|filter| filter.matches_view(view)),
            Self::Not(filter) => !filter.matches_view(view),
        }
    }

    /// Checks depth, size and operands.
    ///
    /// # Errors
    /// `too_large` beyond 16 levels or 1,024 nodes; `invalid_argument` for a time field compared with anything but a
    /// time, or a malformed name or number.
    pub fn check(&self) -> Result<()> {
        let mut nodes = 0;
        let mut stack = vec![(self, 1_usize)];
        while let Some((filter, depth)) = stack.pop() {
            if depth > MAX_FILTER_DEPTH {
                return Err(Error::too_large("filter depth", depth, MAX_FILTER_DEPTH, "levels"));
            }
            nodes += 1;
            match filter {
                Self::Eq(field, operand)
                | Self::Ne(field, operand)
                | Self::Lt(field, operand)
                | Self::Lte(field, operand)
                | Self::Gt(field, operand)
                | Self::Gte(field, operand) => check_comparison(field, operand)?,
                Self::In(field, operands) => {
                    nodes += operands.len();
                    for operand in operands {
                        check_comparison(field, operand)?;
                    }
                }
                Self::Exists(field) => check_field(field)?,
                Self::And(filters) | Self::Or(filters) => {
                    stack.extend(filters.iter().map(|filter| (filter, depth + 1)));
                }
                Self::Not(filter) => stack.push((filter, depth + 1)),
            }
            if nodes > MAX_FILTER_NODES {
                return Err(Error::too_large("filter", nodes, MAX_FILTER_NODES, "nodes"));
            }
        }
        Ok(())
    }
}

fn check_field(field: &Field) -> Result<()> {
    match field {
        Field::Metadata(name) => check_metadata_name(name),
        _ => Ok(()),
    }
}

fn check_comparison(field: &Field, operand: &Scalar) -> Result<()> {
    check_field(field)?;
    operand.check("a filter number")?;
    match (field, operand) {
        (Field::CreatedAt | Field::UpdatedAt | Field::ExpiresAt, Scalar::Text(text)) => {
            text.parse::<Timestamp>().map(drop)
        }
        (Field::CreatedAt | Field::UpdatedAt | Field::ExpiresAt, Scalar::Bool(_)) => {
            Err(Error::invalid("a time compares with RFC 3339 text or milliseconds since the epoch"))
        }
        (Field::Source, Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_)) => {
            Err(Error::invalid("a source compares with text"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::scope::Key;

    fn entry() -> Entry {
        let mut entry = Entry::new(
            Key::new("k").unwrap(),
            Json::null(),
            1,
            Timestamp::from_millis(1_700_000_000_000).unwrap(),
        );
        entry.metadata =
            Metadata::new().with("city", "Oslo").with("n", 9_007_199_254_740_993_i64).with("x", 1.5);
        entry.source = Some(Source::new("chat").unwrap());
        entry
    }

    fn holds(filter: &str) -> bool {
        let filter: Filter = serde_json::from_str(filter).unwrap();
        filter.check().unwrap();
        filter.matches(&entry())
    }

    #[test]
    fn comparisons_are_typed_and_exact() {
        assert!(holds(r#"{"eq":["metadata.city","Oslo"]}"#));
        assert!(!holds(r#"{"eq":["metadata.city","oslo"]}"#));
        assert!(holds(r#"{"gt":["metadata.n",9007199254740992]}"#));
        assert!(holds(r#"{"gt":["metadata.n",10]}"#));
        assert!(holds(r#"{"lt":["metadata.x",2]}"#));
        assert!(!holds(r#"{"lt":["metadata.x","2"]}"#));
        assert!(holds(r#"{"in":["source",["web","chat"]]}"#));
        assert!(holds(r#"{"gte":["created_at","2023-11-14T22:13:20Z"]}"#));
        assert!(!holds(r#"{"lt":["created_at",1700000000000]}"#));
    }

    #[test]
    fn absent_fields_are_false_and_ne_is_the_complement() {
        assert!(!holds(r#"{"eq":["metadata.none","x"]}"#));
        assert!(!holds(r#"{"lt":["metadata.none",1]}"#));
        assert!(holds(r#"{"ne":["metadata.none","x"]}"#));
        assert!(holds(r#"{"ne":["metadata.city",1]}"#));
        assert!(!holds(r#"{"exists":"expires_at"}"#));
        assert!(holds(r#"{"not":{"exists":"metadata.none"}}"#));
    }

    #[test]
    fn empty_connectives_have_their_neutral_values() {
        assert!(holds(r#"{"and":[]}"#));
        assert!(!holds(r#"{"or":[]}"#));
        assert!(!holds(r#"{"in":["source",[]]}"#));
    }

    #[test]
    fn depth_and_size_are_limited() {
        let mut deep = Filter::And(vec![]);
        for _ in 0..MAX_FILTER_DEPTH {
            deep = Filter::Not(Box::new(deep));
        }
        assert!(deep.check().is_err());
        let wide = Filter::In(Field::Source, vec![Scalar::from("a"); MAX_FILTER_NODES]);
        assert!(wide.check().is_err());
        assert!(Filter::Eq(Field::CreatedAt, Scalar::from("yesterday")).check().is_err());
    }
}
