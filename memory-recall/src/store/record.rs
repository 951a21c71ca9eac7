//! What the entries of a conversation contain. `docs/spec/recall.md` specifies their form.

use memory_core::embed::EmbeddingModel;
use memory_core::layer::Role;
use memory_core::{Entry, Error, Json, Key, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::vector::StoredVector;

/// The head: where the log ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Changes when the log starts over: what was read in another epoch is void.
    pub(crate) epoch: String,
    /// The number of the next record.
    pub(crate) next: u64,
    /// The record of what has been forgotten since the epoch began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forgot: Option<u64>,
    /// The record of what has been confirmed since the last correction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) confirmed: Option<u64>,
}

/// What is known of a digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// The number of its turn; `None` if it was forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) n: Option<u64>,
    /// The digest of the content, for a message with its own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<String>,
    /// A derived fact was removed with the turns that supported it, and may be derived again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) dropped: bool,
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    /// A turn.
    Turn(Box<StoredTurn>),
    /// Turns that were forgotten.
    Forgot(Vec<u64>),
    /// Turns that were corrected, and until when each held, in milliseconds.
    Superseded(Vec<(u64, i64)>),
    /// Turns that were confirmed, and when, in milliseconds.
    Confirmed(Vec<(u64, i64)>),
    /// What was here is forgotten.
    Gone,
}

/// A turn in stored form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredTurn {
    /// Its digest.
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) speaker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answers: Option<Answered>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) caption: Option<String>,
    /// The message's own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vector: Option<StoredVector>,
    /// When it was last confirmed, in milliseconds, if that was later than it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) confirmed_at: Option<i64>,
    /// Until when it held, in milliseconds, if it was corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) valid_to: Option<i64>,
    /// The digest of the turn that corrects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) superseded_by: Option<String>,
    /// What supports a derived fact; `None` for a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) derived: Option<Derived>,
}

/// What supports a derived fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Derived {
    /// The turns that support it, at least one.
    pub(crate) sources: Vec<Support>,
    /// What derived it.
    pub(crate) by: String,
    /// When it starts to hold, in milliseconds, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) valid_from: Option<i64>,
}

/// A turn that supports a derived fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Support {
    pub(crate) id: String,
    pub(crate) n: u64,
}

/// The turn that another answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) id: String,
    /// Its number, if it was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) n: Option<u64>,
}

impl StoredTurn {
    /// The words that a search among entries finds it by.
    pub(crate) fn search_text(&self) -> String {
        let mut text = match &self.speaker {
            Some(speaker) => format!("{speaker}: {}", self.text),
            None => self.text.clone(),
        };
        if let Some(caption) = &self.caption {
            text.push('\n');
            text += caption;
        }
        text
    }

    /// When it was said, or else stored, in milliseconds.
    pub(crate) fn said(&self, entry: &Entry) -> i64 {
        self.at.unwrap_or_else(|| entry.created_at.as_millis())
    }

    /// When it starts to hold, in milliseconds.
    pub(crate) fn begins(&self, entry: &Entry) -> i64 {
        let valid_from = self.derived.as_ref().and_then(|derived| derived.valid_from);
        valid_from.unwrap_or_else(|| self.said(entry))
    }

    /// In the form for the index, with its vector if that is from this model.
    pub(crate) fn indexed(&self, number: u64, model: Option<&EmbeddingModel>) -> crate::rank::Turn {
        let mut turn = crate::rank::Turn::new(number, self.text.as_str());
        turn.role = self.role;
        turn.speaker.clone_from(&self.speaker);
        // A derived fact has no neighbours and must not come between turns. No session has such a name.
        turn.session = match &self.derived {
            Some(_) => Some(format!("\u{1}{number}")),
            None => self.session.clone(),
        };
        turn.at = self.at.map(memory_core::Timestamp::from_millis_clamped);
        turn.answers = self.answers.as_ref().and_then(|answered| answered.n);
        turn.caption.clone_from(&self.caption);
        turn.vector = model.and_then(|model| self.vector.as_ref()?.of(model));
        turn
    }
}

/// Reads an entry's content.
pub(crate) fn read<T: DeserializeOwned>(entry: &Entry) -> Result<T> {
    entry.value.deserialize().map_err(|error| unreadable(&entry.key).with_source(error))
}

/// The error for an entry that does not match its key.
pub(crate) fn unreadable(key: &Key) -> Error {
    Error::corrupt(format!(
        "the entry `{key}` of a conversation cannot be read; it was changed by other means, or written by a newer version"
    ))
}

/// An entry's content as JSON.
pub(crate) fn written<T: Serialize>(value: &T) -> Result<Json> {
    Json::from_serialize(value)
        .map_err(|error| Error::internal("a record cannot be written as JSON").with_source(error))
}
