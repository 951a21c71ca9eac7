//! Caches the parameter types of statements, so that a repeated statement takes one round trip.

use std::sync::Arc;

use memory_core::sql::SqlValue;
use memory_sql::WeightedCache;

use crate::sql::protocol::Oid;

/// Longer texts are not cached.
const LONGEST: usize = 8 << 10;

/// A text, and the kinds of its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    text: Arc<str>,
    kinds: Vec<u8>,
}

impl Shape {
    pub(crate) fn new(text: &Arc<str>, args: &[SqlValue]) -> Self {
        let kinds = args
            .iter()
            .map(|arg| match arg {
                SqlValue::Null => 0,
                SqlValue::Bool(_) => 1,
                SqlValue::Int(int) => 2 + u8::from(i32::try_from(*int).is_err()),
                SqlValue::Real(real) => 4 + u8::from(real.fract() != 0.0),
                SqlValue::Numeric(text) => 6 + u8::from(text.contains(['.', 'e', 'E', 'N'])),
                SqlValue::Blob(_) => 8,
                SqlValue::Json(_) => 9,
                _ => 10,
            })
            .collect();
        Self { text: Arc::clone(text), kinds }
    }
}

/// The types that worked last.
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

    pub(crate) fn put(&self, shape: Shape, types: Vec<Oid>) {
        if shape.text.len() <= LONGEST {
            let weight = shape.text.len() + shape.kinds.len() * 5 + 160;
            self.0.put(shape, types, weight);
        }
    }
}
