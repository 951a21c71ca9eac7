//! Parameters of statements.

use std::fmt::Write as _;

use memory_core::{EmbeddingModel, Expect, Quota, Ttl};
use tokio_postgres::types::{ToSql, Type};

use crate::store::columns::signed;

/// A value of a statement with its type.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// Parameters, numbered in the order they are added.
#[derive(Debug, Default)]
pub(crate) struct Values(Vec<(Box<dyn ToSql + Sync + Send>, Type)>);

impl Values {
    /// Adds a value and returns its placeholder.
    fn add(&mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) -> String {
        self.0.push((Box::new(value), kind));
        format!("${}", self.0.len())
    }

    pub(crate) fn text(&mut self, value: impl Into<String>) -> String {
        self.add(value.into(), Type::TEXT)
    }

    pub(crate) fn texts(&mut self, value: Vec<String>) -> String {
        self.add(value, Type::TEXT_ARRAY)
    }

    pub(crate) fn int2(&mut self, value: i16) -> String {
        self.add(value, Type::INT2)
    }

    pub(crate) fn int4(&mut self, value: i32) -> String {
        self.add(value, Type::INT4)
    }

    pub(crate) fn int8(&mut self, value: impl Into<Option<i64>>) -> String {
        self.add(value.into(), Type::INT8)
    }

    pub(crate) fn int8s(&mut self, value: Vec<i64>) -> String {
        self.add(value, Type::INT8_ARRAY)
    }

    pub(crate) fn float4s(&mut self, value: Vec<f32>) -> String {
        self.add(value, Type::FLOAT4_ARRAY)
    }

    /// The parameters for the driver.
    pub(crate) fn parameters(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.0.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect()
    }
}

/// A lifetime as passed to the functions: NULL keeps, -1 never expires.
pub(crate) fn ttl(ttl: Ttl) -> Option<i64> {
    match ttl {
        Ttl::Keep => None,
        Ttl::Never => Some(-1),
        Ttl::After(after) => Some(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)),
    }
}

/// A precondition as passed to the functions.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: i16,
    pub(crate) version: Option<i64>,
    pub(crate) sha256: Option<Vec<u8>>,
}

impl From<Expect> for Expected {
    fn from(expect: Expect) -> Self {
        let (kind, version, sha256) = match expect {
            Expect::Any => (0, None, None),
            Expect::Absent => (1, None, None),
            // No entry has a version beyond 63 bits.
            Expect::Version(version) => (2, Some(i64::try_from(version).unwrap_or(-1)), None),
            Expect::Sha256(hash) => (3, None, Some(hash.to_vec())),
        };
        Self { kind, version, sha256 }
    }
}

/// A quota as passed to the functions.
pub(crate) fn limits(quota: &Quota) -> (Option<i64>, Option<i64>) {
    (quota.max_entries.map(signed), quota.max_bytes.map(signed))
}

/// A model as passed to the functions; nulls if nothing is embedded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ModelValues<'a> {
    pub(crate) provider: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) dimensions: Option<i32>,
}

impl<'a> From<Option<&'a EmbeddingModel>> for ModelValues<'a> {
    fn from(model: Option<&'a EmbeddingModel>) -> Self {
        match model {
            Some(model) => Self {
                provider: Some(&model.provider),
                name: Some(&model.model),
                dimensions: Some(i32::try_from(model.dimensions).unwrap_or(i32::MAX)),
            },
            None => Self::default(),
        }
    }
}

impl ModelValues<'_> {
    pub(crate) fn values(&self) -> [Value<'_>; 3] {
        [(&self.provider, Type::TEXT), (&self.name, Type::TEXT), (&self.dimensions, Type::INT4)]
    }
}

/// An array of numbers in PostgreSQL's notation. A parameter can be an array of such texts, but not an array of arrays
/// of different lengths.
pub(crate) fn literal<T: std::fmt::Display>(numbers: &[T]) -> String {
    let mut out = String::with_capacity(2 + numbers.len() * 20);
    out.push('{');
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        // Writing to a string does not fail.
        let _ = write!(out, "{number}");
    }
    out.push('}');
    out
}
