//! The interface of what extracts facts from turns.

use std::fmt;

use async_trait::async_trait;
use memory_core::layer::{FactId, Role};
use memory_core::{Result, Timestamp};

use crate::store::progress::Spent;

/// A turn to extract facts from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SourceTurn {
    /// Its id.
    pub id: FactId,
    /// What was said, cut after 16 KiB.
    pub text: String,
    /// Who said it.
    pub role: Role,
    /// The speaker's name, if known.
    pub speaker: Option<String>,
    /// When it was said, if known.
    pub at: Option<Timestamp>,
    /// What a picture that was sent along shows.
    pub caption: Option<String>,
}

impl SourceTurn {
    /// A user's turn with nothing else known about it.
    #[must_use]
    pub fn new(id: FactId, text: impl Into<String>) -> Self {
        Self { id, text: text.into(), role: Role::User, speaker: None, at: None, caption: None }
    }
}

/// A fact that was extracted earlier and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownFact {
    /// Its id.
    pub id: FactId,
    /// The fact in words.
    pub text: String,
}

impl KnownFact {
    /// A fact.
    #[must_use]
    pub fn new(id: FactId, text: impl Into<String>) -> Self {
        Self { id, text: text.into() }
    }
}

/// A fact extracted from turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnFact {
    /// The fact in words.
    pub text: String,
    /// The turns that say it, each on its own.
    pub sources: Vec<FactId>,
    /// When it starts to hold, if the turns say so.
    pub valid_from: Option<Timestamp>,
    /// Earlier facts that no longer hold because of it.
    pub supersedes: Vec<FactId>,
}

/// What an extractor made of turns.
#[derive(Debug)]
pub struct Drawn {
    /// The facts, or why there are none.
    pub facts: Result<Vec<DrawnFact>>,
    /// What it cost, whatever the result.
    pub spent: Spent,
}

/// Extracts facts from turns. Limited in time; its results are checked, not trusted.
#[async_trait]
pub trait Extractor: Send + Sync + fmt::Debug {
    /// What is recorded with each fact: the kind, its version and the model.
    fn name(&self) -> &str;

    /// Extracts facts from `turns`; `known` are earlier facts that may be about the same things.
    ///
    /// # Errors
    /// In [`Drawn::facts`]. After `rate_limited`, `timeout` and `unavailable` the turns are retried later, after
    /// `corrupt` and `too_large` in smaller batches; any other error is not the turns' fault and leaves them waiting.
    async fn extract(&self, turns: &[SourceTurn], known: &[KnownFact]) -> Drawn;
}
