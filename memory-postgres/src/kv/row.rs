//! Encoding entries as rows, and decoding.

use memory_core::json::Json;
use memory_core::{Entry, Key, Metadata, Result, Source};
use tokio_postgres::Row;

use crate::error::malformed;
use crate::store::columns::{column, time, unsigned};

/// The number of [`COLUMNS`].
pub(crate) const ENTRY_COLUMNS: usize = 12;

/// An entry, with fields that only this crate needs.
#[derive(Debug)]
pub(crate) struct StoredEntry {
    pub(crate) entry: Entry,
    /// The `space` of its row.
    pub(crate) space: i64,
    /// The version that created it: tells an entry from a later one with the same key.
    pub(crate) born: i64,
}

/// Reads a row that begins with [`COLUMNS`].
pub(crate) fn read(row: &Row) -> Result<StoredEntry> {
    let key = Key::new(column::<&str>(row, 2, "key")?).map_err(|_| malformed("key"))?;
    let value = Json::parse(column::<&str>(row, 11, "value")?).map_err(|_| malformed("value"))?;
    let mut entry = Entry::new(key, value, unsigned(row, 3, "version")?, time(column(row, 4, "time")?)?);
    entry.updated_at = time(column(row, 5, "time")?)?;
    entry.expires_at = column::<Option<i64>>(row, 6, "time")?.map(time).transpose()?;
    entry.access_count = unsigned(row, 7, "access count")?;
    entry.source = column::<Option<&str>>(row, 8, "source")?.map(source).transpose()?;
    if let Some(metadata) = column::<Option<&str>>(row, 9, "metadata")? {
        entry.metadata = decode_metadata(metadata)?;
    }
    entry.text = column::<Option<String>>(row, 10, "text")?;
    Ok(StoredEntry { entry, space: column(row, 0, "space")?, born: column(row, 1, "version")? })
}

pub(crate) fn source(label: &str) -> Result<Source> {
    Source::new(label).map_err(|_| malformed("source"))
}

/// Metadata as the text of a jsonb object whose parts compare like [`Scalar::compare`](memory_core::Scalar::compare);
/// `None` if empty.
pub(crate) fn encode_metadata(metadata: &Metadata) -> Option<String> {
    metadata.to_json_text(decimal, without_nul)
}

/// A float as a decimal with a point, which sorts among integers and other such decimals like the float, and reads back
/// as the same float.
///
/// Up to 2^53 the shortest digits lie between the same two integers as the float; above it every float is an integer,
/// and is written out.
pub(crate) fn decimal(value: f64) -> String {
    if value.abs() >= 9_007_199_254_740_992.0 { format!("{value:.1}") } else { format!("{value:?}") }
}

/// Escapes NUL, which jsonb does not accept; order and equality by bytes are preserved.
pub(crate) fn without_nul(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains(['\0', '\u{1}']) {
        text.replace('\u{1}', "\u{1}\u{2}").replace('\0', "\u{1}\u{1}").into()
    } else {
        text.into()
    }
}

/// The inverse of [`without_nul`].
fn with_nul(text: String) -> String {
    if !text.contains('\u{1}') {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1}' if characters.next() == Some('\u{1}') => out.push('\0'),
            character => out.push(character),
        }
    }
    out
}

/// Decodes metadata as printed by jsonb; the inverse of [`encode_metadata`].
pub(crate) fn decode_metadata(text: &str) -> Result<Metadata> {
    Metadata::from_json_text(text, with_nul).ok_or_else(|| malformed("metadata"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_survives_exactly() {
        let metadata = Metadata::new()
            .with("quote\"\\", "naïve \u{1F600} \"")
            .with("nul", "\0\u{1}\0\0\u{2}a\u{1}\u{1}")
            .with("int", i64::MIN)
            .with("big", 9_007_199_254_740_993_i64)
            .with("one", 1.0)
            .with("tiny", 5e-324)
            .with("whole", 1_152_921_504_606_847_232.0)
            .with("third", 1.0 / 3.0)
            .with("yes", true)
            .with("no", false);
        let back = decode_metadata(&encode_metadata(&metadata).unwrap()).unwrap();
        // Compared as text, since scalars compare by value: 1 equals 1.0.
        assert_eq!(format!("{back:?}"), format!("{metadata:?}"));
    }

    #[test]
    fn order_by_bytes_survives_without_nul() {
        let texts = [
            "",
            "\0",
            "\0\0",
            "\0\u{1}",
            "\0\u{5}",
            "\u{1}",
            "\u{1}\0",
            "\u{1}\u{1}",
            "\u{1}\u{2}",
            "\u{2}",
            "a",
        ];
        for a in texts {
            for b in texts {
                assert_eq!(
                    a.as_bytes().cmp(b.as_bytes()),
                    without_nul(a).as_bytes().cmp(without_nul(b).as_bytes())
                );
            }
            assert_eq!(with_nul(without_nul(a).into_owned()), a);
            assert!(!without_nul(a).contains('\0'));
        }
    }
}
