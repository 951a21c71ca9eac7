//! A language model as interpreter.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::chat::{ChatModel, ChatPrompt};
use memory_core::{ErrorKind, Json, Retry};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Context, Interpretation, Interpreter, ModelRecord};
use crate::bucket::{Bucket, Operation};
use crate::note::{Note, NoteSource};
use crate::request::{Decision, Members, WriteRequest};

/// Longest note that is shown to a model, in bytes.
const MAX_NOTE_BYTES: usize = 16 << 10;
/// Longest reply that is read, in bytes.
const MAX_REPLY_BYTES: usize = 64 << 10;
/// Most writes of one note.
const MAX_WRITES: usize = 8;
/// Longest reason of a rejection that is kept, in characters.
const MAX_REASON: usize = 500;

const SYSTEM: &str = include_str!("prompt.txt");
const SCHEMA: &str = include_str!("schema.json");

/// Asks a [`ChatModel`] which writes a note asks for.
///
/// # Behavior
/// - Note and context are passed as data, in one JSON value; the instructions are constant.
/// - A single write may be given next to the decision instead of in a list, a write may repeat the decision, and `null`
///   means an omitted optional member.
/// - For any other reply that the schema does not allow (an unknown member, an invalid write), and for an error or
///   timeout of the model: `Retry`. The reply is recorded with the model's name and the hash of the prompt.
/// - A note of more than 16 KiB is rejected without asking.
#[derive(Clone, Debug)]
pub struct ModelInterpreter {
    model: Arc<dyn ChatModel>,
    name: String,
}

/// A model's reply, with writes in a list or the members of a single write next to the decision. Also used for a write
/// in the list, which may repeat what the whole reply says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    #[serde(default, rename = "v")]
    _version: Option<u64>,
    #[serde(default)]
    decision: Option<Verdict>,
    #[serde(default)]
    writes: Option<Vec<Self>>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    bucket: Option<Bucket>,
    #[serde(default)]
    operation: Option<Operation>,
    #[serde(default)]
    target_id: Option<String>,
    #[serde(default)]
    payload: Option<Members>,
    #[serde(default)]
    reference_text: Option<String>,
    #[serde(default)]
    candidate_aliases: Option<Vec<String>>,
    #[serde(default)]
    confidence: Option<f64>,
    #[serde(default)]
    rationale: Option<String>,
}

impl Reply {
    /// Its writes, or why it cannot be understood.
    fn writes(mut self) -> std::result::Result<Vec<WriteRequest>, &'static str> {
        let listed = self.writes.take().unwrap_or_default();
        match self.request()? {
            None => listed.into_iter().map(Self::listed).collect(),
            Some(only) if listed.is_empty() => Ok(vec![only]),
            Some(_) => Err(BESIDE),
        }
    }

    /// A write of the list.
    fn listed(self) -> std::result::Result<WriteRequest, &'static str> {
        if matches!(self.decision, Some(Verdict::Reject)) {
            return Err("it accepts the note and rejects a write of it");
        }
        if self.writes.is_some() || self.reason.is_some() {
            return Err("a write has members of a whole reply");
        }
        self.request()?.ok_or("a write needs `bucket` and `operation`")
    }

    /// The write whose members it contains, if any.
    fn request(self) -> std::result::Result<Option<WriteRequest>, &'static str> {
        let is_part = self.target_id.is_some()
            || self.payload.is_some()
            || self.reference_text.is_some()
            || self.candidate_aliases.is_some()
            || self.confidence.is_some();
        match (self.bucket, self.operation) {
            (Some(bucket), Some(operation)) => Ok(Some(WriteRequest {
                bucket,
                operation,
                target_id: self.target_id,
                payload: self.payload.map(|members| members.0).unwrap_or_default(),
                reference_text: self.reference_text,
                candidate_aliases: self.candidate_aliases.unwrap_or_default(),
                confidence: self.confidence,
                rationale: self.rationale.unwrap_or_default(),
            })),
            (None, None) if !is_part => Ok(None),
            _ => Err(BESIDE),
        }
    }
}

/// Why a reply cannot be understood.
const BESIDE: &str = "it has members of a write beside `writes`, or not all of a write";

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Accept,
    Reject,
}

impl ModelInterpreter {
    /// With this model.
    #[must_use]
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        let name = format!("model-1 {}", model.model());
        Self { model, name }
    }

    fn prompt(note: &Note, context: &Context) -> memory_core::Result<ChatPrompt> {
        let source = match note.source {
            NoteSource::Agent => "agent",
            NoteSource::ToolResult => "tool_result",
        };
        let user =
            serde_json::json!({ "note": note.text, "source": source, "shared_state": context }).to_string();
        let schema = Some(("shared_memory_writes".to_owned(), Json::parse(SCHEMA)?));
        Ok(ChatPrompt { system: SYSTEM.to_owned(), user, schema })
    }
}

#[async_trait]
impl Interpreter for ModelInterpreter {
    fn name(&self) -> &str {
        &self.name
    }

    async fn interpret(&self, note: &Note, context: &Context) -> Interpretation {
        if note.text.len() > MAX_NOTE_BYTES {
            return Interpretation::of(Decision::Reject(format!(
                "the note has more than {MAX_NOTE_BYTES} bytes"
            )));
        }
        let prompt = match Self::prompt(note, context) {
            Ok(prompt) => prompt,
            Err(error) => return Interpretation::of(Decision::Retry(error.to_string())),
        };
        let mut hash = Sha256::new();
        for part in [prompt.system.as_str(), prompt.user.as_str(), SCHEMA] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        let prompt_hash = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut retry_after = None;
        let (decision, reply) = match self.model.complete(&prompt).await {
            Ok(reply) => (read(&reply.text), cut(&reply.text, MAX_REPLY_BYTES).to_owned()),
            Err(error) => {
                // A timeout may be the note's own.
                if let (ErrorKind::RateLimited, Retry::After(asked)) = (error.kind(), error.retry()) {
                    retry_after = Some(asked);
                }
                (Decision::Retry(error.to_string()), String::new())
            }
        };
        let record = ModelRecord { model: self.model.model().to_owned(), prompt_hash, reply };
        Interpretation { decision, record: Some(record), retry_after }
    }
}

/// What a reply asks for.
fn read(text: &str) -> Decision {
    if text.len() > MAX_REPLY_BYTES {
        return Decision::Retry(format!("the model's reply has more than {MAX_REPLY_BYTES} bytes"));
    }
    let reply: Reply = match serde_json::from_str(unfenced(text)) {
        Ok(reply) => reply,
        Err(error) => {
            return Decision::Retry(format!("the model's reply is not what was asked for: {error}"));
        }
    };
    let asks = reply.bucket.is_some()
        || reply.operation.is_some()
        || reply.writes.as_ref().is_some_and(|writes| !writes.is_empty());
    match reply.decision {
        None => {
            Decision::Retry("the model's reply is not what was asked for: it has no `decision`".to_owned())
        }
        Some(Verdict::Reject) if asks => {
            Decision::Retry("the model rejects the note and asks for writes".to_owned())
        }
        Some(Verdict::Reject) => {
            let said = [reply.reason, reply.rationale].into_iter().flatten();
            let mut said = said.map(|said| said.chars().take(MAX_REASON).collect::<String>());
            let reason = said.find(|said| !said.trim().is_empty());
            Decision::Reject(reason.unwrap_or_else(|| "the model gave no reason".to_owned()))
        }
        Some(Verdict::Accept) => match reply.writes() {
            Err(why) => Decision::Retry(format!("the model's reply is not what was asked for: {why}")),
            Ok(writes) if writes.is_empty() || writes.len() > MAX_WRITES => Decision::Retry(format!(
                "the model asks for {} writes, 1 to {MAX_WRITES} are allowed",
                writes.len()
            )),
            Ok(writes) => match writes.iter().try_for_each(WriteRequest::check) {
                Ok(()) => Decision::Accept(writes),
                Err(error) => {
                    Decision::Retry(format!("the model asks for a write that is not valid: {error}"))
                }
            },
        },
    }
}

/// The text without the fence that some models put around JSON.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).unwrap_or(text).trim()
}

/// At most `most` bytes of a text.
fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
