//! What a note is taken to mean: the interface between interpreting, which may be a model's work, and all that follows.

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bucket::{Bucket, Operation};

/// What the interpreter made of a note.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It asks for these writes.
    Accept(Vec<WriteRequest>),
    /// It means nothing for shared state; why.
    Reject(String),
    /// It could not be told now (the model timed out, was busy or answered nonsense): the note stays new; why.
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
    #[serde(default)]
    pub payload: Map<String, Value>,
    /// The words of the note that refer to the row ("the earlier blocker").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_text: Option<String>,
    /// Other names of the row: at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidate_aliases: Vec<String>,
    /// How sure the interpreter is, 0 to 1. Recorded, and decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Why, in the interpreter's words. Recorded, and decides nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rationale: String,
}

/// Longest id, in bytes.
pub const MAX_ID_BYTES: usize = 64;
/// Most aliases of one request.
pub const MAX_ALIASES: usize = 8;
const MAX_ALIAS_BYTES: usize = 200;
const MAX_REFERENCE_BYTES: usize = 1_000;
const MAX_RATIONALE_BYTES: usize = 4_000;
/// Longest text of a payload, and the longest payload, in bytes of JSON.
const MAX_TEXT_BYTES: usize = 8 << 10;
const MAX_PAYLOAD_BYTES: usize = 32 << 10;
/// What a task's status may be.
pub const TASK_STATUSES: [&str; 5] = ["pending", "in_progress", "blocked", "done", "failed"];

/// What a member of a payload must be.
#[derive(Clone, Copy)]
enum Kind {
    /// Text with something in it.
    Text,
    /// A number.
    Number,
    /// A number from 0 to 1.
    Share,
    /// One of [`TASK_STATUSES`].
    Status,
    /// The id of a row.
    Id,
    /// Any JSON but `null`.
    Any,
}

/// The members of a payload: the first one is required, except to end a row.
const fn members(bucket: Bucket, operation: Operation) -> &'static [(&'static str, Kind)] {
    use Kind::{Any, Id, Number, Share, Status, Text};
    match (bucket, operation) {
        (_, Operation::Resolve | Operation::Invalidate) => &[],
        (Bucket::Plan, _) => &[("plan_json", Any)],
        (Bucket::Constraints, _) => &[("text", Text), ("scope", Text)],
        (Bucket::Issues, _) => &[
            ("title", Text),
            ("description", Text),
            ("severity", Text),
            ("entity_type", Text),
            ("entity_id", Text),
        ],
        (Bucket::Decisions, _) => &[("statement", Text), ("rationale", Text), ("scope", Text)],
        (Bucket::Results, _) => &[
            ("metric_name", Text),
            ("metric_value", Number),
            ("baseline_value", Number),
            ("experiment_id", Text),
            ("notes", Text),
        ],
        (Bucket::TaskState, _) => {
            &[("status", Status), ("phase", Text), ("owner_agent", Text), ("blockers_json", Any)]
        }
        (Bucket::Learnings, _) => &[
            ("statement", Text),
            ("title", Text),
            ("category", Text),
            ("scope", Text),
            ("confidence", Share),
            ("source_issue_id", Id),
        ],
    }
}

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

    /// Checks what can be told from the request alone: the operation is one of the bucket's, the id may be one, the
    /// payload has the members it must have and no others, and nothing is too large.
    ///
    /// # Errors
    /// `invalid_argument`, naming the member.
    pub fn check(&self) -> Result<()> {
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
            Some(id) if bucket == Bucket::Plan && id != "main" => {
                return Err(Error::invalid("the only plan is `main`"));
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
        let members = members(self.bucket, self.operation);
        // A row that is there can be given a name alone.
        let names_only = self.target_id.is_some() && !self.candidate_aliases.is_empty();
        if !self.operation.is_lifecycle()
            && !names_only
            && let Some((required, _)) = members.first()
            && !self.payload.contains_key(*required)
        {
            return Err(Error::invalid(format!("`{}` needs `payload.{required}`", self.bucket)));
        }
        if matches!((self.bucket, self.payload.get("metric_value")), (Bucket::Results, None)) {
            return Err(Error::invalid("`results` needs `payload.metric_value`"));
        }
        for (name, value) in &self.payload {
            let Some((_, kind)) = members.iter().find(|(known, _)| known == name) else {
                let short: String = name.chars().take(40).collect();
                return Err(Error::invalid(format!("`{}` has no `payload.{short}`", self.bucket)));
            };
            kind.check(name, value)?;
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
        match (self, value) {
            (Self::Text, Value::String(held)) => text(name, held, MAX_TEXT_BYTES),
            (Self::Number, Value::Number(_)) => Ok(()),
            (Self::Share, Value::Number(share))
                if share.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)) =>
            {
                Ok(())
            }
            (Self::Status, Value::String(status)) if TASK_STATUSES.contains(&status.as_str()) => Ok(()),
            (Self::Id, Value::String(id)) if is_id(id) => Ok(()),
            (Self::Any, Value::Null) => wrong("present"),
            (Self::Any, _) => Ok(()),
            (Self::Text, _) => wrong("text"),
            (Self::Number, _) => wrong("a number"),
            (Self::Share, _) => wrong("a number from 0 to 1"),
            (Self::Status, _) => wrong(&format!("one of {}", TASK_STATUSES.join(", "))),
            (Self::Id, _) => wrong("an id"),
        }
    }
}

fn text(name: &str, value: &str, most: usize) -> Result<()> {
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
