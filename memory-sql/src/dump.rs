//! What dumps of SQL databases have in common: a header, tables with their rows, counts at the end. Each line is a JSON
//! value; the lines of each dialect are specified in `docs/spec`.

use memory_core::sql::{RestoreMode, RestoreOutcome};
use memory_core::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// How many reasons for leaving something out are told; more are counted.
pub const MOST_SKIPPED: usize = 1_000;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// See [`VERSION`].
    pub version: u32,
    /// `sqlite` or `postgres`.
    pub dialect: String,
}

impl Header {
    /// The header of a dump in this dialect.
    #[must_use]
    pub fn of(dialect: &str) -> Self {
        Self { version: VERSION, dialect: dialect.to_owned() }
    }
}

/// A table. Its rows follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The statement that makes it.
    pub sql: String,
    /// The columns of each row, in order; generated columns are not among them.
    pub columns: Vec<String>,
}

/// What the dump holds, in its last line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Tables.
    pub tables: u64,
    /// Rows of all tables.
    pub rows: u64,
}

/// What a line means for the order of lines.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// The first line.
    Header(&'a Header),
    /// A table, whose rows may follow.
    Table,
    /// A row of the table named last.
    Row,
    /// The last line.
    End(Counts),
    /// Anything else.
    Other,
}

/// A line of a dialect's dump.
pub trait DumpLine: DeserializeOwned {
    /// The dialect.
    const DIALECT: &'static str;

    /// What the line means for the order of lines.
    fn part(&self) -> Part<'_>;
}

/// A line without its end.
///
/// # Errors
/// `internal`.
pub fn encode_line(line: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(line)
        .map_err(|error| Error::internal("a line of a dump cannot be written").with_source(error))
}

/// Reads a line.
///
/// # Errors
/// `invalid_argument` for what is no line of a dump.
pub fn decode_line<L: DeserializeOwned>(line: &[u8], number: u64) -> Result<L> {
    serde_json::from_slice(line).map_err(|_| {
        // The parser's own words may quote the line.
        Error::invalid(format!("line {number} is none of a dump of a SQL database; nothing was restored"))
            .with_detail("line", number)
    })
}

/// The longest line that a restore takes: some times as long as the longest value, since JSON writes a control character
/// with six bytes.
#[must_use]
pub fn longest_line(value_bytes: usize) -> usize {
    value_bytes.saturating_mul(8).saturating_add(4 << 20)
}

/// Whether a restore goes on without the object that this error is about.
#[must_use]
pub fn is_about_object(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::StatementRefused | ErrorKind::InvalidArgument | ErrorKind::TooLarge)
}

/// A name as a quoted identifier, whatever it holds.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Reads a dump line by line, checks that each stands where it may, and counts what was restored.
#[derive(Debug, Default)]
pub struct DumpReader {
    /// What was restored so far.
    pub outcome: RestoreOutcome,
    more_skipped: u64,
    lines: u64,
    tables: u64,
    rows: u64,
    begun: bool,
    ended: bool,
    rows_may_follow: bool,
    replaces: bool,
}

impl DumpReader {
    /// For a restore in this mode.
    #[must_use]
    pub fn new(mode: RestoreMode) -> Self {
        Self { replaces: mode == RestoreMode::Replace, ..Self::default() }
    }

    /// Tells that a row is left out, because its table was refused.
    ///
    /// # Errors
    /// `invalid_argument` if the dump is to replace something: the row may be the only copy then.
    pub fn leave_out_row(&self) -> Result<()> {
        if !self.replaces {
            return Ok(());
        }
        let reason = self.outcome.skipped.last().map(String::as_str).unwrap_or_default();
        Err(Error::invalid(format!(
            "a table of the dump cannot be recreated, and replacing would lose its rows ({reason}); nothing was replaced: restore \
             into an empty scope to have the rest of the dump"
        )))
    }

    /// The next line; `None` for an empty one.
    ///
    /// # Errors
    /// `invalid_argument` for what is no line, or stands where it must not; for a dump of another dialect or version; for
    /// an end whose counts are not those of the lines before it.
    pub fn read<L: DumpLine>(&mut self, line: &[u8]) -> Result<Option<L>> {
        self.lines += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let line: L = decode_line(line, self.lines)?;
        let part = line.part();
        let misplaced_row = matches!(part, Part::Row) && !self.rows_may_follow;
        if self.ended || self.begun == matches!(part, Part::Header(_)) || misplaced_row {
            let message = format!("line {} of the dump is out of place; nothing was restored", self.lines);
            return Err(Error::invalid(message).with_detail("line", self.lines));
        }
        match part {
            Part::Header(header) => {
                if *header != Header::of(L::DIALECT) {
                    return Err(Error::invalid(
                        "the dump is of another dialect or a newer version; restore it where it was made",
                    ));
                }
                self.begun = true;
            }
            Part::Table => self.tables += 1,
            Part::Row => self.rows += 1,
            Part::End(counts) => {
                if counts != (Counts { tables: self.tables, rows: self.rows }) {
                    return Err(Error::invalid("the dump lacks tables or rows; nothing was restored"));
                }
                self.ended = true;
            }
            Part::Other => {}
        }
        self.rows_may_follow = matches!(part, Part::Table | Part::Row);
        Ok(Some(line))
    }

    /// Tells that something was left out. A reason that the dump gave already is told once.
    pub fn skip(&mut self, reason: String) {
        if self.outcome.skipped.contains(&reason) {
            return;
        }
        if self.outcome.skipped.len() < MOST_SKIPPED {
            self.outcome.skipped.push(reason);
        } else {
            self.more_skipped += 1;
        }
    }

    /// Checks that the dump came to its end.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub fn check_ended(&self) -> Result<()> {
        if self.ended {
            Ok(())
        } else {
            Err(Error::invalid("the dump is cut off or empty; nothing was restored"))
        }
    }

    /// What was restored.
    #[must_use]
    pub fn into_outcome(mut self) -> RestoreOutcome {
        if self.more_skipped > 0 {
            self.outcome.skipped.push(format!("{} more", self.more_skipped));
        }
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[allow(dead_code)]
    enum Line {
        MemorySqlDump(Header),
        Table(Table),
        Row(Vec<u8>),
        Other(bool),
        End(Counts),
    }

    impl DumpLine for Line {
        const DIALECT: &'static str = "sqlite";

        fn part(&self) -> Part<'_> {
            match self {
                Self::MemorySqlDump(header) => Part::Header(header),
                Self::Table(_) => Part::Table,
                Self::Row(_) => Part::Row,
                Self::Other(_) => Part::Other,
                Self::End(counts) => Part::End(*counts),
            }
        }
    }

    const HEADER: &str = r#"{"memory_sql_dump":{"version":1,"dialect":"sqlite"}}"#;
    const TABLE: &str = r#"{"table":{"name":"t","sql":"","columns":["a"]}}"#;
    const ROW: &str = r#"{"row":[1]}"#;
    const OTHER: &str = r#"{"other":true}"#;
    const END: &str = r#"{"end":{"tables":1,"rows":1}}"#;

    fn read(lines: &[&str]) -> Result<()> {
        let mut reader = DumpReader::default();
        lines.iter().try_for_each(|line| reader.read::<Line>(line.as_bytes()).map(drop))?;
        reader.check_ended()
    }

    #[test]
    fn a_dump_is_read_in_its_order_and_to_its_end() {
        read(&[HEADER, "", TABLE, ROW, OTHER, END]).unwrap();
        for wrong in [
            &[TABLE][..],
            &[HEADER, HEADER],
            &[HEADER, ROW],
            &[HEADER, TABLE, OTHER, ROW],
            &[HEADER, TABLE, END],
            &[HEADER, TABLE, ROW],
            &[HEADER, TABLE, ROW, END, OTHER],
            &[r#"{"memory_sql_dump":{"version":2,"dialect":"sqlite"}}"#],
            &[r#"{"memory_sql_dump":{"version":1,"dialect":"postgres"}}"#],
            &[],
        ] {
            assert_eq!(read(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument, "{wrong:?}");
        }
    }

    #[test]
    fn what_is_no_line_is_refused_without_quoting_it() {
        for bad in ["{}", "secret", r#"{"row":["secret"]} x"#, r#"{"drop":"secret"}"#] {
            let error = decode_line::<Line>(bad.as_bytes(), 7).unwrap_err();
            assert!(
                error.message().contains("line 7") && !format!("{error:?}").contains("secret"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn reasons_beyond_the_most_are_counted() {
        let mut reader = DumpReader::default();
        (0..MOST_SKIPPED + 2).for_each(|number| reader.skip(number.to_string()));
        reader.skip("0".to_owned());
        assert_eq!(reader.into_outcome().skipped.last().map(String::as_str), Some("2 more"));
    }
}
