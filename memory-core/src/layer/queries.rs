//! Queries to a layer, and its answers.

use serde::{Deserialize, Serialize};

use super::fact::Fact;
use super::ids::FactId;
use crate::lifecycle::drift::DriftChange;
use crate::limits::{DEFAULT_PAGE, DEFAULT_TOP_K};
use crate::time::Timestamp;

/// Longest cursor of a page of facts, in bytes.
pub const MAX_FACTS_CURSOR_BYTES: usize = 4_096;

/// The query of [`MemoryLayer::recall`](super::MemoryLayer::recall).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RecallQuery {
    /// What to look for: at most 64 KiB, not blank.
    pub text: String,
    /// Most facts. Default 10.
    #[serde(default = "default_top_k")]
    pub top_k: usize,
    /// Leaves out facts with a lower score, if scores are meaningful.
    #[serde(default, deserialize_with = "crate::json::exact_f64_or_none")]
    pub threshold: Option<f64>,
    /// When the question is asked: what "yesterday" counts from. `None`: now.
    #[serde(default, deserialize_with = "crate::time::read_or_none")]
    pub at: Option<Timestamp>,
    /// Answers with what held at this time, corrected since or not. Requires `Capabilities::layer_supersede`.
    #[serde(default, deserialize_with = "crate::time::read_or_none")]
    pub as_of: Option<Timestamp>,
    /// Only what was last said or confirmed before this time. Requires `Capabilities::layer_confirm`.
    #[serde(default, deserialize_with = "crate::time::read_or_none")]
    pub unconfirmed_since: Option<Timestamp>,
    /// Whether facts say what their score is made of, if the layer knows.
    #[serde(default)]
    pub explain: bool,
}

fn default_top_k() -> usize {
    DEFAULT_TOP_K
}

impl RecallQuery {
    /// A query with defaults.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            top_k: DEFAULT_TOP_K,
            threshold: None,
            at: None,
            as_of: None,
            unconfirmed_since: None,
            explain: false,
        }
    }

    crate::setters! {
        with_top_k(top_k: usize);
        with_threshold(threshold: f64 => Some(threshold));
        with_at(at: Timestamp => Some(at));
        /// The time that the query asks about.
        with_as_of(as_of: Timestamp => Some(as_of));
        /// Asks for facts that nobody has confirmed since.
        with_unconfirmed_since(unconfirmed_since: Timestamp => Some(unconfirmed_since));
        with_explain(explain: bool);
    }
}

/// The status of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Forget {
    /// These.
    Ids(Vec<FactId>),
    /// Every fact of the scope.
    All,
}

/// The result of [`MemoryLayer::forget`](super::MemoryLayer::forget).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ForgetOutcome {
    /// Facts that were removed; `None` if the service does not say.
    pub forgotten: Option<u64>,
    /// Ids that were not facts of this scope.
    pub not_found: Vec<FactId>,
    /// What the service keeps of the words all the same, and until when; empty: nothing that is known of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remains: Vec<String>,
    /// As [`AddOutcome::drift`](super::AddOutcome::drift).
    #[serde(skip)]
    pub drift: Vec<DriftChange>,
}

impl ForgetOutcome {
    /// An outcome in which every id was found.
    #[must_use]
    pub fn new(forgotten: Option<u64>) -> Self {
        Self { forgotten, not_found: Vec::new(), remains: Vec::new(), drift: Vec::new() }
    }
}

/// The query of [`MemoryLayer::facts`](super::MemoryLayer::facts).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FactsQuery {
    /// Where the page begins: the cursor of the previous page.
    pub cursor: Option<String>,
    /// Most facts of the page: 1 to 1,000. Default 100.
    pub limit: usize,
    /// Only what was said in this session. If given, requires `Capabilities::layer_sessions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

impl Default for FactsQuery {
    fn default() -> Self {
        Self { cursor: None, limit: DEFAULT_PAGE, session: None }
    }
}

/// One page of facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
