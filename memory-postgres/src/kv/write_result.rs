//! The results of the functions that write.

use memory_core::DriftReason;
use memory_core::{EmbeddingModel, Error, ErrorKind, Quota, Result, Timestamp, Ttl};
use tokio_postgres::Row;

use crate::error::malformed;
use crate::kv::drift::reason;
use crate::store::columns::{column, time};

/// A value of type `written`, or of `receipt`, which begins the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteResult {
    outcome: i16,
    version: Option<i64>,
    created: Option<bool>,
    pub(crate) expires_at: Option<Timestamp>,
    counts: [Option<i64>; 4],
}

/// The arguments of a write, needed for its errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteContext<'a> {
    pub(crate) ttl: Ttl,
    pub(crate) quota: &'a Quota,
    pub(crate) model: Option<&'a EmbeddingModel>,
}

impl WriteResult {
    /// Reads the first eight columns.
    pub(crate) fn read(row: &Row) -> Result<Self> {
        let number = |at| column::<Option<i64>>(row, at, "outcome");
        Ok(Self {
            outcome: column(row, 0, "outcome")?,
            version: number(1)?,
            created: column(row, 2, "outcome")?,
            expires_at: number(3)?.map(time).transpose()?,
            counts: [number(4)?, number(5)?, number(6)?, number(7)?],
        })
    }

    /// The drift that it was refused for, if any.
    pub(crate) fn drifted(&self) -> Option<DriftReason> {
        reason(self.outcome)
    }

    /// Whether something was written; an error if it was refused.
    pub(crate) fn judge(&self, given: WriteContext<'_>) -> Result<bool> {
        match self.outcome {
            0 => Ok(true),
            1 => Ok(false),
            2 => Err(Error::conflict(self.version.map(|_| self.version()).transpose()?)),
            3 => {
                let [entries, bytes, entries_after, bytes_after] = self
                    .counts
                    .map(|count| count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default());
                given.quota.check((entries, bytes), (entries_after, bytes_after))?;
                Err(malformed("counter"))
            }
            4 => Err(dimension_mismatch(self.version, given.model)),
            5 => {
                // memory-core has the message for this.
                given.ttl.expiry(Timestamp::MAX, None)?;
                Err(malformed("outcome"))
            }
            6 => Err(Error::wrong_type(
                "the stored value is not a 64-bit integer; set one before incrementing, or use another key",
            )),
            7 => Err(Error::invalid(
                "the sum does not fit 64 bits, so nothing was changed; use a smaller delta",
            )),
            8 => Err(Error::new(
                ErrorKind::TooLarge,
                "the scope holds vectors of 1,000 models; drop it, or move it to one model with `reembed`",
            )),
            _ => Err(malformed("outcome")),
        }
    }

    pub(crate) fn version(&self) -> Result<u64> {
        self.version.and_then(|version| u64::try_from(version).ok()).ok_or_else(|| malformed("version"))
    }

    pub(crate) fn created(&self) -> bool {
        self.created.unwrap_or_default()
    }

    /// Whether the precondition failed.
    pub(crate) fn is_conflict(&self) -> bool {
        self.outcome == 2
    }
}

/// EMB-2: the scope holds vectors of the same model with another length.
pub(crate) fn dimension_mismatch(stored: Option<i64>, model: Option<&EmbeddingModel>) -> Error {
    Error::new(
        ErrorKind::DimensionMismatch,
        "the scope holds vectors of this model with another length, so nothing was written; configure the model's own \
         dimensions, or move the scope to them with `reembed`",
    )
    .with_detail("expected", stored)
    .with_detail("actual", model.map(|model| model.dimensions))
}
