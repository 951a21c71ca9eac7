//! `[models.chat]`, `[recall.extract]` and `[governed]` of `memory.toml`: the language model and what it is used for.

use std::fmt;

use memory_core::{Error, Result};
use serde::Deserialize;
use serde::de::Deserializer;

/// `[models]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelsSection {
    /// The language model; it is used only if a section below says so.
    pub chat: Option<ChatSection>,
}

/// `[models.chat]`: a service that speaks OpenAI's `/chat/completions`.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum ChatSection {
    /// The service.
    #[cfg(feature = "chat-openai")]
    OpenAi(Box<memory_embed::OpenAiChatOptions>),
    /// This build lacks the cargo feature `chat-openai`. The section is accepted, because programs may share a file,
    /// and refused when opened.
    NotBuilt,
}

/// Shows no field, since one may contain a misplaced secret.
impl fmt::Debug for ChatSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatSection").finish_non_exhaustive()
    }
}

impl<'de> Deserialize<'de> for ChatSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[cfg(feature = "chat-openai")]
        return memory_embed::OpenAiChatOptions::deserialize(deserializer)
            .map(|options| Self::OpenAi(Box::new(options)));
        #[cfg(not(feature = "chat-openai"))]
        return serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self::NotBuilt);
    }
}

/// `[recall]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RecallSection {
    /// The parameters of BM25. Default: those that suit the mean length of turns.
    pub bm25: Option<Bm25Section>,
    /// Whether and how facts are extracted from what was said.
    pub extract: ExtractSection,
}

/// `bm25` of `[recall]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Bm25Section {
    /// How fast repeated words stop counting: 0 to 10.
    pub k1: f64,
    /// How much the length of a turn discounts its words: 0 to 1.
    pub b: f64,
}

impl Bm25Section {
    pub(in crate::config) fn check(&self) -> Result<()> {
        for (name, value, most) in [("k1", self.k1, 10.0), ("b", self.b, 1.0)] {
            if !(0.0..=most).contains(&value) {
                return Err(Error::invalid(format!(
                    "[recall] {name} of bm25 is {value}; it must be 0 to {most}"
                )));
            }
        }
        Ok(())
    }
}

/// `[recall.extract]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ExtractSection {
    /// Whether `memory serve` extracts facts in the background. Default: no.
    pub enabled: bool,
    /// How many turns the model is given at once: 1 to 100. Default: 20.
    pub batch: usize,
    /// How often turns are tried before they are set aside: 1 to 20. Default: 5.
    pub max_attempts: u32,
}

impl Default for ExtractSection {
    fn default() -> Self {
        Self { enabled: false, batch: 20, max_attempts: 5 }
    }
}

/// What reads the notes of shared state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InterpreterKind {
    /// Explicit forms, without a model.
    #[default]
    Rules,
    /// The language model of `[models.chat]`.
    Model,
}

/// `[governed]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct GovernedSection {
    /// What reads notes: `rules` (the default) or `model`.
    pub interpreter: InterpreterKind,
}

impl ChatSection {
    /// The model, and the scheme and host of its service: nothing that could be a secret.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            #[cfg(feature = "chat-openai")]
            Self::OpenAi(options) => {
                let origin = memory_embed::memory_http::Origin::of(&options.base_url);
                let origin =
                    origin.map_or_else(|_| "an address that is none".to_owned(), |origin| origin.to_string());
                format!("{} at {origin}", options.model)
            }
            Self::NotBuilt => "needs the cargo feature `chat-openai`".to_owned(),
        }
    }

    /// Checks everything that can be checked without opening anything.
    pub(in crate::config) fn check(&self) -> Result<()> {
        match self {
            #[cfg(feature = "chat-openai")]
            Self::OpenAi(options) => options.check(),
            Self::NotBuilt => Ok(()),
        }
    }
}

impl ExtractSection {
    pub(in crate::config) fn check(&self) -> Result<()> {
        if !(1..=100).contains(&self.batch) {
            return Err(Error::invalid(format!(
                "[recall.extract] batch is {}; it must be 1 to 100",
                self.batch
            )));
        }
        if !(1..=20).contains(&self.max_attempts) {
            return Err(Error::invalid(format!(
                "[recall.extract] max_attempts is {}; it must be 1 to 20",
                self.max_attempts
            )));
        }
        Ok(())
    }
}
