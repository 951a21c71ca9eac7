//! Ranking of turns: pure functions over an index in memory, without I/O and clock.

use memory_core::Timestamp;
use memory_core::layer::Role;
use memory_core::lexical::{K1, LexicalIndex};

/// One turn of a conversation, as the index sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its number in the scope: grows in the order in which turns were added, and is never reused.
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
    /// The number of the turn that it answers, if known.
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

    /// The text that an embedder is given for a turn.
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
    /// When it is asked: what "yesterday" counts from.
    pub at: Option<Timestamp>,
    /// The embedding of [`Index::masked`] of the text, if there is one.
    pub vector: Option<Vec<f32>>,
}

/// The weights of the signals.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// BM25 of the turn.
    pub lexical: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { lexical: 1.0 }
    }
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
    /// How near question and turn are, whatever the other turns: 0 to 1, and 1 for the same words. Thresholds apply to it.
    pub similarity: f64,
    /// What the score is made of.
    pub shares: Vec<Share>,
}

/// The turns of one scope.
#[derive(Debug, Default)]
pub struct Index {
    words: LexicalIndex<u64>,
}

impl Index {
    /// An index without turns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a turn, or replaces the one with its number. Turns are mostly added in order of their numbers.
    pub fn insert(&mut self, turn: &Turn) {
        let speaker = turn.speaker.as_deref().unwrap_or_default();
        let caption = turn.caption.as_deref().unwrap_or_default();
        self.words.insert(turn.number, &format!("{speaker}: {} {caption}", turn.text), None);
    }

    /// Removes a turn with everything known of it. Returns whether it was there.
    pub fn remove(&mut self, number: u64) -> bool {
        self.words.remove(&number)
    }

    /// Number of turns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is no turn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// About how many bytes it takes in memory, vectors included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words.heap_bytes()
    }

    /// The question's text as an embedder is given it: without the names of the scope's speakers, which would outweigh
    /// what is asked.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        text.to_owned()
    }

    /// The best `limit` turns for which `eligible` is true, best first, ties by number.
    ///
    /// Statistics are those of all turns, whatever is eligible.
    #[must_use]
    pub fn search(
        &self,
        question: &Question,
        weights: &Weights,
        eligible: &(dyn Fn(u64) -> bool + Sync),
        limit: usize,
    ) -> Vec<Ranked> {
        let found = self.words.search(&question.text, |number| eligible(*number), limit);
        let ranked = found.into_iter().map(|hit| {
            let score = weights.lexical * hit.bm25;
            Ranked {
                number: hit.key,
                score,
                similarity: (hit.score * (K1 + 1.0)).min(1.0),
                shares: vec![Share { signal: "lexical", value: score }],
            }
        });
        ranked.collect()
    }
}
