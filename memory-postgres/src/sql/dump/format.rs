//! The lines of a dump: `docs/spec/postgres-sql-dump.md`.

use memory_sql::{Counts, DumpLine, Header, Part, Table};
use memory_validator::StatementKind;
use serde::{Deserialize, Serialize};

/// One line. A row belongs to the last table named before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// The first line.
    MemorySqlDump(Header),
    /// A type, sequence, constraint, index, view or comment; before or after the tables, as dependencies require.
    Object(Object),
    /// A table. Its rows follow, if it has any.
    Table(Table),
    /// Values as the engine prints them, in the order of the table's columns.
    Row(Vec<Option<String>>),
    /// The column that owns a sequence.
    Owned(Owned),
    /// The position of a sequence.
    Sequence(Sequence),
    /// Something a dump cannot hold, with the reason.
    Skipped(String),
    /// The last line.
    End(Counts),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) sql: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owned {
    pub(crate) sequence: String,
    pub(crate) table: String,
    pub(crate) column: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sequence {
    /// The sequence's name, or that of the table whose identity column it counts.
    pub(crate) name: String,
    /// The identity column; the engine names its sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<String>,
    pub(crate) value: i64,
    /// Whether the value was already returned.
    pub(crate) is_called: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Type,
    Sequence,
    /// A constraint.
    Alteration,
    Index,
    View,
    Comment,
}

impl Kind {
    /// The kind of a definition; `None` for one that has its own kind of line.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "type" => Self::Type,
            "sequence" => Self::Sequence,
            "alteration" => Self::Alteration,
            "index" => Self::Index,
            "view" => Self::View,
            "comment" => Self::Comment,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Sequence => "sequence",
            Self::Alteration => "constraint",
            Self::Index => "index",
            Self::View => "view",
            Self::Comment => "comment",
        }
    }

    /// The kinds of statement that its text may be.
    pub(crate) fn statements(self) -> &'static [StatementKind] {
        match self {
            Self::Type => &[StatementKind::CreateType],
            Self::Sequence => &[StatementKind::CreateSequence],
            Self::Alteration => &[StatementKind::Alter],
            Self::Index => &[StatementKind::CreateIndex],
            Self::View => &[StatementKind::CreateView],
            Self::Comment => &[StatementKind::Comment],
        }
    }
}

impl DumpLine for Line {
    const DIALECT: &'static str = "postgres";

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

/// The kinds of statement that a table's text may be.
pub(crate) const TABLES: &[StatementKind] = &[StatementKind::CreateTable];

#[cfg(test)]
mod tests {
    use memory_sql::{decode_line, encode_line};

    use super::*;

    #[test]
    fn lines_survive() {
        for line in [
            Line::MemorySqlDump(Header::of(Line::DIALECT)),
            Line::Row(vec![None, Some(String::new()), Some("é\u{1F600}\"\\\n\u{1}".to_owned())]),
            Line::Sequence(Sequence { name: "s".to_owned(), column: None, value: i64::MIN, is_called: true }),
            Line::Sequence(Sequence {
                name: "t".to_owned(),
                column: Some("id".to_owned()),
                value: 1,
                is_called: false,
            }),
            Line::End(Counts { tables: 1, rows: 2 }),
        ] {
            assert_eq!(decode_line::<Line>(&encode_line(&line).unwrap(), 1).unwrap(), line);
        }
    }
}
