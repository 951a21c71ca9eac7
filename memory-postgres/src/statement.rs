//! Values of a statement whose text is put together for one call.

use tokio_postgres::types::{ToSql, Type};

/// Parameters, numbered in the order in which they are added.
#[derive(Debug, Default)]
pub(crate) struct Values(Vec<(Box<dyn ToSql + Sync + Send>, Type)>);

impl Values {
    /// Adds a value; returns how the statement refers to it, its type included.
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

    /// As the driver takes them.
    pub(crate) fn parameters(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.0.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect()
    }
}
