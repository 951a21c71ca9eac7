//! Atomic reducers as pure functions, so that every backend gives the same result.
//!
//! A backend reads the current value, calls [`reduce`] and writes the result inside one transaction.

mod list;
mod merge;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::json::{Json, JsonError, JsonKind, MAX_DEPTH};
use std::fmt;

/// The largest `limit` of a [`Reducer::BoundedList`].
pub const MAX_LIST_LIMIT: usize = 10_000;

/// How to derive a key's next value from its current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reducer {
    /// Merges an object into the current object.
    ///
    /// # Behavior
    /// - Objects merge member by member, at every depth; any other value replaces what was there.
    /// - `null` is an ordinary value: it is stored and deletes nothing.
    /// - Without a current value the result is the patch.
    /// - The text of untouched members stays the same, byte for byte. Touched members keep their position; new ones
    ///   follow in the patch's order.
    /// - Of several members with the same name the last counts, in both; touching one removes its earlier duplicates. A
    ///   value copied from the patch as a whole keeps its text, including duplicates.
    Merge(Json),
    /// Appends an item to the current array unless an element is [`semantic_eq`](crate::json::semantic_eq) to it.
    ///
    /// # Behavior
    /// - Without a current value the array is empty.
    /// - The text of the other elements stays the same, byte for byte.
    AppendDedupe(Json),
    /// Appends an item to the current array, then drops elements from the head until `limit` are left.
    ///
    /// # Behavior
    /// - Without a current value the array is empty.
    /// - The text of the remaining elements is unchanged.
    BoundedList {
        /// What to append.
        item: Json,
        /// How many elements to keep: 1..=[`MAX_LIST_LIMIT`].
        limit: usize,
    },
}

/// The result of a reducer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reduced {
    /// The new value.
    pub value: Json,
    /// Whether its text differs from the current one; true if there was none.
    pub changed: bool,
    /// Whether a list reducer appended its item; `None` for other reducers.
    pub appended: Option<bool>,
    /// How many elements were dropped from the head.
    pub dropped: usize,
}

/// Which of a reducer's two inputs an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// The stored value.
    Current,
    /// The value passed with the reducer.
    Patch,
}

impl fmt::Display for Operand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Current => "stored value",
            Self::Patch => "value to merge",
        })
    }
}

impl Operand {
    const fn advice(self) -> &'static str {
        match self {
            Self::Current => "store one first, or use another key",
            Self::Patch => r#"give one, such as {"a":1}"#,
        }
    }
}

/// Why a reducer does not apply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReduceError {
    /// An input has a type that the reducer does not support.
    #[error("the {operand} is of type {found}, but it must be an {expected}; {}", .operand.advice())]
    WrongType {
        /// Which input.
        operand: Operand,
        /// The type that the reducer needs.
        expected: JsonKind,
        /// The type that was found.
        found: JsonKind,
    },
    /// The limit of a bounded list is zero or too large.
    #[error("a list limit of {limit} is outside 1..={max}")]
    LimitOutOfRange {
        /// The requested limit.
        limit: usize,
        /// The largest allowed, [`MAX_LIST_LIMIT`].
        max: usize,
    },
    /// The result would be nested too deeply.
    #[error("the result would be nested deeper than {limit} levels")]
    TooDeep {
        /// The limit, [`MAX_DEPTH`].
        limit: usize,
    },
    /// The result is not JSON: a bug in this crate, reported instead of stored.
    #[error("the reducer produced invalid JSON")]
    Defect(#[source] JsonError),
}

impl From<JsonError> for ReduceError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::TooDeep { .. } => Self::TooDeep { limit: MAX_DEPTH },
            other => Self::Defect(other),
        }
    }
}

/// Applies a reducer to the current value; `None` means that the key is absent or expired.
///
/// # Behavior
/// - Pure: equal inputs give equal results on every backend.
/// - The cost is proportional to the length of both texts, times a logarithmic factor for looking up names.
///
/// ```
/// use memory_core::json::Json;
/// use memory_core::reduce::{Reducer, reduce};
///
/// let current = Json::parse(r#"{ "id": 9007199254740993, "seen": 1 }"#)?;
/// let patch = Json::parse(r#"{"seen":2,"last":null}"#)?;
/// let reduced = reduce(Some(&current), &Reducer::Merge(patch))?;
/// assert_eq!(reduced.value.as_str(), r#"{ "id": 9007199254740993, "seen": 2,"last":null }"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ReduceError::WrongType`], [`ReduceError::LimitOutOfRange`], [`ReduceError::TooDeep`]; then nothing may be written.
pub fn reduce(current: Option<&Json>, reducer: &Reducer) -> Result<Reduced, ReduceError> {
    match reducer {
        Reducer::Merge(patch) => merge::merge(current, patch),
        Reducer::AppendDedupe(item) => list::append_dedupe(current, item),
        Reducer::BoundedList { item, limit } => list::bounded_list(current, item, *limit),
    }
}

fn require(json: &Json, expected: JsonKind, operand: Operand) -> Result<(), ReduceError> {
    match json.kind() {
        found if found == expected => Ok(()),
        found => Err(ReduceError::WrongType { operand, expected, found }),
    }
}

fn slice(text: &str, start: usize, end: usize) -> &str {
    text.get(start..end).unwrap_or_default()
}
