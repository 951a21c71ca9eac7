//! Ranking of turns: pure functions over an index in memory, without I/O or a clock.
//!
//! The score of a turn is a weighted sum of [signals](Signal). `docs/spec/recall.md` explains each of them and its
//! weight.

mod calendar;
mod dates;
mod index;
mod lexical;
mod search;
mod signal;
mod speakers;
mod text;
mod vectors;
mod words;

use memory_core::Timestamp;
use memory_core::layer::Role;

pub use index::Index;
pub use signal::{Bm25, Signal, Weights};

/// One turn of a conversation, as the index sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its number in the scope: grows in the order of adding, and is never reused.
    pub number: u64,
    /// What was said.
    pub text: String,
    /// Who said it.
    pub role: Role,
    /// The speaker's name, if known.
    pub speaker: Option<String>,
    /// The session it belongs to, if known. Turns without one are one session.
    pub session: Option<String>,
    /// When it was said, if known.
    pub at: Option<Timestamp>,
    /// The number of the turn it answers, if known.
    pub answers: Option<u64>,
    /// What a picture that was sent along shows.
    pub caption: Option<String>,
    /// The embedding of [`Turn::embedded_text`], if there is one.
    pub vector: Option<Vec<f32>>,
}

impl Turn {
    /// A user's turn that is only text.
    #[must_use]
    pub fn new(number: u64, text: impl Into<String>) -> Self {
        Self {
            number,
            text: text.into(),
            role: Role::User,
            speaker: None,
            session: None,
            at: None,
            answers: None,
            caption: None,
            vector: None,
        }
    }

    /// The text of a turn in the form given to an embedder.
    #[must_use]
    pub fn embedded_text(text: &str, caption: Option<&str>) -> String {
        match caption {
            Some(caption) => format!("{text} {caption}"),
            None => text.to_owned(),
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// In plain words.
    pub text: String,
    /// The time of the question, from which "yesterday" counts. Turns said later are not found. Without it, relative
    /// dates count from the last turn.
    pub at: Option<Timestamp>,
    /// The embedding of [`Index::masked`] of the text, if there is one.
    pub vector: Option<Vec<f32>>,
}

/// The part of a signal in a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The signal's name.
    pub signal: &'static str,
    /// Weight times the signal's value; the shares add up to the score.
    pub value: f64,
}

/// A turn that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The turn's number.
    pub number: u64,
    /// Orders this answer; finite.
    pub score: f64,
    /// Similarity of question and turn, independent of other turns: 0 to 1, and 1 for the same words. Thresholds apply
    /// to it.
    pub similarity: f64,
    /// The components of the score.
    pub shares: Vec<Share>,
}

/// No slot.
const NONE: u32 = u32::MAX;

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(NONE)
}

/// Exact: no index has more slots than memory has bytes.
fn place(slot: u32) -> usize {
    slot as usize
}
