//! The lines of a dump: `docs/spec/postgres-sql-dump.md`.

use memory_core::{Error, Result};
use memory_validator::StatementKind;
use serde::{Deserialize, Serialize};

/// The format that this version writes, and the only one that it reads.
pub(crate) const VERSION: u32 = 1;
pub(crate) const DIALECT: &str = "postgres";

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
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) dialect: String,
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
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) sql: String,
    /// What each row gives, in order; a generated column is not among them.
    pub(crate) columns: Vec<String>,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    pub(crate) tables: u64,
    pub(crate) rows: u64,
}

impl Line {
    /// The line without its end.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::internal("a line of a dump cannot be written").with_source(error))
    }

    /// # Errors
    /// `invalid_argument` for what is no line of a dump.
    pub(crate) fn decode(line: &[u8], number: u64) -> Result<Self> {
        serde_json::from_slice(line).map_err(|_| {
            // The parser's own words may quote the line.
            Error::invalid(format!("line {number} is none of a dump of a SQL database; nothing was restored"))
                .with_detail("line", number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive() {
        for line in [
            Line::MemorySqlDump(Header { version: VERSION, dialect: DIALECT.to_owned() }),
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
            assert_eq!(Line::decode(&line.encode().unwrap(), 1).unwrap(), line);
        }
    }

    #[test]
    fn what_is_no_line_is_refused_without_quoting_it() {
        for bad in ["", "{}", "secret", r#"{"row":["secret"]} x"#, r#"{"row":[1]}"#, r#"{"drop":"secret"}"#] {
            let error = Line::decode(bad.as_bytes(), 7).unwrap_err();
            assert!(
                error.message().contains("line 7") && !format!("{error:?}").contains("secret"),
                "{error:?}"
            );
        }
    }
}
