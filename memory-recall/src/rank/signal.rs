//! The signals of a score, and what each weighs.

/// What the score of a turn is made of. Each is 0 to 1 for one question, or scaled to that over the turns that may be
/// found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// BM25 of the turn.
    Lexical,
    /// BM25 of the turn with those before and after it.
    Window,
    /// BM25 of its session.
    SessionLexical,
    /// Cosine with the question.
    Dense,
    /// Cosine of the turn before it.
    PreviousDense,
    /// Cosine of the turn after it.
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
/// BM25 of a turn is the unit. The others are round numbers near what coordinate ascent found on each half of two sets of
/// dialogues (two people, a user with an assistant), one set of weights for both; `docs/evaluation.md` has the figures.
/// Where a remark names another reason, the figures only chose the size.
const TABLE: [(Signal, &str, f64); SIGNALS] = [
    (Signal::Lexical, "lexical", 1.0),
    // An answer seldom repeats the words of what it answers.
    (Signal::Window, "window", 0.6),
    // People keep to a topic for a session.
    (Signal::SessionLexical, "session_lexical", 0.5),
    (Signal::Dense, "dense", 1.4),
    // No gain beside the window.
    (Signal::PreviousDense, "previous_dense", 0.0),
    (Signal::NextDense, "next_dense", 0.2),
    (Signal::SessionDense, "session_dense", 1.2),
    // Who asks about somebody mostly wants what that person said.
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

/// The weights of the signals.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights([f64; SIGNALS]);

impl Default for Weights {
    fn default() -> Self {
        Self(TABLE.map(|(_, _, weight)| weight))
    }
}

impl Weights {
    /// The weight of a signal.
    #[must_use]
    pub fn get(&self, signal: Signal) -> f64 {
        self.0.get(signal as usize).copied().unwrap_or_default()
    }

    /// With another weight of a signal; one that is not finite is 0.
    #[must_use]
    pub fn with(mut self, signal: Signal, weight: f64) -> Self {
        if let Some(slot) = self.0.get_mut(signal as usize) {
            *slot = if weight.is_finite() { weight } else { 0.0 };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_signals() {
        for (at, signal) in Signal::all().enumerate() {
            assert_eq!(signal as usize, at);
            assert_eq!(Signal::named(signal.name()), Some(signal));
        }
    }
}
