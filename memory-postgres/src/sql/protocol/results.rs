//! Results: converting the engine's texts to values, and applying the limits.

use memory_core::Json;
use memory_core::sql::{Rows, SqlValue};

use crate::sql::protocol::{Column, Oid, Row};

/// A value of this type; types without a counterpart stay text.
pub(crate) fn decode(oid: Oid, bytes: &[u8]) -> SqlValue {
    let text = String::from_utf8_lossy(bytes);
    let known = match oid {
        16 => Some(SqlValue::Bool(&*text == "t")),
        20 | 21 | 23 | 26 => text.parse().ok().map(SqlValue::Int),
        700 | 701 => text.parse().ok().map(SqlValue::Real),
        1700 => Some(match &*text {
            "Infinity" => SqlValue::Real(f64::INFINITY),
            "-Infinity" => SqlValue::Real(f64::NEG_INFINITY),
            _ => SqlValue::Numeric(text.clone().into_owned()),
        }),
        17 => unhex(bytes).map(SqlValue::Blob),
        // JSON nested too deeply for a JSON value stays text.
        114 | 3802 => Json::parse(text.clone().into_owned()).ok().map(SqlValue::Json),
        _ => None,
    };
    known.unwrap_or_else(|| SqlValue::Text(text.into_owned()))
}

fn unhex(bytes: &[u8]) -> Option<Vec<u8>> {
    let digits = bytes.strip_prefix(b"\\x")?;
    digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                Some(digit(*high)? << 4 | digit(*low)?)
            }
            _ => None,
        })
        .collect()
}

fn size(value: &SqlValue) -> usize {
    match value {
        SqlValue::Text(text) | SqlValue::Numeric(text) => text.len(),
        SqlValue::Blob(bytes) => bytes.len(),
        SqlValue::Json(json) => json.as_str().len(),
        _ => 0,
    }
}

/// Collects rows up to the limits.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    columns: Option<Vec<Column>>,
    rows: Vec<Vec<SqlValue>>,
    bytes: usize,
    max_rows: usize,
    max_bytes: usize,
    /// A limit was reached: no further row is kept.
    is_full: bool,
    /// Whether the statement may be ended once it is full: it only reads.
    only_reads: bool,
    is_raw: bool,
    raw: Vec<Vec<Option<String>>>,
}

impl Sink {
    pub(crate) fn new(max_rows: usize, max_bytes: usize, only_reads: bool) -> Self {
        Self { max_rows, max_bytes, only_reads, ..Self::default() }
    }

    /// For the runtime's own queries.
    pub(crate) fn texts() -> Self {
        Self::new(100_000, 64 << 20, false)
    }

    /// For rows whose values stay the texts that the engine prints.
    pub(crate) fn raw(max_bytes: usize) -> Self {
        Self { is_raw: true, ..Self::new(usize::MAX, max_bytes, false) }
    }

    pub(crate) fn into_raw(self) -> Vec<Vec<Option<String>>> {
        self.raw
    }

    /// The values as texts, without those that are NULL.
    pub(crate) fn into_texts(self) -> Vec<Vec<String>> {
        let text = |value| match value {
            SqlValue::Text(text) | SqlValue::Numeric(text) => Some(text),
            SqlValue::Int(int) => Some(int.to_string()),
            SqlValue::Bool(bool) => Some(bool.to_string()),
            _ => None,
        };
        self.rows.into_iter().map(|row| row.into_iter().filter_map(text).collect()).collect()
    }

    /// Whether the statement keeps sending for nothing. If the row limit cut it, it has stopped on its own.
    pub(crate) fn wants_no_more(&self) -> bool {
        self.is_full && self.only_reads && self.rows.len() < self.max_rows
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn describe(&mut self, columns: Vec<Column>) {
        self.columns = Some(columns);
    }

    /// The longest row that can still fit.
    pub(crate) fn longest(&self) -> usize {
        if self.is_full {
            return 0;
        }
        // Bytes are written with two digits each; the size of numbers is ignored.
        let width = self.columns.as_ref().map_or(0, Vec::len);
        self.max_bytes.saturating_sub(self.bytes).saturating_mul(2).saturating_add(width * 400 + 4_096)
    }

    pub(crate) fn cut(&mut self) {
        self.is_full = true;
    }

    pub(crate) fn push(&mut self, row: &Row) {
        if self.is_full {
            return;
        }
        if self.is_raw {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            self.raw.push(row.values().map(|value| value.map(text)).collect());
            return;
        }
        let columns = self.columns.as_deref().unwrap_or_default();
        let values: Vec<SqlValue> = row
            .values()
            .zip(columns)
            .map(|(value, column)| value.map_or(SqlValue::Null, |bytes| decode(column.oid, bytes)))
            .collect();
        let bytes: usize = values.iter().map(size).sum();
        if self.rows.len() >= self.max_rows || self.bytes + bytes > self.max_bytes {
            self.cut();
            return;
        }
        self.bytes += bytes;
        self.rows.push(values);
    }

    /// The rows; `None` if the statement returns none.
    pub(crate) fn rows(self) -> Option<Rows> {
        let columns = self.columns.filter(|columns| !columns.is_empty())?;
        let mut rows = Rows::default();
        rows.columns = columns.into_iter().map(|column| column.name).collect();
        rows.rows = self.rows;
        rows.truncated = self.is_full;
        Some(rows)
    }
}

/// Rows written, according to a command tag.
pub(crate) fn affected(tag: &str) -> u64 {
    let mut words = tag.split(' ');
    match words.next() {
        Some("INSERT" | "UPDATE" | "DELETE" | "MERGE") => {
            words.next_back().and_then(|count| count.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_types() {
        assert_eq!(decode(20, b"9007199254740993"), SqlValue::Int(9_007_199_254_740_993));
        assert_eq!(decode(1700, b"1.10"), SqlValue::Numeric("1.10".into()));
        assert_eq!(decode(17, b"\\x00ff"), SqlValue::Blob(vec![0, 255]));
        assert_eq!(decode(17, b"\\x"), SqlValue::Blob(vec![]));
        assert_eq!(decode(701, b"-Infinity"), SqlValue::Real(f64::NEG_INFINITY));
        assert!(matches!(decode(701, b"NaN"), SqlValue::Real(real) if real.is_nan()));
        assert_eq!(decode(16, b"f"), SqlValue::Bool(false));
        assert_eq!(decode(90_000, b"happy"), SqlValue::Text("happy".into()));
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert_eq!(decode(3802, deep.as_bytes()), SqlValue::Text(deep));
    }

    #[test]
    fn tags_count_written_rows() {
        for (tag, count) in
            [("INSERT 0 3", 3), ("UPDATE 2", 2), ("SELECT 9", 0), ("CREATE TABLE", 0), ("", 0)]
        {
            assert_eq!(affected(tag), count, "{tag}");
        }
    }
}
