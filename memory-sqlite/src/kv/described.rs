//! The filterable fields of a stored entry, read without its value.

use memory_core::filter::FilterView;
use memory_core::{Metadata, Result, SearchQuery, Source, Timestamp};
use rusqlite::{Connection, Row, params};

use super::row;
use crate::error::{Unreadable, malformed};
use crate::file::column::time;

/// The filterable fields of an entry.
#[derive(Debug)]
pub(crate) struct Described {
    metadata: Metadata,
    source: Option<Source>,
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
}

impl Described {
    /// For one key.
    pub(crate) const OF_KEY: &str = "SELECT e.created_at, e.updated_at, e.expires_at, e.source, \
         coalesce(e.metadata, b.metadata) FROM entry e LEFT JOIN body b ON b.id = e.body \
         WHERE e.space = ?1 AND e.key = ?2";
    /// For every vector of a model, with the vector's id as the last column.
    pub(crate) const OF_VECTORS: &str = "SELECT e.created_at, e.updated_at, e.expires_at, e.source, \
         coalesce(e.metadata, b.metadata), v.id FROM vector v CROSS JOIN entry e ON e.space = v.space AND e.key = v.key \
         LEFT JOIN body b ON b.id = e.body WHERE v.space = ?1 AND v.model = ?2 ORDER BY v.space, v.key";

    /// Reads the first five columns of a row.
    pub(crate) fn read(row: &Row<'_>) -> Result<Self, Unreadable> {
        let text = |index: usize| -> Result<Option<&str>, Unreadable> {
            row.get_ref(index)?.as_str_or_null().map_err(|_| malformed("text").into())
        };
        Ok(Self {
            metadata: text(4)?.map(row::decode_metadata).transpose()?.unwrap_or_default(),
            source: text(3)?.map(row::source).transpose()?,
            created_at: time(row.get(0)?)?,
            updated_at: time(row.get(1)?)?,
            expires_at: row.get::<_, Option<i64>>(2)?.map(time).transpose()?,
        })
    }

    pub(crate) fn view(&self) -> FilterView<'_> {
        FilterView {
            metadata: &self.metadata,
            source: self.source.as_ref(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            expires_at: self.expires_at,
        }
    }
}

/// Decides which entries may be hits.
pub(crate) struct Screen<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) space: i64,
    pub(crate) query: &'a SearchQuery,
}

impl Screen<'_> {
    pub(crate) fn passes(&mut self, key: &str) -> Result<bool, Unreadable> {
        if !key.starts_with(&self.query.prefix) {
            return Ok(false);
        }
        let Some(filter) = &self.query.filter else { return Ok(true) };
        let mut statement = self.connection.prepare_cached(Described::OF_KEY)?;
        let mut rows = statement.query(params![self.space, key])?;
        match rows.next()? {
            Some(row) => Ok(filter.matches(Described::read(row)?.view())),
            None => Ok(false),
        }
    }
}
