//! Converting arguments and results.

use memory_core::sql::{SqlValue, no_arrays};
use memory_core::{Error, Result};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// An argument in the engine's types.
///
/// A boolean becomes 0 or 1. A decimal or JSON value becomes its text: SQLite has neither.
pub(super) struct Argument<'a>(ValueRef<'a>);

impl<'a> Argument<'a> {
    /// Fails with `invalid_argument` for NaN, which SQLite would store as NULL, and for an array; `internal` for a
    /// text that was not embedded.
    pub(super) fn new(value: &'a SqlValue) -> Result<Self> {
        let value = match value {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Bool(value) => ValueRef::Integer(i64::from(*value)),
            SqlValue::Int(value) => ValueRef::Integer(*value),
            SqlValue::Real(value) if value.is_nan() => {
                return Err(Error::invalid(
                    "SQLite has no NaN and would store NULL in its place; pass null, or the text 'NaN'",
                ));
            }
            SqlValue::Real(value) => ValueRef::Real(*value),
            SqlValue::Numeric(text) | SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlValue::Blob(bytes) => ValueRef::Blob(bytes),
            SqlValue::Json(json) => ValueRef::Text(json.as_str().as_bytes()),
            SqlValue::Embed(_) => return Err(Error::internal("an argument was not embedded")),
            SqlValue::Array(_) => return Err(no_arrays()),
            _ => return Err(Error::invalid("SQLite does not support this kind of argument")),
        };
        Ok(Self(value))
    }
}

impl ToSql for Argument<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.0))
    }
}

/// EXPLAIN identifies a virtual table by its address in this process's memory, which concerns nobody else.
pub(super) fn without_address(value: SqlValue) -> SqlValue {
    match value {
        SqlValue::Text(text) if text.starts_with("vtab:") => SqlValue::Text("vtab".to_owned()),
        other => other,
    }
}

/// A value of a result, which counts against the byte limit.
/// Fails with `invalid_argument` for text that is not UTF-8: returned as text it would be invalid, as bytes another
/// value.
pub(super) fn read(value: ValueRef<'_>, column: &str) -> Result<SqlValue> {
    Ok(match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(value) => SqlValue::Int(value),
        ValueRef::Real(value) => SqlValue::Real(value),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => SqlValue::Text(text.to_owned()),
            Err(_) => {
                return Err(Error::invalid(format!(
                    "column `{column}` holds text that is not UTF-8; read it as CAST(… AS BLOB)"
                )));
            }
        },
    })
}

/// A value's size in a result.
pub(super) fn size(value: ValueRef<'_>) -> usize {
    8 + match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 8,
    }
}
