//! Checks of the records of an import.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::backend::{Record, RecordStream, check_vectors};
use crate::error::{Error, Result};
use crate::limits::MAX_TEXT_BYTES;

/// The highest version and access count that an import stores. Higher ones are lowered to this.
const MAX_IMPORTED_COUNT: u64 = 1 << 62;

#[derive(Clone, Copy)]
pub(super) struct RecordLimits {
    pub(super) max_key_bytes: usize,
    pub(super) max_value_bytes: usize,
}

/// Validates the records of a stream; a bad one becomes an error with its position.
pub(super) struct CheckedRecords {
    records: RecordStream,
    limits: RecordLimits,
    seen: u64,
}

impl CheckedRecords {
    pub(super) fn new(records: RecordStream, limits: RecordLimits) -> Self {
        Self { records, limits, seen: 0 }
    }
}

impl Stream for CheckedRecords {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.records.as_mut().poll_next(context));
        Poll::Ready(item.map(|record| {
            let index = self.seen;
            self.seen += 1;
            let mut record = record?;
            self.limits.check(&record).map_err(|error| error.with_detail("index", index))?;
            // Both keep counting from here: near the maximum they would block later writes.
            record.entry.version = record.entry.version.min(MAX_IMPORTED_COUNT);
            record.entry.access_count = record.entry.access_count.min(MAX_IMPORTED_COUNT);
            Ok(record)
        }))
    }
}

/// Checks a record as an import through [`Checked`](crate::Checked) does, for callers that read records before they
/// write.
///
/// # Errors
/// `invalid_argument`, `too_large`.
pub fn check_record(record: &Record, max_key_bytes: usize, max_value_bytes: usize) -> Result<()> {
    RecordLimits { max_key_bytes, max_value_bytes }.check(record)
}

impl RecordLimits {
    fn check(self, record: &Record) -> Result<()> {
        let entry = &record.entry;
        if entry.key.as_str().len() > self.max_key_bytes {
            return Err(Error::too_large("key", entry.key.as_str().len(), self.max_key_bytes, "bytes"));
        }
        if entry.value.len_bytes() > self.max_value_bytes {
            return Err(Error::too_large("value", entry.value.len_bytes(), self.max_value_bytes, "bytes"));
        }
        if let Some(text) = &entry.text
            && (text.len() > MAX_TEXT_BYTES || text.contains('\0'))
        {
            return Err(Error::invalid("a record's text is over 1 MiB or has a NUL character"));
        }
        if entry.version == 0 || i64::try_from(entry.version).is_err() {
            return Err(Error::invalid("a record's version is 0 or beyond 2^63 - 1"));
        }
        if entry.updated_at < entry.created_at {
            return Err(Error::invalid("a record was updated before it was created"));
        }
        check_vectors(&record.vectors)?;
        entry.metadata.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorKind, Retry};

    #[test]
    fn a_bad_vector_in_a_record_is_not_retryable() {
        let limits = RecordLimits { max_key_bytes: 1_024, max_value_bytes: 1_024 };
        for vector in ["[1e39,1]", "[0,0]", "[1]"] {
            let record = serde_json::from_str::<Record>(&format!(
                r#"{{"entry":{{"key":"k","value":1,"version":1,"created_at":0,"updated_at":0}},
                    "vectors":[{{"model":{{"provider":"p","model":"m","dimensions":2}},"vector":{vector}}}]}}"#
            ));
            let Ok(record) = record else {
                // With the feature `float_roundtrip`, which another crate may enable, serde_json rejects such a number.
                assert_eq!(vector, "[1e39,1]");
                continue;
            };
            let error = limits.check(&record).unwrap_err();
            assert_eq!((error.kind(), error.retry()), (ErrorKind::InvalidArgument, Retry::Never), "{vector}");
            assert!(error.message().contains("record"), "{error}");
        }
    }
}
