//! Decoding columns as numbers and times.

use memory_core::{Result, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::malformed;

/// One column of a row.
pub(crate) fn column<'r, T: FromSql<'r>>(row: &'r Row, at: usize, what: &'static str) -> Result<T> {
    row.try_get(at).map_err(|_| malformed(what))
}

pub(crate) fn unsigned(row: &Row, at: usize, what: &'static str) -> Result<u64> {
    u64::try_from(column::<i64>(row, at, what)?).map_err(|_| malformed(what))
}

pub(crate) fn time(millis: i64) -> Result<Timestamp> {
    Timestamp::from_millis(millis).map_err(|_| malformed("time"))
}

/// As a `bigint`: versions, counts and sizes stay far below 2^63.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
