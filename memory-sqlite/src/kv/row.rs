//! Encoding entries as rows, and decoding.

use std::borrow::Cow;
use std::sync::OnceLock;

use memory_core::{Entry, Key, Metadata, Result, Source};
use rusqlite::Row;

use crate::error::{Unreadable, malformed};
use crate::file::column::{time, unsigned};

/// Columns of an entry, in the order [`read`] expects, from `entry e LEFT JOIN body b ON b.id = e.body`.
const COLUMNS: &str = "e.key, e.version, e.born, e.created_at, e.updated_at, e.expires_at, e.accesses, \
     e.source, coalesce(e.metadata, b.metadata), coalesce(e.text, b.text), coalesce(e.value, b.value)";

/// A statement that includes the entry columns.
pub(crate) struct Sql(OnceLock<String>, &'static str);

impl Sql {
    /// `{columns}` in the text stands for [`COLUMNS`].
    pub(crate) const fn new(text: &'static str) -> Self {
        Self(OnceLock::new(), text)
    }

    pub(crate) fn get(&self) -> &str {
        self.0.get_or_init(|| self.1.replace("{columns}", COLUMNS))
    }
}

/// An entry, with fields that only this crate needs.
#[derive(Clone, Debug)]
pub(crate) struct StoredEntry {
    pub(crate) entry: Entry,
    /// The number of the scope's change that created it: tells an entry from a later one with the same key.
    pub(crate) born: i64,
}

/// Reads a row of [`COLUMNS`].
pub(crate) fn read(row: &Row<'_>) -> Result<StoredEntry, Unreadable> {
    read_parts(row, text(row, 8)?, text(row, 9)?, text(row, 10)?)
}

/// Reads a row of [`COLUMNS`] whose last three columns are in a row of `body`.
pub(crate) fn read_with_body(row: &Row<'_>, body: &Row<'_>) -> Result<StoredEntry, Unreadable> {
    read_parts(row, text(body, 0)?, text(body, 1)?, text(body, 2)?)
}

fn text<'r>(row: &'r Row<'_>, index: usize) -> Result<Option<&'r str>, Unreadable> {
    row.get_ref(index)?.as_str_or_null().map_err(|_| malformed("text").into())
}

fn read_parts(
    row: &Row<'_>,
    metadata: Option<&str>,
    explicit: Option<&str>,
    value: Option<&str>,
) -> Result<StoredEntry, Unreadable> {
    let key = Key::new(text(row, 0)?.unwrap_or_default()).map_err(|_| malformed("key"))?;
    let value = value.and_then(|value| value.parse().ok()).ok_or_else(|| malformed("value"))?;
    let mut entry = Entry::new(key, value, unsigned(row.get(1)?, "version")?, time(row.get(3)?)?);
    entry.updated_at = time(row.get(4)?)?;
    entry.expires_at = row.get::<_, Option<i64>>(5)?.map(time).transpose()?;
    entry.access_count = unsigned(row.get(6)?, "access count")?;
    entry.source = text(row, 7)?.map(source).transpose()?;
    if let Some(metadata) = metadata {
        entry.metadata = decode_metadata(metadata)?;
    }
    entry.text = explicit.map(str::to_owned);
    Ok(StoredEntry { entry, born: row.get(2)? })
}

pub(crate) fn source(label: &str) -> Result<Source> {
    Source::new(label).map_err(|_| malformed("source"))
}

/// Metadata as a JSON object; `None` if empty. Rust prints the shortest digits that read back as the same float.
pub(crate) fn encode_metadata(metadata: &Metadata) -> Option<String> {
    metadata.to_json_text(|float| format!("{float:?}"), |text| Cow::Borrowed(text))
}

/// The inverse of [`encode_metadata`].
pub(crate) fn decode_metadata(text: &str) -> Result<Metadata> {
    Metadata::from_json_text(text, |text| text).ok_or_else(|| malformed("metadata"))
}
