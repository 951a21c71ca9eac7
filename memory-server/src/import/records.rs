//! Entries as `memory export` writes them: a header line, then one record per line (`docs/spec/export.md`).

use std::io::{self, BufRead};

use memory_core::{
    Backend, Entry, Error, ErrorKind, GetOptions, ImportOptions, ImportOutcome, Record, Result, Scope,
};
use serde::{Deserialize, Serialize};

use super::readers::lines::{Line, Lines};
use super::readers::{Place, json_complaint};

/// The header's `format`.
pub(crate) const FORMAT: &str = "memory-export";
/// The newest `version` this reader knows, and the one that is written.
pub(crate) const VERSION: u32 = 1;

/// The first line of an export.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: String,
    pub(crate) version: u32,
    /// The scope the entries came from; the caller decides where they go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<Scope>,
}

/// The next item of an export.
pub(crate) enum Found {
    Record(Place, Box<Record>),
    Broken(Place, String),
}

/// Reads records one by one.
pub(crate) trait RecordReader: Send {
    /// The next record; `None` at the end.
    fn next_record(&mut self) -> io::Result<Option<Found>>;

    /// The scope that the records come from, if known.
    fn scope(&self) -> Option<&Scope> {
        None
    }
}

/// Reads an export.
pub(crate) struct Records<R> {
    lines: Lines<R>,
    scope: Option<Scope>,
}

impl<R: BufRead> Records<R> {
    /// Reads the header.
    pub(crate) fn open(input: R) -> io::Result<Result<Self>> {
        let mut lines = Lines::of_records(input);
        let header: Option<Header> = match lines.next_line()? {
            Some((_, Line::Text(text))) => serde_json::from_str(text).ok(),
            _ => None,
        };
        Ok(match header {
            Some(header) if header.format == FORMAT && header.version <= VERSION => {
                Ok(Self { lines, scope: header.scope })
            }
            Some(header) if header.format == FORMAT => Err(Error::corrupt(format!(
                "the export has version {}; this program reads up to {VERSION}: use the one that wrote it, or a newer one",
                header.version
            ))),
            _ => Err(Error::corrupt(
                "the first line is not the header of a memory export; leave out `--format records`, or name another format",
            )),
        })
    }
}

impl<R: BufRead + Send> RecordReader for Records<R> {
    fn scope(&self) -> Option<&Scope> {
        self.scope.as_ref()
    }

    fn next_record(&mut self) -> io::Result<Option<Found>> {
        let Some((number, line)) = self.lines.next_line()? else { return Ok(None) };
        let place = Place::Line(number);
        Ok(Some(match line {
            Line::Broken(why) => Found::Broken(place, why),
            Line::Text(text) => match Record::from_line(text) {
                Ok(record) => Found::Record(place, Box::new(record)),
                Err(error) => Found::Broken(place, json_complaint(&error)),
            },
        }))
    }
}

/// For each record, whether the scope already holds the same entry, ignoring its version and how often it was read.
pub(crate) async fn stored(backend: &dyn Backend, scope: &Scope, records: &[Record]) -> Result<Vec<bool>> {
    let keys: Vec<_> = records.iter().map(|record| record.entry.key.clone()).collect();
    let stored = match backend.get_many(scope, &keys, GetOptions::uncounted()).await {
        Ok(stored) => stored,
        // The import will name the failing record.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge) => {
            return Ok(vec![false; records.len()]);
        }
        Err(error) => return Err(error),
    };
    let same = |(stored, record): (&Option<Entry>, &Record)| {
        stored.as_ref().is_some_and(|stored| record.entry.is_copy_of(stored))
    };
    Ok(stored.iter().zip(records).map(same).collect())
}

/// Stores records in one call; on an error `details.index` tells which one failed.
pub(crate) async fn store(
    backend: &dyn Backend,
    scope: &Scope,
    records: Vec<Record>,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    struct Queue(std::vec::IntoIter<Record>);
    impl futures_core::Stream for Queue {
        type Item = Result<Record>;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Ready(self.0.next().map(Ok))
        }
    }
    backend.import_scope(scope, Box::pin(Queue(records.into_iter())), options).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Records<&[u8]>> {
        Records::open(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_file_of_another_format_or_a_newer_version_is_refused() {
        for text in
            ["", "hello", "{}", r#"{"format":"x","version":1}"#, r#"{"format":"memory-export","version":2}"#]
        {
            assert_eq!(open(text).err().unwrap().kind(), ErrorKind::Corrupt, "{text}");
        }
    }

    #[test]
    fn records_are_read_and_broken_ones_named() {
        let mut records = open(concat!(
            r#"{"format":"memory-export","version":1,"scope":{"tenant":"t","kind":"user","id":"u"}}"#,
            "\n{\n",
            r#"{"entry":{"key":"k","value":9007199254740993,"version":7,"created_at":0,"updated_at":"2026-01-01T00:00:00Z"},"new":1}"#,
        ))
        .unwrap();
        assert!(matches!(records.next_record().unwrap(), Some(Found::Broken(Place::Line(2), _))));
        match records.next_record().unwrap() {
            Some(Found::Record(Place::Line(3), record)) => {
                assert_eq!(record.entry.value.as_str(), "9007199254740993");
            }
            _ => panic!("line 3 is a record"),
        }
        assert!(records.next_record().unwrap().is_none());
    }
}
