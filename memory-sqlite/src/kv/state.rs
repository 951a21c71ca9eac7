//! The state of a scope in a reader's snapshot.

use memory_core::ScopeDigest;
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::Unreadable;
use crate::file::column::unsigned;

/// The state of a scope in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeState {
    pub(crate) space: i64,
    pub(crate) changes: i64,
    /// Rows, including expired ones.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Vectors of all models, including those of expired rows.
    pub(crate) vectors: u64,
    /// Rows of `text_segment`.
    pub(crate) segments: u64,
    /// Whether another program has changed the rows since our last write.
    pub(crate) recount: bool,
}

impl ScopeState {
    pub(crate) fn read(connection: &Connection, digest: &ScopeDigest) -> Result<Option<Self>, Unreadable> {
        let found = connection
            .prepare_cached(
                "SELECT space, changes, entries, bytes, vectors, segments, recount <> 0 FROM scope WHERE digest = ?1",
            )?
            .query_row([digest.as_bytes()], |row| {
                let counters = [row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
                Ok((row.get(0)?, row.get(1)?, counters, row.get(6)?))
            })
            .optional()?;
        let Some((space, changes, [entries, bytes, vectors, segments], recount)) = found else {
            return Ok(None);
        };
        Ok(Some(Self {
            space,
            changes,
            entries: unsigned(entries, "counter")?,
            bytes: unsigned(bytes, "counter")?,
            vectors: unsigned(vectors, "counter")?,
            segments: unsigned(segments, "counter")?,
            recount,
        }))
    }
}
