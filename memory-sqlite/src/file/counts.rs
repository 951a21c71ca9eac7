//! Counters of a scope, computed from its rows.

use memory_core::{ScopeDigest, Timestamp};
use rusqlite::{Connection, params};

use super::column::unsigned;
use crate::error::Unreadable;

/// Totals of a scope's rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) expiring: u64,
    /// The highest version; 0: none, or none that a write of ours assigned.
    pub(crate) version: u64,
}

impl Counted {
    pub(crate) fn of(connection: &Connection, space: i64) -> Result<Self, Unreadable> {
        let numbers = connection
            .prepare_cached(
                "SELECT count(*), coalesce(sum(size), 0), count(expires_at), max(coalesce(max(version), 0), 0) FROM entry \
                 WHERE space = ?1",
            )?
            .query_row(params![space], |row| {
                Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
            })?;
        let [entries, bytes, expiring, version] = numbers;
        Ok(Self {
            entries: unsigned(entries, "count")?,
            bytes: unsigned(bytes, "size")?,
            expiring: unsigned(expiring, "count")?,
            version: unsigned(version, "version")?,
        })
    }
}

/// Number of vectors of a scope's entries.
pub(crate) fn vectors_of(connection: &Connection, space: i64) -> Result<u64, Unreadable> {
    let vectors = connection
        .prepare_cached("SELECT count(*) FROM vector WHERE space = ?1")?
        .query_row([space], |row| row.get(0))?;
    Ok(unsigned(vectors, "count")?)
}

/// Expired rows that still exist, and their bytes.
pub(crate) fn expired(
    connection: &Connection,
    space: i64,
    expiring: i64,
    now: Timestamp,
) -> rusqlite::Result<(i64, i64)> {
    if expiring == 0 {
        return Ok((0, 0));
    }
    connection
        .prepare_cached(
            "SELECT count(*), coalesce(sum(size), 0) FROM entry WHERE space = ?1 AND expires_at <= ?2",
        )?
        .query_row(params![space, now.as_millis()], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Number of rows, bytes, and rows with an expiry, of a scope that another program changed last.
pub(crate) fn counted(connection: &Connection, space: i64) -> rusqlite::Result<(i64, i64, i64)> {
    connection
        .prepare_cached(
            "SELECT count(*), coalesce(sum(size), 0), count(expires_at) FROM entry WHERE space = ?1",
        )?
        .query_row([space], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

/// The highest version among the erased entries of a scope; 0: none.
pub(crate) fn erased_version(connection: &Connection, scope: &ScopeDigest) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(version), 0) FROM tombstone WHERE scope = ?1")?
        .query_row([scope.as_bytes()], |row| row.get(0))
}
