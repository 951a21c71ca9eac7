//! The contract of what draws facts from turns.

use std::fmt;

use async_trait::async_trait;
use memory_core::layer::{FactId, Role};
use memory_core::{Result, Timestamp};

use crate::store::progress::Spent;

/// A turn that facts may be drawn from.
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
    /// A user's turn of which nothing else is known.
    #[must_use]
    pub fn new(id: FactId, text: impl Into<String>) -> Self {
        Self { id, text: text.into(), role: Role::User, speaker: None, at: None, caption: None }
    }
}

/// A fact that was drawn before and holds.
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

/// A fact that was drawn from turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnFact {
    /// The fact in words.
    pub text: String,
    /// The turns that say it, each by itself.
    pub sources: Vec<FactId>,
    /// From when on it holds, if the turns say so.
    pub valid_from: Option<Timestamp>,
    /// Facts drawn before that hold no more because of it.
    pub supersedes: Vec<FactId>,
}

/// What an extractor made of turns.
#[derive(Debug)]
pub struct Drawn {
    /// The facts, or why there are none to be had.
    pub facts: Result<Vec<DrawnFact>>,
    /// What it cost, whatever came of it.
    pub spent: Spent,
}

/// Draws facts from turns. Bounded in time; what it returns is checked, not trusted.
#[async_trait]
pub trait Extractor: Send + Sync + fmt::Debug {
    /// What is noted with each fact: the kind, its version and the model.
    fn name(&self) -> &str;

    /// Draws facts from `turns`; `known` are facts drawn before that may be about the same.
    ///
    /// # Errors
    /// In [`Drawn::facts`]. `rate_limited`, `timeout` and `unavailable` are tried again later, `corrupt` and `too_large` with
    /// fewer turns; another error is nothing that these turns could help, and leaves them waiting.
    async fn extract(&self, turns: &[SourceTurn], known: &[KnownFact]) -> Drawn;
}
