//! The rules for a scope's records in a snapshot, checked by its writer and by its reader.

use memory_core::checked::check_record;
use memory_core::limits::MAX_KEY_BYTES;
use memory_core::{Error, ErrorKind, Key, Record, Result};

use super::digest::EntriesHash;
use super::lines::EntriesEnd;

/// The records of a scope that have passed.
#[derive(Clone, Default)]
pub(in crate::snapshot) struct Passed {
    hash: EntriesHash,
    last: Option<Key>,
}

impl Passed {
    /// Takes a record's line in, with its line feed.
    ///
    /// # Errors
    /// `corrupt` for one that no snapshot may hold at this place; what it says quotes nothing of the record.
    pub(in crate::snapshot) fn take(&mut self, line: &[u8]) -> Result<Record> {
        let text = std::str::from_utf8(line).map_err(|_| corrupt("the record is not UTF-8"))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        // What serde_json says of it may quote it.
        let mut record = Record::from_line(text).map_err(|_| corrupt("the record is none"))?;
        record.vectors.sort_by(|a, b| a.model.cmp(&b.model));
        check_record(&record, MAX_KEY_BYTES, usize::MAX)
            .map_err(|error| corrupt(error.message().to_owned()))?;
        if self.last.as_ref().is_some_and(|last| *last >= record.entry.key) {
            return Err(corrupt("the record is out of order, or there for a second time"));
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
    Error::new(ErrorKind::Corrupt, what)
}
