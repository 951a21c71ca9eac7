//! Caches the parameter types of statements, so that a repeated statement takes one round trip.

use std::sync::Arc;

use memory_core::sql::SqlValue;
use memory_sql::WeightedCache;

use crate::sql::protocol::Oid;
use crate::sql::statement::arguments::{element_type, has_fraction};

/// Longer texts are not cached.
const LONGEST: usize = 8 << 10;

/// A text under definitions of one scope, and the kinds of its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Two scopes never have the same.
    definitions: i64,
    text: Arc<str>,
    kinds: Vec<u8>,
}

impl Shape {
    pub(crate) fn new(definitions: i64, text: &Arc<str>, args: &[SqlValue]) -> Self {
        let mut kinds = Vec::with_capacity(args.len());
        for arg in args {
            let kind = match arg {
                SqlValue::Null => 0,
                SqlValue::Bool(_) => 1,
                SqlValue::Int(int) => 2 + u8::from(i32::try_from(*int).is_err()),
                SqlValue::Real(_) => 4 + u8::from(has_fraction(arg)),
                SqlValue::Numeric(_) => 6 + u8::from(has_fraction(arg)),
                SqlValue::Blob(_) => 8,
                SqlValue::Json(_) => 9,
                SqlValue::Array(elements) => {
                    kinds.extend(element_type(elements).to_le_bytes());
                    11 + u8::from(has_fraction(arg))
                }
                _ => 10,
            };
            kinds.push(kind);
        }
        Self { definitions, text: Arc::clone(text), kinds }
    }
}

/// The types that were found.
#[derive(Debug)]
pub(crate) struct ParameterTypes(WeightedCache<Shape, Vec<Oid>>);

impl Default for ParameterTypes {
    fn default() -> Self {
        Self(WeightedCache::new(2 << 20))
    }
}

impl ParameterTypes {
    pub(crate) fn get(&self, shape: &Shape) -> Option<Vec<Oid>> {
        self.0.get(shape)
    }

    /// How often the types of a statement were known, and how often they were not.
    pub(crate) fn uses(&self) -> (u64, u64) {
        self.0.uses()
    }

    pub(crate) fn put(&self, shape: Shape, types: Vec<Oid>) {
        if shape.text.len() <= LONGEST {
            let weight = shape.text.len() + shape.kinds.len() * 5 + 160;
            self.0.put(shape, types, weight);
        }
    }
}
