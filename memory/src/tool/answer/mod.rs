//! Writes outcomes and errors as answers, within the policy's byte limit.

mod host_paths;

use std::collections::BTreeMap;

use memory_core::{Entry, Error, ErrorKind, Key, Metadata, Result, Source, Timestamp};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use self::host_paths::file_name;
pub(crate) use self::host_paths::without_paths;
use super::input::fields::cut;
use crate::policy::MIN_ANSWER_BYTES;

/// Bytes of an answer other than its rows: brackets, flags, a cursor.
const ENVELOPE_BYTES: usize = 4 << 10;

/// One entry as the tool shows it.
#[derive(Serialize)]
pub(super) struct EntryAnswer<'a> {
    key: &'a Key,
    value: &'a memory_core::Json,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: &'a Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    version: u64,
    created_at: Timestamp,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
    access_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank_score: Option<f64>,
    #[serde(skip_serializing_if = "<[Key]>::is_empty")]
    merged: &'a [Key],
}

/// An entry too large for an answer on its own, without its large parts.
#[derive(Serialize)]
pub(super) struct LargeEntry<'a> {
    key: &'a Key,
    version: u64,
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    omitted_bytes: u64,
}

/// An entry's text in an answer.
pub(super) struct Row {
    pub(super) text: Box<RawValue>,
    /// Whether it is complete.
    pub(super) whole: bool,
}

impl<'a> EntryAnswer<'a> {
    pub(super) fn new(entry: &'a Entry) -> Self {
        Self {
            key: &entry.key,
            value: &entry.value,
            metadata: &entry.metadata,
            source: entry.source.as_ref(),
            text: entry.text.as_deref(),
            version: entry.version,
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            expires_at: entry.expires_at,
            access_count: entry.access_count,
            score: None,
            rank_score: None,
            merged: &[],
        }
    }

    pub(super) fn hit(hit: &'a memory_core::Hit) -> Self {
        Self {
            score: Some(hit.score),
            rank_score: Some(hit.rank_score),
            merged: &hit.merged,
            ..Self::new(&hit.entry)
        }
    }

    /// The entry's text. If it alone exceeds `budget`, value, metadata and text are left out.
    pub(super) fn within(&self, budget: &Budget, size_bytes: u64) -> Result<Row> {
        let text = raw(self)?;
        if budget.could_ever_take(&text) {
            return Ok(Row { text, whole: true });
        }
        Ok(Row { text: raw(&self.without_value(size_bytes))?, whole: false })
    }

    /// The entry without value, metadata and text.
    pub(super) fn without_value(&self, size_bytes: u64) -> LargeEntry<'a> {
        LargeEntry {
            key: self.key,
            version: self.version,
            expires_at: self.expires_at,
            score: self.score,
            omitted_bytes: size_bytes,
        }
    }
}

/// The bytes available for rows of an answer.
pub(super) struct Budget {
    limit: usize,
    used: usize,
}

impl Budget {
    pub(super) fn new(max_answer_bytes: usize) -> Self {
        Self { limit: max_answer_bytes.saturating_sub(ENVELOPE_BYTES), used: 0 }
    }

    /// Whether a row would fit if it were the only one.
    pub(super) fn could_ever_take(&self, row: &RawValue) -> bool {
        row.get().len() < self.limit
    }

    /// Whether a row still fits; if so, it is counted.
    pub(super) fn take(&mut self, row: &RawValue) -> bool {
        let used = self.used.saturating_add(row.get().len() + 1);
        let fits = used <= self.limit;
        if fits {
            self.used = used;
        }
        fits
    }

    /// As many rows, from the first, as fit.
    pub(super) fn fit<T: Serialize>(&mut self, rows: &[T]) -> Result<Vec<Box<RawValue>>> {
        let mut kept = Vec::new();
        for row in rows {
            let row = raw(row)?;
            if !self.take(&row) {
                break;
            }
            kept.push(row);
        }
        Ok(kept)
    }
}

pub(super) fn raw<T: Serialize>(value: &T) -> Result<Box<RawValue>> {
    serde_json::value::to_raw_value(value)
        .map_err(|error| Error::internal("an answer could not be written as JSON").with_source(error))
}

pub(super) fn text<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::internal("an answer could not be written as JSON").with_source(error))
}

/// Refuses an answer over the policy's byte limit.
#[cfg(feature = "sqlite")]
fn capped(answer: String, max_bytes: usize) -> Result<String> {
    if answer.len() <= max_bytes {
        return Ok(answer);
    }
    Err(Error::result_too_large(
        format!(
            "the answer has {} bytes; at most {max_bytes} are allowed: ask for less, or ask the operator to raise `max_answer_bytes`",
            answer.len()
        ),
    )
    .with_detail("actual", answer.len())
    .with_detail("limit", max_bytes))
}

/// Adds `fallback` to an answer: the backend that gave it in place of another.
#[cfg(feature = "sqlite")]
pub(super) fn named(mut answer: String, who: &str, max_bytes: usize) -> Result<String> {
    if answer.pop() != Some('}') {
        return Err(Error::internal("an answer is no JSON object"));
    }
    if !answer.ends_with('{') {
        answer.push(',');
    }
    answer.push_str(&format!("\"fallback\":{}}}", text(&who)?));
    capped(answer, max_bytes)
}

/// The answer of [`MemoryTool::call`](crate::MemoryTool::call) for an error: `{"error": {"code", "message", "details",
/// "retryable"}}`, at most 16 KiB. A model reads it, so the host's files appear without their folders; text from the
/// call itself (`sent`) is repeated unchanged.
#[must_use]
pub fn refusal(error: &Error, sent: &str) -> String {
    #[derive(Serialize)]
    struct Refusal<'a> {
        error: Body<'a>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(serialize_with = "code")]
        code: ErrorKind,
        message: &'a str,
        // Sorted by name, whatever order serde_json's map uses.
        details: BTreeMap<&'a str, &'a Value>,
        retryable: bool,
    }
    fn code<S: Serializer>(kind: &ErrorKind, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.code())
    }
    let write = |message: &str, details: &Map<String, Value>| {
        serde_json::to_string(&Refusal {
            error: Body {
                code: error.kind(),
                message,
                details: details.iter().map(|(name, value)| (name.as_str(), value)).collect(),
                retryable: error.retry().is_retryable(),
            },
        })
    };
    let message = without_paths(error.message(), sent);
    if message != error.message() {
        // The log keeps the folders for those allowed to see them.
        tracing::warn!(%error, "a model was told of this without the folders");
    }
    let mut details = error.details().clone();
    for (name, value) in &mut details {
        if let Value::String(text) = value {
            let shown = match name.as_str() {
                "drift_backup" => file_name(text).to_owned(),
                // A key is the model's own text.
                "key" => continue,
                _ => without_paths(text, sent).into_owned(),
            };
            *text = shown;
        }
    }
    match write(&message, &details) {
        Ok(answer) if answer.len() <= MIN_ANSWER_BYTES => answer,
        _ => write(&cut(&message), &Map::new()).unwrap_or_else(|_| {
            json!({"error": {"code": "internal", "message": "an error could not be written as JSON", "details": {}, "retryable": false}})
                .to_string()
        }),
    }
}
