//! The lines of a dump: `docs/spec/postgres-sql-dump.md`.

use memory_sql::{Counts, DumpLine, Header, Part, Table};
use memory_validator::StatementKind;
use serde::{Deserialize, Serialize};

/// One line. A row belongs to the table named last before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// The first line.
    MemorySqlDump(Header),
    /// A type, sequence, constraint, index, view or comment; before the tables or behind them, as they need each other.
    Object(Object),
    /// A table. Its rows follow, if it has any.
    Table(Table),
    /// Values as the engine prints them, in the order of the table's columns.
    Row(Vec<Option<String>>),
    /// The column that a sequence goes with.
    Owned(Owned),
    /// Where a sequence stands.
    Sequence(Sequence),
    /// What a dump cannot hold, with the reason.
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
    /// Its own, or that of the table whose identity it counts.
    pub(crate) name: String,
    /// The identity column; its sequence has a name of the engine's making.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<String>,
    pub(crate) value: i64,
    /// Whether the value was handed out.
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
    /// The kind that a definition is of; `None` for one that is told in a line of its own.
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

    /// What its text must be.
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

/// What the text of a table must be.
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
