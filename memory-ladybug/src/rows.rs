//! Values of the engine.

use lbug::{LogicalType, Value};
use memory_core::sql::SqlValue;
use memory_core::{Error, ErrorKind, Result};
use memory_hierarchical::rows;

/// The values of a row, taken in order. A property that was never set counts as empty.
pub(crate) struct Cells(std::vec::IntoIter<Value>);

impl Cells {
    pub(crate) fn of(row: Vec<Value>) -> Self {
        Self(row.into_iter())
    }

    /// The next value as it is; null after the last.
    pub(crate) fn value(&mut self) -> Value {
        self.0.next().unwrap_or(Value::Null(LogicalType::Any))
    }

    pub(crate) fn count(&mut self) -> Result<u64> {
        u64::try_from(rows::Cells::int(self)?).map_err(|_| other_type())
    }
}

impl rows::Cells for Cells {
    type Fault = Error;

    fn text(&mut self) -> Result<String> {
        match self.0.next() {
            Some(Value::String(text)) => Ok(text),
            Some(Value::Null(_)) => Ok(String::new()),
            _ => Err(other_type()),
        }
    }

    fn real(&mut self) -> Result<f64> {
        match self.0.next() {
            Some(Value::Double(number)) => Ok(number),
            Some(Value::Null(_)) => Ok(0.0),
            _ => Err(other_type()),
        }
    }

    fn int(&mut self) -> Result<i64> {
        match self.0.next() {
            Some(Value::Int64(number)) => Ok(number),
            Some(Value::Null(_)) => Ok(0),
            _ => Err(other_type()),
        }
    }

    /// What is empty becomes the first of `[]` and `{}` that may stand there: no tags, or no metadata.
    fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        let written = self.text()?;
        let read = if written.is_empty() {
            serde_json::from_str("{}").or_else(|_| serde_json::from_str("[]"))
        } else {
            serde_json::from_str(&written)
        };
        read.map_err(|error| {
            Error::new(ErrorKind::Corrupt, "a memory's tags or metadata are not the JSON they were given")
                .with_source(error)
        })
    }
}

fn other_type() -> Error {
    Error::new(ErrorKind::Corrupt, "a property of a memory or an edge has another type than it should")
}

pub(crate) fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

pub(crate) fn texts<'a>(all: impl IntoIterator<Item = &'a str>) -> Value {
    Value::List(LogicalType::String, all.into_iter().map(text).collect())
}

pub(crate) fn int(number: u64) -> Value {
    Value::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A value of a row to write.
pub(crate) fn value(value: &SqlValue) -> Value {
    match value {
        SqlValue::Text(text) => Value::String(text.clone()),
        SqlValue::Real(number) => Value::Double(*number),
        SqlValue::Int(number) => Value::Int64(*number),
        _ => Value::Null(LogicalType::Any),
    }
}

/// Rows as one value: a list of structures with these members.
pub(crate) fn list<'a>(columns: &[&str], rows: impl Iterator<Item = &'a [SqlValue]>) -> Value {
    // An empty list needs its type too. Only rows of memories are written so, which have no integers.
    let of = |column: &&str| {
        let kind = if *column == "confidence" { LogicalType::Double } else { LogicalType::String };
        ((*column).to_owned(), kind)
    };
    let fields = columns.iter().map(of).collect();
    let member = |(column, cell): (&&str, &SqlValue)| ((*column).to_owned(), value(cell));
    let row = |row: &[SqlValue]| Value::Struct(columns.iter().zip(row).map(member).collect());
    Value::List(LogicalType::Struct { fields }, rows.map(row).collect())
}
