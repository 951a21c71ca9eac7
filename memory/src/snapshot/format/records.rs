//! The rules for a scope's records in a snapshot, checked by writer and reader.

use memory_core::checked::check_record;
use memory_core::limits::MAX_KEY_BYTES;
use memory_core::{Error, Key, Record, Result};

use super::digest::EntriesHash;
use super::lines::EntriesEnd;

/// The records of a scope so far.
#[derive(Clone, Default)]
pub(in crate::snapshot) struct Passed {
    hash: EntriesHash,
    last: Option<Key>,
}

impl Passed {
    /// Adds a record's line, including its line feed.
    pub(in crate::snapshot) fn take(&mut self, line: &[u8]) -> Result<Record> {
        let text = std::str::from_utf8(line).map_err(|_| corrupt("the record is not UTF-8"))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        // serde_json's message could quote the record.
        let mut record = Record::from_line(text).map_err(|_| corrupt("the record is invalid"))?;
        record.vectors.sort_by(|a, b| a.model.cmp(&b.model));
        check_record(&record, MAX_KEY_BYTES, usize::MAX)
            .map_err(|error| corrupt(error.message().to_owned()))?;
        if self.last.as_ref().is_some_and(|last| *last >= record.entry.key) {
            return Err(corrupt("the record is out of order or repeated"));
        }
        self.hash.add_line(line, &mut record)?;
        self.last = Some(record.entry.key.clone());
        Ok(record)
    }

    pub(in crate::snapshot) fn end(self) -> EntriesEnd {
        self.hash.end()
    }
}

fn corrupt(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::corrupt(what)
}
