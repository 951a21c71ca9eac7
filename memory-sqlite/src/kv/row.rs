//! Encoding entries as rows, and decoding.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use memory_core::json::Json;
use memory_core::{Entry, Key, Metadata, Result, Scalar, Source};
use rusqlite::Row;
use serde_json::value::RawValue;

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
#[derive(Debug)]
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

/// Metadata as a JSON object; `None` if empty. Numbers with a fraction or exponent are floats.
pub(crate) fn encode_metadata(metadata: &Metadata) -> Option<String> {
    if metadata.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(metadata.size_bytes() + 8 * metadata.len());
    for (name, value) in metadata.iter() {
        out.push(if out.is_empty() { '{' } else { ',' });
        out.push_str(Json::string(name).as_str());
        out.push(':');
        // Writing to a string does not fail.
        let _ = match value {
            Scalar::Bool(value) => write!(out, "{value}"),
            Scalar::Int(value) => write!(out, "{value}"),
            // Rust prints the shortest digits that read back as the same number, recognisably a float.
            Scalar::Float(value) => write!(out, "{value:?}"),
            Scalar::Text(value) => write!(out, "{}", Json::string(value)),
        };
    }
    out.push('}');
    Some(out)
}

/// The inverse of [`encode_metadata`]. serde_json's own floats may be off by the last bit; Rust's are exact.
pub(crate) fn decode_metadata(text: &str) -> Result<Metadata> {
    let bad = || malformed("metadata");
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(|_| bad())?;
    members
        .into_iter()
        .map(|(name, raw)| {
            let raw = raw.get();
            let value = match raw.as_bytes().first() {
                Some(b'"') => Scalar::Text(serde_json::from_str(raw).map_err(|_| bad())?),
                Some(b't') => Scalar::Bool(true),
                Some(b'f') => Scalar::Bool(false),
                _ => match raw.parse::<i64>() {
                    Ok(number) => Scalar::Int(number),
                    Err(_) => Scalar::Float(raw.parse().map_err(|_| bad())?),
                },
            };
            Ok((name, value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_survives_exactly() {
        let metadata = Metadata::new()
            .with("quote\"\\\u{7}", "naïve \u{1F600} \"")
            .with("int", i64::MIN)
            .with("big", 9_007_199_254_740_993_i64)
            .with("one", 1.0)
            .with("tiny", 5e-324)
            .with("huge", f64::MAX)
            .with("third", 1.0 / 3.0)
            .with("zero", -0.0)
            .with("yes", true)
            .with("no", false);
        let text = encode_metadata(&metadata).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let back = decode_metadata(&text).unwrap();
        for ((name, a), (_, b)) in metadata.iter().zip(back.iter()) {
            match (a, b) {
                (Scalar::Float(a), Scalar::Float(b)) => assert_eq!(a.to_bits(), b.to_bits(), "{name}"),
                (Scalar::Int(a), Scalar::Int(b)) => assert_eq!(a, b, "{name}"),
                (a, b) => assert_eq!(a, b, "{name}"),
            }
        }
        assert_eq!(back.len(), metadata.len());
        assert_eq!(encode_metadata(&Metadata::new()), None);
    }
}
