//! Messages, and the outcome of adding them.

use serde::{Deserialize, Serialize};

use super::ids::{EventId, FactId};
use crate::entry::{Metadata, Quota, Ttl};
use crate::lifecycle::drift::DriftChange;
use crate::time::Timestamp;

/// Most messages of one `add`.
pub const MAX_MESSAGES: usize = 1_000;
/// Most bytes of the contents of one `add`.
pub const MAX_MESSAGES_BYTES: usize = 1 << 20;
/// Longest name of a speaker, in bytes.
pub const MAX_SPEAKER_BYTES: usize = 256;
/// Longest id or session of a message, in bytes.
pub const MAX_MESSAGE_ID_BYTES: usize = 512;
/// Longest caption of a message, in bytes.
pub const MAX_CAPTION_BYTES: usize = 16 << 10;
/// Most facts that one `add` supersedes, and most that it confirms.
pub const MAX_SUPERSEDED: usize = 100;

/// Who said a message.
// The aliases are the names that other programs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person.
    #[serde(alias = "human")]
    User,
    /// The agent.
    #[serde(alias = "ai", alias = "model")]
    Assistant,
    /// The runtime.
    #[serde(alias = "developer")]
    System,
    /// A tool's output.
    #[serde(alias = "function")]
    Tool,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said. Read from JSON, `null` is no words, and of a list of blocks the texts count, in lines of their own.
    #[serde(deserialize_with = "super::content::read")]
    #[cfg_attr(feature = "schema", schemars(description = "What was said."))]
    pub content: String,
    /// The speaker's name, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it was said: RFC 3339, also without an offset or a time, in UTC; or seconds or milliseconds since 1970.
    #[serde(
        default,
        deserialize_with = "crate::time::read_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub at: Option<Timestamp>,
    /// Its id where it comes from, so that adding it again is known to be the same message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The session or thread that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The id of the message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// What a picture that was sent along shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// Stored with its fact, beside the metadata of the call. If not empty, requires `Capabilities::layer_metadata`, and a
    /// layer that cannot keep messages apart refuses it.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Message {
    /// A message with only a role and a text.
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let content = content.into();
        Self {
            role,
            content,
            name: None,
            at: None,
            id: None,
            session: None,
            answers: None,
            caption: None,
            metadata: Metadata::new(),
        }
    }

    /// Whether it has neither text nor a caption.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let is_blank = |text: &str| text.trim().is_empty();
        is_blank(&self.content) && self.caption.as_deref().is_none_or(is_blank)
    }

    crate::setters! {
        with_name(name: String => Some(name));
        with_at(at: Timestamp => Some(at));
        with_id(id: String => Some(id));
        with_session(session: String => Some(session));
        with_answers(answers: String => Some(answers));
        with_caption(caption: String => Some(caption));
        with_metadata(metadata: Metadata);
    }
}

/// Options of [`MemoryLayer::add`](super::MemoryLayer::add).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AddOptions {
    /// Whether the layer extracts facts (true, the default) or stores the words as they are, which requires
    /// `Capabilities::layer_verbatim`.
    pub infer: bool,
    /// Stored with the facts. If not empty, requires `Capabilities::layer_metadata`.
    pub metadata: Metadata,
    /// Stores also what was forgotten before. Otherwise a layer with `Capabilities::layer_idempotent` leaves it out, and
    /// says so.
    pub again: bool,
    /// The facts that this one corrects. If not empty, requires `Capabilities::layer_supersede`.
    pub supersedes: Vec<FactId>,
    /// Facts that still hold, as the messages say. If not empty, requires `Capabilities::layer_confirm`.
    pub confirms: Vec<FactId>,
    /// How long the facts live. Other than `Keep`, requires `Capabilities::layer_expiry`.
    pub ttl: Ttl,
    /// Limits of the scope, for a layer that keeps its facts among the scope's entries; others have limits of their own.
    pub quota: Quota,
}

impl Default for AddOptions {
    fn default() -> Self {
        Self {
            infer: true,
            metadata: Metadata::new(),
            again: false,
            supersedes: Vec::new(),
            confirms: Vec::new(),
            ttl: Ttl::Keep,
            quota: Quota::default(),
        }
    }
}

impl AddOptions {
    /// Stores the text as it is.
    #[must_use]
    pub fn verbatim(mut self) -> Self {
        self.infer = false;
        self
    }

    crate::setters! {
        with_metadata(metadata: Metadata);
        /// Whether forgotten content is stored again.
        with_again(again: bool);
        with_supersedes(supersedes: Vec<FactId>);
        with_confirms(confirms: Vec<FactId>);
        with_ttl(ttl: Ttl);
        with_quota(quota: Quota);
    }
}

/// The status of an `add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AddStatus {
    /// Done. With `Capabilities::layer_ids`, these are the stored facts, possibly none. Without it no facts are named,
    /// and only `facts` shows the result.
    Done(Vec<FactId>),
    /// Accepted, and perhaps lost later; the event, if there is one, reports the result.
    Pending(Option<EventId>),
    /// It may or may not have been stored.
    Unknown,
}

/// The result of [`MemoryLayer::add`](super::MemoryLayer::add).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AddOutcome {
    /// Its status.
    pub status: AddStatus,
    /// Messages that were there already.
    pub known: u64,
    /// Messages left out because they were forgotten before; [`AddOptions::again`] stores them.
    pub forgotten: u64,
    /// The facts of messages whose id was used before for other words; these stay as they were.
    pub different: Vec<FactId>,
    /// Facts that were stored without a vector although there is an embedder, and are found by words alone.
    pub without_vector: u64,
    /// How its writes changed the scope's token, one after another, if the layer keeps its facts among the scope's entries and
    /// these have tokens.
    #[serde(skip)]
    pub drift: Vec<DriftChange>,
}

impl AddOutcome {
    /// An outcome.
    #[must_use]
    pub fn new(status: AddStatus) -> Self {
        Self { status, known: 0, forgotten: 0, different: Vec::new(), without_vector: 0, drift: Vec::new() }
    }
}
