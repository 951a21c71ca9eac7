//! Facet 2: conversation in, facts out.
//!
//! Server-assigned ids, lossy by design, maybe asynchronous: a layer never pretends to be key/value.

use std::fmt::{self, Debug};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::entry::Metadata;
use crate::error::{Error, Result};
use crate::limits::{DEFAULT_PAGE, DEFAULT_TOP_K};
use crate::scope::{RunContext, Scope};
use crate::time::Timestamp;

/// Longest fact or event id, in bytes.
pub const MAX_REMOTE_ID_BYTES: usize = 1_024;
/// Most messages of one `add`.
pub const MAX_MESSAGES: usize = 1_000;
/// Most bytes of the contents of one `add`.
pub const MAX_MESSAGES_BYTES: usize = 1 << 20;
/// Longest name of a speaker, in bytes.
pub const MAX_SPEAKER_BYTES: usize = 256;
/// Longest cursor of a page of facts, in bytes.
pub const MAX_FACTS_CURSOR_BYTES: usize = 4_096;

macro_rules! remote_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
        pub struct $name(Box<str>);

        impl $name {
            /// Validates an id: 1 to 1,024 bytes, not blank, no control characters, never `*`.
            ///
            /// # Errors
            /// `invalid_argument` or `too_large`.
            pub fn new(id: impl Into<String>) -> Result<Self> {
                let id = id.into();
                if id.trim().is_empty() || id == "*" || id.chars().any(char::is_control) {
                    return Err(Error::invalid(concat!($what, " is blank, a wildcard, or has control characters")));
                }
                if id.len() > MAX_REMOTE_ID_BYTES {
                    return Err(Error::too_large($what, id.len(), MAX_REMOTE_ID_BYTES, "bytes"));
                }
                Ok(Self(id.into_boxed_str()))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(id: String) -> Result<Self> {
                Self::new(id)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.into_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

remote_id!(
    /// A fact's id, assigned by the layer.
    FactId,
    "fact id"
);
remote_id!(
    /// The handle of work in progress, assigned by the layer.
    EventId,
    "event id"
);

/// Who said a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person.
    User,
    /// The agent.
    Assistant,
    /// The runtime.
    System,
    /// A tool's output.
    Tool,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
    /// The speaker's name, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub at: Option<Timestamp>,
}

impl Message {
    /// A message without name and time.
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), name: None, at: None }
    }
}

/// Options of [`MemoryLayer::add`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AddOptions {
    /// Whether the layer extracts facts (true, the default) or stores the words as they are, which requires
    /// `Capabilities::layer_verbatim`.
    pub infer: bool,
    /// Kept with the facts. Any requires `Capabilities::layer_metadata`.
    pub metadata: Metadata,
}

impl Default for AddOptions {
    fn default() -> Self {
        Self { infer: true, metadata: Metadata::new() }
    }
}

impl AddOptions {
    /// Stores the words as they are.
    #[must_use]
    pub fn verbatim(mut self) -> Self {
        self.infer = false;
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// What became of an `add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AddStatus {
    /// Done. With `Capabilities::layer_ids`, stored as these facts; none where the layer found nothing worth
    /// keeping. Without, none are named, and only `facts` tells what became of it.
    Done(Vec<FactId>),
    /// Accepted, and perhaps lost later; the event, where there is one, tells what became of it.
    Pending(Option<EventId>),
    /// It may or may not have been stored.
    Unknown,
}

/// The answer of [`MemoryLayer::add`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AddOutcome {
    /// What became of it.
    pub status: AddStatus,
}

impl AddOutcome {
    /// An outcome.
    #[must_use]
    pub fn new(status: AddStatus) -> Self {
        Self { status }
    }
}

/// What a fact's score means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScoreKind {
    /// Cosine similarity, higher is nearer.
    Cosine,
    /// A similarity in [0, 1] of the service's own making.
    Similarity,
    /// Orders one answer; means nothing across answers.
    Rank,
    /// The service gave none.
    None,
}

/// One remembered fact.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fact {
    /// Its id.
    pub id: FactId,
    /// The fact in words.
    pub memory: String,
    /// Its score, finite, where the answer has scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What the score means.
    pub score_kind: ScoreKind,
    /// What was kept with it.
    pub metadata: Metadata,
    /// Where it came from, where the layer knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// When it was stored, where the layer knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}

impl Fact {
    /// A fact without score, metadata, provenance and time.
    #[must_use]
    pub fn new(id: FactId, memory: impl Into<String>) -> Self {
        Self {
            id,
            memory: memory.into(),
            score: None,
            score_kind: ScoreKind::None,
            metadata: Metadata::new(),
            provenance: None,
            created_at: None,
        }
    }
}

/// A question to [`MemoryLayer::recall`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecallQuery {
    /// What to look for: at most 64 KiB, not blank.
    pub text: String,
    /// Most facts. Default 10.
    pub top_k: usize,
    /// Facts with a lower score are left out, where the score means something.
    pub threshold: Option<f64>,
}

impl RecallQuery {
    /// A question with defaults.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), top_k: DEFAULT_TOP_K, threshold: None }
    }

    /// Sets the number of facts.
    #[must_use]
    pub fn with_top_k(mut self, top_k: usize) -> Self {
        self.top_k = top_k;
        self
    }

    /// Sets the threshold.
    #[must_use]
    pub fn with_threshold(mut self, threshold: f64) -> Self {
        self.threshold = Some(threshold);
        self
    }
}

/// What is known of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventStatus {
    /// Still at work.
    Pending,
    /// Done, as these facts.
    Done(Vec<FactId>),
    /// Failed, for this reason.
    Failed(String),
}

/// Which facts to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forget {
    /// These.
    Ids(Vec<FactId>),
    /// Every fact of the scope.
    All,
}

/// The answer of [`MemoryLayer::forget`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ForgetOutcome {
    /// Facts that are gone; `None` where the service does not say.
    pub forgotten: Option<u64>,
    /// Ids that were not facts of this scope.
    pub not_found: Vec<FactId>,
}

impl ForgetOutcome {
    /// An outcome in which every id was found.
    #[must_use]
    pub fn new(forgotten: Option<u64>) -> Self {
        Self { forgotten, not_found: Vec::new() }
    }
}

/// A question to [`MemoryLayer::facts`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FactsQuery {
    /// Where the page begins: what the page before returned.
    pub cursor: Option<String>,
    /// Most facts of the page: 1 to 1,000. Default 100.
    pub limit: usize,
}

impl Default for FactsQuery {
    fn default() -> Self {
        Self { cursor: None, limit: DEFAULT_PAGE }
    }
}

/// One page of facts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FactsPage {
    /// Facts, in the layer's order.
    pub facts: Vec<Fact>,
    /// Where the next page begins; `None`: this was the last.
    pub next: Option<String>,
}

impl FactsPage {
    /// A page.
    #[must_use]
    pub fn new(facts: Vec<Fact>, next: Option<String>) -> Self {
        Self { facts, next }
    }
}

/// Conversational memory: what was said goes in, what is worth knowing comes out.
///
/// The caller's [`RunContext`] carries per-run credentials; its tenant is the scope's.
#[async_trait]
pub trait MemoryLayer: Send + Sync + Debug {
    /// Adds messages. Requires `Capabilities::memory_layer`.
    ///
    /// # Errors
    /// `unavailable` where nothing was stored; a write whose fate is unknown is
    /// [`AddStatus::Unknown`], not an error.
    async fn add(
        &self,
        run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome>;

    /// Finds facts, best first, of this scope alone. Requires `Capabilities::memory_layer`.
    ///
    /// # Errors
    /// `unavailable`, `timeout`, `corrupt` for a reply that cannot be trusted.
    async fn recall(&self, run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>>;

    /// Asks about work in progress. Requires `Capabilities::layer_events`.
    ///
    /// # Errors
    /// `not_found` for an event of another scope or an unknown one.
    async fn event(&self, run: &RunContext, scope: &Scope, id: &EventId) -> Result<EventStatus>;

    /// Forgets facts of this scope. Requires `Capabilities::layer_forget`.
    ///
    /// # Errors
    /// `outcome_unknown` where some may be gone.
    async fn forget(&self, run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome>;

    /// Lists facts of this scope. Requires `Capabilities::memory_layer`.
    ///
    /// # Errors
    /// `invalid_argument` for a foreign cursor.
    async fn facts(&self, run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage>;
}
