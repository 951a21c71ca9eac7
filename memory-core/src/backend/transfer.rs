//! Entries on their way between stores.

use serde::{Deserialize, Serialize};

use crate::embed::{EmbeddingModel, check_embeddings};
use crate::entry::{Entry, Quota};
use crate::error::{Error, Result};
use crate::json;
use crate::lifecycle::erase::Taken;
use crate::limits::{MAX_DIMENSIONS, MAX_MODEL_NAME_BYTES, MAX_RECORD_VECTORS, MAX_TEXT_BYTES};
use crate::time::Timestamp;

/// A stored vector in transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordVector {
    /// The model.
    pub model: EmbeddingModel,
    /// The numbers.
    pub vector: Vec<f32>,
    /// The embedded text, if it is not the entry's search text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One entry in transfer. Its JSON form is specified in `docs/spec/export.md`; [`Record::to_line`] writes it as a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Record {
    /// The entry, expiry and version included.
    pub entry: Entry,
    /// Its vectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vectors: Vec<RecordVector>,
}

impl From<Entry> for Record {
    fn from(entry: Entry) -> Self {
        Self { entry, vectors: Vec::new() }
    }
}

/// A record whose value, and so its JSON text, has several lines, wrapped in a JSON string.
#[derive(Serialize, Deserialize)]
struct Wrapped<T> {
    record: T,
}

impl Record {
    /// One line of the export format, without its line feed.
    ///
    /// A value keeps its text, which may contain line feeds between tokens. Such a record is written as
    /// `{"record":"…"}`, with its JSON text as a string.
    ///
    /// # Errors
    /// `internal` if a float in its metadata is not finite, which no store returns.
    pub fn to_line(&self) -> Result<String> {
        let text = |error: serde_json::Error| Error::internal("a record has no JSON form").with_source(error);
        let line = serde_json::to_string(self).map_err(text)?;
        if !line.contains('\n') {
            return Ok(line);
        }
        serde_json::to_string(&Wrapped { record: line }).map_err(text)
    }

    /// Reads a line of the export format.
    ///
    /// # Errors
    /// serde_json's error.
    pub fn from_line(line: &str) -> std::result::Result<Self, serde_json::Error> {
        if line.starts_with("{\"record\":") {
            let Wrapped { record } = serde_json::from_str::<Wrapped<String>>(line)?;
            return json::from_str(&record);
        }
        json::from_str(line)
    }
}

/// Checks the vectors of a record (EXP-11 of `docs/spec/backend.md`).
///
/// # Errors
/// `invalid_argument`, never an embedder's error: the vectors came with the record, so asking an embedder again does
/// not help.
pub fn check_vectors(vectors: &[RecordVector]) -> Result<()> {
    if vectors.len() > MAX_RECORD_VECTORS {
        return Err(Error::invalid(format!("a record has more than {MAX_RECORD_VECTORS} vectors")));
    }
    for (at, RecordVector { model, vector, text }) in vectors.iter().enumerate() {
        let is_name =
            |name: &str| (1..=MAX_MODEL_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control);
        if !is_name(&model.provider) || !is_name(&model.model) {
            return Err(Error::invalid(format!(
                "a record's vector names its provider and model by 1 to {MAX_MODEL_NAME_BYTES} bytes each, without \
                 control characters"
            )));
        }
        if vector.len() > MAX_DIMENSIONS {
            return Err(Error::invalid(format!("a record's vector is longer than {MAX_DIMENSIONS} numbers")));
        }
        check_embeddings(model, 1, std::slice::from_ref(vector)).map_err(|error| {
            Error::invalid("a record's vector is zero, is not finite, or does not have its model's length")
                .with_source(error)
        })?;
        if text.as_ref().is_some_and(|text| text.len() > MAX_TEXT_BYTES || text.contains('\0')) {
            return Err(Error::invalid("the text of a record's vector is over 1 MiB or has a NUL character"));
        }
        if vectors.iter().take(at).any(|other| other.model == *model) {
            return Err(Error::invalid("a record has two vectors of one model; keep the one of its text"));
        }
    }
    Ok(())
}

/// What an import does with a key that is live in the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnExisting {
    /// Keep the stored entry.
    #[default]
    Skip,
    /// Store the record's, unless the two are already equal.
    Replace,
    /// Stop with `conflict`; records before it are stored.
    Fail,
}

/// Which part of an import is one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Atomicity {
    /// Each record; those before a refused one are kept.
    #[default]
    Record,
    /// All records. Requires [`Capabilities::atomic_import`](crate::Capabilities::atomic_import).
    Scope,
    /// All records; the same transaction first removes every entry of the scope. Requires the same capability.
    Replacement,
    /// All records; the same transaction removes every entry whose key has no record, or one that has expired. An entry
    /// equal to its record stays as it is, with its version and its vectors. Requires the same capability.
    Mirror,
}

/// Options of [`Backend::import_scope`](super::Backend::import_scope).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ImportOptions {
    /// How to treat existing keys.
    pub on_existing: OnExisting,
    /// Limits of the scope.
    pub quota: Quota,
    /// What is stored together or not at all.
    pub atomicity: Atomicity,
    /// Whether the records are a copy, and how old. Other than `New` requires
    /// [`Capabilities::erase`](crate::Capabilities::erase).
    pub taken: Taken,
}

impl ImportOptions {
    crate::setters! {
        with_on_existing(on_existing: OnExisting);
        with_quota(quota: Quota);
        with_atomicity(atomicity: Atomicity);
        with_taken(taken: Taken);
    }

    /// What an import stores of a record over the live entry, counting it in `outcome`; `None`: nothing. `version` is
    /// one that the key never had; the record's own is kept if it is higher. The backend handles quota, vectors and
    /// forgotten content.
    ///
    /// # Errors
    /// `conflict` for a live entry with [`OnExisting::Fail`].
    pub fn apply(
        &self,
        live: Option<&Entry>,
        record: Entry,
        version: u64,
        now: Timestamp,
        outcome: &mut ImportOutcome,
    ) -> Result<Option<Entry>> {
        let (index, before) = (outcome.records(), outcome.created + outcome.replaced);
        let counted = match live {
            _ if record.is_expired(now) => &mut outcome.expired,
            None => &mut outcome.created,
            Some(live) if self.on_existing == OnExisting::Fail => {
                return Err(Error::conflict(Some(live.version)).with_detail("index", index));
            }
            Some(live) if self.on_existing == OnExisting::Replace && !record.is_copy_of(live) => {
                &mut outcome.replaced
            }
            Some(_) => &mut outcome.skipped,
        };
        *counted += 1;
        let stored = outcome.created + outcome.replaced;
        Ok((stored > before).then(|| Entry { version: record.version.max(version), ..record }))
    }
}

/// The result of [`Backend::import_scope`](super::Backend::import_scope).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ImportOutcome {
    /// Records stored under a new key.
    pub created: u64,
    /// Records that replaced a stored entry.
    pub replaced: u64,
    /// Records skipped because the key was live (with [`OnExisting::Skip`]) or the entry was equal already.
    pub skipped: u64,
    /// Records that had expired.
    pub expired: u64,
    /// Records skipped because they were forgotten after the copy was taken.
    pub forgotten: u64,
}

impl ImportOutcome {
    /// How many records were counted, which is the position of the next one.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.created + self.replaced + self.skipped + self.expired + self.forgotten
    }

    /// Counts another import's records too.
    pub fn add(&mut self, other: Self) {
        self.created += other.created;
        self.replaced += other.replaced;
        self.skipped += other.skipped;
        self.expired += other.expired;
        self.forgotten += other.forgotten;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Json, Key};

    #[test]
    fn a_record_is_always_one_line() {
        for text in ["1", "{\n  \"a\": [\r\n1 ]\n}", "\"a\\nb\""] {
            let value = Json::parse(text).unwrap();
            let record = Record::from(Entry::new(Key::new("k\n").unwrap(), value, 7, Timestamp::EPOCH));
            let line = record.to_line().unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(Record::from_line(&line).unwrap(), record);
        }
        assert!(Record::from_line(r#"{"record":{"entry":1}}"#).is_err());
    }
}
