//! The signals of a score, and what each weighs.

use memory_core::{Error, Result};

/// The components of a turn's score. Each is 0 to 1 for one question, or scaled to that range over the turns that may
/// be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// BM25 of the turn.
    Lexical,
    /// BM25 of the turn together with its neighbours.
    Window,
    /// BM25 of its session.
    SessionLexical,
    /// Cosine with the question.
    Dense,
    /// Cosine of the previous turn.
    PreviousDense,
    /// Cosine of the next turn.
    NextDense,
    /// The greatest cosine in its session.
    SessionDense,
    /// Its speaker is named by the question.
    Speaker,
    /// Its role is the one the question is about, in a conversation with an assistant.
    Role,
    /// Near the dates or the span of time that the question names.
    Date,
    /// It says when, and the question asks when.
    SaysWhen,
    /// It has a number, and the question asks for one.
    SaysNumber,
    /// It has many words.
    Length,
    /// It ends in a question.
    Asks,
    /// A picture was sent along.
    Caption,
    /// Cosine with the turns found first.
    Feedback,
}

pub(super) const SIGNALS: usize = 16;

/// Name and default weight of each signal.
///
/// BM25 of a turn is the unit. The others are round numbers near those that coordinate ascent found on each half of two
/// sets of dialogues (between two people, and between a user and an assistant), with one set of weights for both;
/// `docs/evaluation.md` has the figures. If a remark gives another reason, the figures only determined the size.
const TABLE: [(Signal, &str, f64); SIGNALS] = [
    (Signal::Lexical, "lexical", 1.0),
    // An answer seldom repeats the words of its question.
    (Signal::Window, "window", 0.6),
    // People keep to a topic for a session.
    (Signal::SessionLexical, "session_lexical", 0.5),
    (Signal::Dense, "dense", 1.4),
    // No gain in addition to the window.
    (Signal::PreviousDense, "previous_dense", 0.0),
    (Signal::NextDense, "next_dense", 0.2),
    (Signal::SessionDense, "session_dense", 1.2),
    // A question about somebody is mostly about what that person said.
    (Signal::Speaker, "speaker", 1.2),
    (Signal::Role, "role", 1.2),
    // Few questions name a time, and those that do mean it.
    (Signal::Date, "date", 2.0),
    (Signal::SaysWhen, "says_when", 0.6),
    (Signal::SaysNumber, "says_number", 0.8),
    // No gain: BM25 discounts length already.
    (Signal::Length, "length", 0.0),
    // Questions tell less than answers.
    (Signal::Asks, "asks", -0.3),
    (Signal::Caption, "caption", 0.1),
    // No gain on either set: 0.3 cost a point of recall@5 with the assistant.
    (Signal::Feedback, "feedback", 0.0),
];

impl Signal {
    /// Every signal, in a fixed order.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(signal, _, _)| *signal)
    }

    /// Its name in configurations and explanations.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|(signal, _, _)| *signal == self).map_or("", |(_, name, _)| name)
    }

    /// The signal of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|(_, known, _)| *known == name).map(|(signal, _, _)| *signal)
    }
}

/// The parameters of BM25.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25 {
    k1: f64,
    b: f64,
}

impl Bm25 {
    /// How fast repeated terms stop counting (`k1`), and how much length discounts them (`b`).
    ///
    /// # Errors
    /// `invalid_argument` unless `k1` is 0 to 10 and `b` 0 to 1.
    pub fn new(k1: f64, b: f64) -> Result<Self> {
        for (name, value, most) in [("k1", k1, 10.0), ("b", b, 1.0)] {
            if !(0.0..=most).contains(&value) {
                return Err(Error::invalid(format!("{name} of BM25 is {value}; it must be 0 to {most}")));
            }
        }
        Ok(Self { k1, b })
    }

    /// How fast repeated terms stop counting.
    #[must_use]
    pub fn k1(self) -> f64 {
        self.k1
    }

    /// How much length discounts repeated terms.
    #[must_use]
    pub fn b(self) -> f64 {
        self.b
    }
}

/// The weights of the signals, and the parameters of BM25.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    of: [f64; SIGNALS],
    bm25: Option<Bm25>,
}

impl Default for Weights {
    fn default() -> Self {
        Self { of: TABLE.map(|(_, _, weight)| weight), bm25: None }
    }
}

impl Weights {
    /// The weight of a signal.
    #[must_use]
    pub fn get(&self, signal: Signal) -> f64 {
        self.of.get(signal as usize).copied().unwrap_or_default()
    }

    /// The same with another weight for a signal; a weight that is not finite becomes 0.
    #[must_use]
    pub fn with(mut self, signal: Signal, weight: f64) -> Self {
        if let Some(slot) = self.of.get_mut(signal as usize) {
            *slot = if weight.is_finite() { weight } else { 0.0 };
        }
        self
    }

    /// The parameters of BM25; `None` for those that suit the mean length of turns.
    #[must_use]
    pub fn bm25(&self) -> Option<Bm25> {
        self.bm25
    }

    /// The same with these parameters of BM25, for turns, windows and sessions alike.
    #[must_use]
    pub fn with_bm25(mut self, bm25: Bm25) -> Self {
        self.bm25 = Some(bm25);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_bm25_are_checked() {
        for (k1, b) in [(0.0, 0.0), (10.0, 1.0), (1.2, 0.75)] {
            let bm25 = Bm25::new(k1, b).unwrap();
            assert_eq!((bm25.k1(), bm25.b()), (k1, b));
        }
        for (k1, b) in [(-0.1, 0.5), (10.1, 0.5), (f64::NAN, 0.5), (1.0, 1.1), (1.0, f64::INFINITY)] {
            assert!(Bm25::new(k1, b).unwrap_err().message().contains("it must be 0 to"), "{k1} {b}");
        }
    }

    #[test]
    fn the_table_is_in_the_order_of_the_signals() {
        for (at, signal) in Signal::all().enumerate() {
            assert_eq!(signal as usize, at);
            assert_eq!(Signal::named(signal.name()), Some(signal));
        }
    }
}
