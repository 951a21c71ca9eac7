//! What a note is taken to mean: the interface between interpreting, which may be a model's work, and all that follows.

use memory_core::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::bucket::{Bucket, Operation};
use crate::columns::{Kind, SUCCESSOR, SUPERSEDED_BY, TASK_STATUSES, columns};

/// What the interpreter made of a note.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It asks for these writes.
    Accept(Vec<WriteRequest>),
    /// It means nothing for shared state; why.
    Reject(String),
    /// It could not be decided now (the model timed out, was busy or answered nonsense), so the note stays new; the
    /// reason.
    Retry(String),
}

/// A write that a note asks for. Who asks, when, and how far they are trusted is never part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRequest {
    /// The kind of shared state.
    pub bucket: Bucket,
    /// What to do.
    pub operation: Operation,
    /// The row, if the note names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    /// The row's members.
    #[serde(default, deserialize_with = "maybe_members")]
    pub payload: Map<String, Value>,
    /// The words of the note that refer to the row ("the earlier blocker").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_text: Option<String>,
    /// Other names of the row: at most 8.
    #[serde(default, deserialize_with = "or_none", skip_serializing_if = "Vec::is_empty")]
    pub candidate_aliases: Vec<String>,
    /// How sure the interpreter is, 0 to 1. Recorded, and decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Why, in the interpreter's words. Recorded, and decides nothing.
    #[serde(default, deserialize_with = "or_none", skip_serializing_if = "String::is_empty")]
    pub rationale: String,
}

/// Reads members in which every name is a name.
fn members<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Map<String, Value>, D::Error> {
    match memory_core::json::tree(deserializer)? {
        Value::Object(members) => Ok(members),
        _ => Err(serde::de::Error::custom("the members of a row are an object")),
    }
}

/// `null` stands for an omitted optional member.
fn or_none<'de, D, T>(deserializer: D) -> std::result::Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn maybe_members<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Map<String, Value>, D::Error> {
    let members = Option::<Members>::deserialize(deserializer)?;
    Ok(members.map(|members| members.0).unwrap_or_default())
}

/// Members as an event or a request has them.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Members(#[serde(deserialize_with = "members")] pub(crate) Map<String, Value>);

/// Longest id, in bytes.
pub const MAX_ID_BYTES: usize = 64;
/// Most aliases of one request.
pub const MAX_ALIASES: usize = 8;
const MAX_ALIAS_BYTES: usize = 200;
const MAX_REFERENCE_BYTES: usize = 1_000;
pub(crate) const MAX_RATIONALE_BYTES: usize = 4_000;
/// Longest text of a payload, and the longest payload, in bytes of JSON.
const MAX_TEXT_BYTES: usize = 8 << 10;
const MAX_PAYLOAD_BYTES: usize = 32 << 10;
/// Whether `id` may be a row's: `[a-z][a-z0-9_-]{0,63}`.
#[must_use]
pub fn is_id(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES
        && id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

impl WriteRequest {
    /// A request without anything optional.
    #[must_use]
    pub fn new(bucket: Bucket, operation: Operation) -> Self {
        Self {
            bucket,
            operation,
            target_id: None,
            payload: Map::new(),
            reference_text: None,
            candidate_aliases: Vec::new(),
            confidence: None,
            rationale: String::new(),
        }
    }

    /// With this row.
    #[must_use]
    pub fn with_target(mut self, id: impl Into<String>) -> Self {
        self.target_id = Some(id.into());
        self
    }

    /// With this member of the payload.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.payload.insert(member.to_owned(), value.into());
        self
    }

    /// The row that replaces the one that ends.
    pub(crate) fn successor(&self) -> Option<&str> {
        self.payload.get(SUPERSEDED_BY).and_then(Value::as_str)
    }

    /// Checks what the request alone shows: the bucket has the operation, the id is well-formed, the payload has the
    /// required members and no unknown ones, and nothing is too large.
    ///
    /// # Errors
    /// `invalid_argument`, naming the member.
    pub fn check(&self) -> Result<()> {
        if self.bucket == Bucket::Plan && self.target_id.as_deref().is_some_and(|id| id != "main") {
            return Err(Error::invalid("the only plan is `main`"));
        }
        self.check_form()?;
        // An existing row can be given just a name.
        let names_only = self.target_id.is_some() && !self.candidate_aliases.is_empty();
        if self.operation.is_lifecycle() || names_only {
            return Ok(());
        }
        let missing = |name: &str| self.payload.get(name).is_none_or(Value::is_null);
        match columns(self.bucket).iter().find(|column| column.required && missing(column.name)) {
            Some(column) => Err(Error::invalid(format!("`{}` needs `payload.{}`", self.bucket, column.name))),
            None => Ok(()),
        }
    }

    /// Like [`check`](Self::check), for a request that may change an existing row: it need not have all members of a
    /// new one, and `null` removes an optional member. A plan's id is `main`, whatever the request calls it.
    pub(crate) fn check_form(&self) -> Result<()> {
        let (bucket, operation) = (self.bucket, self.operation);
        if !bucket.operations().contains(&operation) {
            return Err(Error::invalid(format!("`{bucket}` has no operation `{operation}`")));
        }
        match self.target_id.as_deref() {
            Some(id) if !is_id(id) => {
                return Err(Error::invalid(
                    "`target_id` must be a lower-case letter, then up to 63 lower-case letters, digits, `_` and `-`",
                ));
            }
            None if bucket == Bucket::TaskState => {
                return Err(Error::invalid("`task_state` needs the task's `target_id`"));
            }
            _ => {}
        }
        self.check_payload()?;
        self.check_words()
    }

    fn check_payload(&self) -> Result<()> {
        let members = match self.operation {
            Operation::Resolve | Operation::Reopen | Operation::Review => &[],
            Operation::Invalidate => SUCCESSOR,
            Operation::Upsert | Operation::Append => columns(self.bucket),
        };
        for (name, value) in &self.payload {
            let Some(column) = members.iter().find(|column| column.name == name) else {
                let short: String = name.chars().take(40).collect();
                return Err(Error::invalid(format!("`{}` has no `payload.{short}`", self.bucket)));
            };
            if column.required || !value.is_null() {
                column.kind.check(name, value)?;
            }
        }
        let size = serde_json::to_string(&self.payload).map_or(usize::MAX, |text| text.len());
        if size > MAX_PAYLOAD_BYTES {
            return Err(Error::invalid(format!(
                "`payload` has {size} bytes, at most {MAX_PAYLOAD_BYTES} are allowed"
            )));
        }
        Ok(())
    }

    fn check_words(&self) -> Result<()> {
        if self.candidate_aliases.len() > MAX_ALIASES {
            return Err(Error::invalid(format!("at most {MAX_ALIASES} `candidate_aliases` are allowed")));
        }
        for alias in &self.candidate_aliases {
            text("candidate_aliases", alias, MAX_ALIAS_BYTES)?;
        }
        if let Some(reference) = &self.reference_text {
            text("reference_text", reference, MAX_REFERENCE_BYTES)?;
        }
        if !self.rationale.is_empty() {
            text("rationale", &self.rationale, MAX_RATIONALE_BYTES)?;
        }
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return Err(Error::invalid("`confidence` must be from 0 to 1"));
        }
        Ok(())
    }
}

impl Kind {
    fn check(self, name: &str, value: &Value) -> Result<()> {
        let wrong = |what: &str| Err(Error::invalid(format!("`payload.{name}` must be {what}")));
        let number = value.as_f64().filter(|number| number.is_finite());
        match (self, value) {
            (Self::Text, Value::String(held)) => text(name, held, MAX_TEXT_BYTES),
            (Self::Text, _) => wrong("text"),
            (Self::Id, Value::String(id)) if is_id(id) => Ok(()),
            (Self::Id, _) => wrong("an id"),
            (Self::Real, _) if number.is_some() => Ok(()),
            (Self::Real, _) => wrong("a number"),
            (Self::Share, _) if number.is_some_and(|share| (0.0..=1.0).contains(&share)) => Ok(()),
            (Self::Share, _) => wrong("a number from 0 to 1"),
            (Self::Json, held) if name == "plan_json" && is_nothing(held) => {
                Err(Error::invalid(format!("`payload.{name}` is empty")))
            }
            (Self::Json, Value::Object(_) | Value::Array(_) | Value::String(_)) => {
                if value.to_string().contains("\\u0000") {
                    return wrong("without NUL characters");
                }
                Ok(())
            }
            (Self::Json, _) => wrong("an object, a list or text"),
            (Self::Status, Value::String(status)) if TASK_STATUSES.contains(&status.as_str()) => Ok(()),
            (Self::Status, _) => wrong(&format!("one of {}", TASK_STATUSES.join(", "))),
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

pub(crate) fn text(name: &str, value: &str, most: usize) -> Result<()> {
    if value.trim().is_empty() {
        return Err(Error::invalid(format!("`{name}` is empty")));
    }
    if value.len() > most {
        return Err(Error::invalid(format!(
            "`{name}` has {} bytes, at most {most} are allowed",
            value.len()
        )));
    }
    if value.contains('\0') {
        return Err(Error::invalid(format!("`{name}` has a NUL character")));
    }
    Ok(())
}
