//! Facet 2: conversation in, facts out.
//!
//! The layer assigns ids, is lossy by design and may be asynchronous; it never pretends to be key/value.

use std::fmt::{self, Debug};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::entry::Metadata;
use crate::error::{Error, Result};
use crate::limits::{DEFAULT_PAGE, DEFAULT_TOP_K};
use crate::scope::{RunContext, Scope};
use crate::setters::setters;
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
    /// The id of work in progress, assigned by the layer.
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
    /// The speaker's name, if known.
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
    /// Stored with the facts. If not empty, requires `Capabilities::layer_metadata`.
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
}

setters! { AddOptions {
    /// Sets the metadata.
    with_metadata(metadata: Metadata);
} }

/// The status of an `add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// The result of [`MemoryLayer::add`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AddOutcome {
    /// Its status.
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
    /// A similarity in [0, 1] of the service's own kind.
    Similarity,
    /// Orders one result; not comparable across results.
    Rank,
    /// The service returned none.
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
    /// Its score, finite, if the result has scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What the score means.
    pub score_kind: ScoreKind,
    /// The metadata stored with it.
    pub metadata: Metadata,
    /// Where it came from, if the layer knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// When it was stored, if the layer knows.
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

/// The query of [`MemoryLayer::recall`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecallQuery {
    /// What to look for: at most 64 KiB, not blank.
    pub text: String,
    /// Most facts. Default 10.
    pub top_k: usize,
    /// Leaves out facts with a lower score, if scores are meaningful.
    pub threshold: Option<f64>,
}

impl RecallQuery {
    /// A query with defaults.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), top_k: DEFAULT_TOP_K, threshold: None }
    }
}

setters! { RecallQuery {
    /// Sets the number of facts.
    with_top_k(top_k: usize);
    /// Sets the threshold.
    with_threshold(threshold: f64) as Some;
} }

/// The status of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventStatus {
    /// Still in progress.
    Pending,
    /// Done, with these facts.
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

/// The result of [`MemoryLayer::forget`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ForgetOutcome {
    /// Facts that were removed; `None` if the service does not say.
    pub forgotten: Option<u64>,
    /// Ids that were not facts of this scope.
    pub not_found: Vec<FactId>,
    /// What the service keeps of the words all the same, and until when; empty: nothing that is known of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remains: Vec<String>,
}

impl ForgetOutcome {
    /// An outcome in which every id was found.
    #[must_use]
    pub fn new(forgotten: Option<u64>) -> Self {
        Self { forgotten, not_found: Vec::new(), remains: Vec::new() }
    }
}

/// The query of [`MemoryLayer::facts`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FactsQuery {
    /// Where the page begins: the cursor of the previous page.
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
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<String>,
}

impl FactsPage {
    /// A page.
    #[must_use]
    pub fn new(facts: Vec<Fact>, next: Option<String>) -> Self {
        Self { facts, next }
    }
}

/// Conversational memory: messages go in, facts come out.
///
/// The caller's [`RunContext`] carries per-run credentials; its tenant is the scope's.
#[async_trait]
pub trait MemoryLayer: Send + Sync + Debug {
    /// Adds messages. Requires `Capabilities::memory_layer`.
    ///
    /// # Behavior
    /// - LAY-1: The scope learns what a user's message says, in the layer's words: `recall` finds it and `facts`
    ///   lists it.
    /// - LAY-2: With `layer_sync`, `add` returns when the work is done: it never answers `Pending`, and the next
    ///   call of any handle sees what was learned.
    /// - LAY-3: Without `layer_sync`, `add` may answer `Pending`. With `layer_events` it then names an event, and
    ///   `event` reports `Pending` until it reports `Done` or `Failed`. Once it reports `Done`, the facts are
    ///   learned.
    /// - LAY-4: With `layer_ids`, `Done` names exactly the facts that this `add` stored, each once; all of them are
    ///   facts of the scope. Without it, `Done` names none.
    /// - LAY-5: An `add` without anything worth keeping succeeds and names no fact that does not exist: success
    ///   does not mean that something was stored.
    /// - LAY-6: `infer: false` stores the words of each user and assistant message as a separate fact, byte for
    ///   byte. It needs `layer_verbatim`; without it the call is refused with `capability_unsupported` and
    ///   `details.option`.
    /// - LAY-7: The metadata of an `add` is attached to every fact it stored. It needs `layer_metadata`; without it
    ///   the call is refused with `capability_unsupported` and `details.option`. A layer may reserve names, which
    ///   it refuses with `invalid_argument`.
    /// - LAY-8: Words and metadata are data. Filters, wildcards, ids and logic words in them (`*`, `{"AND": …}`,
    ///   `user_id`, `$or`) neither widen nor redirect what is stored or found.
    /// - LAY-9: Adding the same words again is no error, and what was learned stays learned.
    /// - LAY-10: System and tool messages, blank messages and speakers' names do not disturb the messages beside
    ///   them.
    /// - LAY-11: An `add` that may have stored all or a part is `Unknown` and is not retried.
    /// - LAY-50 to LAY-54: No call shows, changes or counts a fact of another scope.
    ///
    /// # Errors
    /// `unavailable` if nothing was stored; a write with an unknown outcome is [`AddStatus::Unknown`], not an error.
    async fn add(
        &self,
        run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome>;

    /// Finds facts, best first, of this scope alone. Requires `Capabilities::memory_layer`.
    ///
    /// # Behavior
    /// - LAY-12: A fact that contains all words of the question ranks above facts that contain few of them.
    /// - LAY-13: At most `top_k` facts are returned, and no fact twice.
    /// - LAY-14: Scores are finite and never increase along the answer; `score_kind` is `none` if and only if there
    ///   is no score. `cosine` and `similarity` scores are 0 to 1.
    /// - LAY-15: A threshold is applied once, to a similarity. It needs `layer_threshold`; without it the call is
    ///   refused with `capability_unsupported` and `details.option`. With `cosine` and `similarity` scores, no fact
    ///   below it is returned. With `rank` scores, the layer applies it to the underlying similarity and never to
    ///   the rank. A threshold never adds facts, and a threshold of one half keeps the fact that says what was asked
    ///   in the same words.
    /// - LAY-16: A scope that learned nothing answers with no facts and no error.
    /// - LAY-17: Recalling and listing change nothing.
    ///
    /// # Errors
    /// `unavailable`, `timeout`, `corrupt` for a reply that cannot be trusted.
    async fn recall(&self, run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>>;

    /// Asks about work in progress. Requires `Capabilities::layer_events`.
    ///
    /// # Behavior
    /// - LAY-3: Without `layer_sync`, `add` may answer `Pending`. With `layer_events` it then names an event, and
    ///   `event` reports `Pending` until it reports `Done` or `Failed`. Once it reports `Done`, the facts are
    ///   learned.
    /// - LAY-20: An event belongs to the scope it was created in. In another scope it is `not_found`, like an event
    ///   that never existed, and nothing about it is revealed.
    /// - LAY-21: An event that is done stays done, with the same facts, until they are forgotten.
    /// - LAY-22: Failed work is reported as `Failed`, with a reason.
    ///
    /// # Errors
    /// `not_found` for an event of another scope or an unknown one.
    async fn event(&self, run: &RunContext, scope: &Scope, id: &EventId) -> Result<EventStatus>;

    /// Forgets facts of this scope. Requires `Capabilities::layer_forget`.
    ///
    /// # Behavior
    /// - LAY-30: With `layer_forget`, the named facts are neither recalled nor listed once `forget` has returned;
    ///   all others stay.
    /// - LAY-31: An id that is not a fact of this scope (unknown, malformed, or another scope's) is returned in
    ///   `not_found`, and whatever it names is untouched.
    /// - LAY-32: `forgotten`, if reported, counts the facts that existed and are gone.
    /// - LAY-33: `Forget::All` leaves nothing in the scope and does not touch other scopes. It succeeds on an empty
    ///   scope.
    /// - LAY-34: Forgetting again is no error: ids that are gone are `not_found`.
    /// - LAY-35: What was forgotten can be learned again.
    /// - LAY-36: A `forget` that may have forgotten some, or may go on forgetting, fails with `outcome_unknown` and
    ///   never with an error that means that nothing was done.
    /// - LAY-37: `remains` says what the service keeps of the words all the same, and until when.
    ///
    /// # Errors
    /// `outcome_unknown` if some facts may be gone.
    async fn forget(&self, run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome>;

    /// Lists facts of this scope. Requires `Capabilities::memory_layer`.
    ///
    /// # Behavior
    /// - LAY-40: Together, the pages of `facts` contain each fact once, if nothing changes between them. No page
    ///   exceeds `limit`; every page but the last has a cursor.
    /// - LAY-41: A cursor of another scope, or one that the listing did not return, is `invalid_argument`.
    /// - LAY-42: A fact has the same id and words wherever it is returned.
    ///
    /// # Errors
    /// `invalid_argument` for a foreign cursor.
    async fn facts(&self, run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage>;
}
