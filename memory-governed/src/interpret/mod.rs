//! What a note means for shared state: a proposal, which the resolver and the checks after it may refuse.

mod context;
mod lead;
mod model;
mod reopened;
mod replaced;
mod restated;
mod rules;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

pub(crate) use context::MOST_ROWS;
pub use context::{Context, ContextRow};
pub(crate) use lead::doubtful_lead;
pub(crate) use reopened::{is_turned, reopened};
pub(crate) use replaced::{is_news, may_be_an_end, replaced, supposes, takes_back};

pub use model::ModelInterpreter;
pub use rules::Rules;
pub(crate) use rules::has_form;

use crate::note::Note;
use crate::request::Decision;

/// What an interpreter made of a note, and from what.
#[derive(Clone, Debug, PartialEq)]
pub struct Interpretation {
    /// What it decided.
    pub decision: Decision,
    /// If a model decided: what it was asked and what it said.
    pub record: Option<ModelRecord>,
    /// With `Retry`: how long to leave an overloaded model alone. Until then, no note of the space is read.
    pub retry_after: Option<Duration>,
}

/// What a model was asked and what it said, for auditing a decision.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ModelRecord {
    /// The model's name.
    pub model: String,
    /// SHA-256 of the whole prompt, in hexadecimal.
    pub prompt_hash: String,
    /// The reply as it came, cut after 64 KiB. Empty if there was none.
    pub reply: String,
}

/// Says which writes a note asks for.
///
/// # Behavior
/// - Sees the note and a narrow context, and writes nothing.
/// - Its answer is a proposal: every write has passed [`WriteRequest::check`](crate::WriteRequest::check), and no more is
///   certain about it.
/// - If it cannot decide now, it answers `Retry`, never `Reject`.
#[async_trait]
pub trait Interpreter: Send + Sync + fmt::Debug {
    /// Its name and version, constant for the life of the value: recorded with each write.
    fn name(&self) -> &str;

    /// Interprets one note.
    async fn interpret(&self, note: &Note, context: &Context) -> Interpretation;
}

impl Interpretation {
    /// A decision that no model took part in.
    #[must_use]
    pub const fn of(decision: Decision) -> Self {
        Self { decision, record: None, retry_after: None }
    }
}
