//! The lines of a dump: `docs/spec/sqlite-sql-dump.md`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memory_core::Json;
use memory_core::sql::SqlValue;
use memory_sql::{Counts, DumpLine, Header, Part, Table};
use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};

/// One line. A row belongs to the last table named before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// The first line.
    MemorySqlDump(Header),
    /// A table, virtual or not. Its rows follow, if it has any.
    Table(Table),
    /// Values in the order of the table's columns.
    Row(Vec<Cell>),
    /// The next number of an AUTOINCREMENT.
    Sequence(Sequence),
    /// A setting of a full-text index.
    Setting(Setting),
    /// An index, view or trigger.
    Object(Object),
    /// A full-text index over another table, to be rebuilt from that table's rows.
    Rebuild(String),
    /// Planner statistics existed and must be computed again.
    Analyze(bool),
    /// Something a dump cannot hold, with the reason.
    Skipped(String),
    /// The last line.
    End(Counts),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sequence {
    pub(crate) table: String,
    pub(crate) value: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setting {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) value: Cell,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) sql: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Index,
    View,
    Trigger,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::View => "view",
            Self::Trigger => "trigger",
        }
    }
}

/// A value, encoded like an argument; text that is not UTF-8 as `{"$text": base64}`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Value(SqlValue),
    Text(Vec<u8>),
}

impl Cell {
    pub(crate) fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Value(SqlValue::Null),
            ValueRef::Integer(value) => Self::Value(SqlValue::Int(value)),
            ValueRef::Real(value) => Self::Value(SqlValue::Real(value)),
            ValueRef::Blob(bytes) => Self::Value(SqlValue::Blob(bytes.to_vec())),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Self::Value(SqlValue::Text(text.to_owned())),
                Err(_) => Self::Text(bytes.to_vec()),
            },
        }
    }

    /// Its placeholder in a statement, and the argument.
    pub(crate) fn bound(self) -> (&'static str, SqlValue) {
        match self {
            Self::Value(value) => ("?", value),
            Self::Text(bytes) => ("CAST(? AS TEXT)", SqlValue::Blob(bytes)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tagged {
    #[serde(rename = "$text")]
    text: String,
}

impl Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Text(bytes) => Tagged { text: STANDARD.encode(bytes) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let json = <Json as Deserialize>::deserialize(deserializer)?;
        if let Ok(tagged) = serde_json::from_str::<Tagged>(json.as_str()) {
            return STANDARD.decode(tagged.text).map(Self::Text).map_err(D::Error::custom);
        }
        match SqlValue::from_json(&json).map_err(D::Error::custom)? {
            // A dump holds only values that the engine can store.
            value @ (SqlValue::Null
            | SqlValue::Int(_)
            | SqlValue::Real(_)
            | SqlValue::Text(_)
            | SqlValue::Blob(_)) => Ok(Self::Value(value)),
            _ => Err(D::Error::custom("a row holds a value of a type that SQLite lacks")),
        }
    }
}

impl DumpLine for Line {
    const DIALECT: &'static str = "sqlite";

    fn part(&self) -> Part<'_> {
        match self {
            Self::MemorySqlDump(header) => Part::Header(header),
            Self::Table(_) => Part::Table,
            Self::Row(_) => Part::Row,
            Self::End(counts) => Part::End(*counts),
            _ => Part::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use memory_sql::{decode_line, encode_line};

    use super::*;

    #[test]
    fn values_survive_to_the_bit() {
        let texts: [&[u8]; 4] = [b"", b"a\0b", "é\u{1F600}\"\\\n".as_bytes(), b"\xff\xfe"];
        let reals = [
            0.0,
            -0.0,
            5.0,
            0.1 + 0.2,
            f64::MAX,
            f64::MIN_POSITIVE / 4.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e16,
        ];
        let mut cells: Vec<Cell> = texts.iter().map(|text| Cell::of(ValueRef::Text(text))).collect();
        cells.extend(reals.iter().map(|real| Cell::of(ValueRef::Real(*real))));
        cells.extend([i64::MIN, -1, 0, i64::MAX].map(|int| Cell::of(ValueRef::Integer(int))));
        cells.extend([
            Cell::of(ValueRef::Null),
            Cell::of(ValueRef::Blob(b"\x00\xff")),
            Cell::of(ValueRef::Blob(b"text")),
        ]);
        let line = encode_line(&Line::Row(cells)).unwrap();
        let back: Line = decode_line(&line, 1).unwrap();
        // Compared as text, since -0.0 equals 0.0.
        assert_eq!(encode_line(&back).unwrap(), line);
        let Line::Row(cells) = back else { panic!("no row") };
        assert!(
            matches!(cells[5], Cell::Value(SqlValue::Real(zero)) if zero.to_bits() == (-0.0_f64).to_bits())
        );
        assert!(matches!(cells[6], Cell::Value(SqlValue::Real(_))), "a whole real stays a real");
        assert_eq!(cells[3], Cell::Text(b"\xff\xfe".to_vec()));
    }

    #[test]
    fn a_text_to_embed_is_refused() {
        let error = decode_line::<Line>(br#"{"row":[{"$embed":"secret"}]}"#, 7).unwrap_err();
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}
