//! BM25 of turns, their windows and their sessions, in one pass over the postings of the question's terms.

use std::collections::HashSet;

use memory_core::lexical::{idf, query_terms};

use super::index::Index;
use super::signal::Bm25;
use super::{NONE, number, place};

/// Sums by slot, the last by session.
pub(super) struct Lexical {
    pub(super) turn: Vec<f32>,
    pub(super) window: Vec<f32>,
    pub(super) session: Vec<f32>,
    /// The share of the question's terms that a turn contains, weighted by rarity: 0 to 1.
    pub(super) covered: Vec<f32>,
}

/// How fast repeated terms stop counting, and how much length discounts them.
#[derive(Clone, Copy)]
struct Parameters {
    k1: f32,
    b: f32,
    /// Tokens of the mean document.
    mean: f32,
}

/// Turns are short up to this mean number of tokens, and long from the next one on.
const SHORT: f32 = 30.0;
const LONG: f32 = 100.0;

impl Parameters {
    /// The given parameters. Otherwise, short turns get .9 and .4, which Trotman, Jia and Crane (2012) found for short
    /// texts, and long ones 1.2 and .75, the usual values for articles.
    fn of(documents: usize, tokens: u64, given: Option<Bm25>) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "24 bits are enough for a mean")]
        let mean = (tokens as f32 / documents.max(1) as f32).max(1.0);
        let long = ((mean - SHORT) / (LONG - SHORT)).clamp(0.0, 1.0);
        Self { k1: 0.9 + 0.3 * long, b: 0.4 + 0.35 * long, mean }.with(given)
    }

    fn with(self, given: Option<Bm25>) -> Self {
        #[allow(clippy::cast_possible_truncation, reason = "parameters are small")]
        given.map_or(self, |given| Self { k1: given.k1() as f32, b: given.b() as f32, ..self })
    }

    fn weight(self, idf: f32, frequency: u32, tokens: f32) -> f32 {
        #[allow(clippy::cast_precision_loss, reason = "24 bits are enough for a frequency")]
        let frequency = frequency as f32;
        let discount = 1.0 - self.b + self.b * tokens / self.mean;
        idf * frequency * (self.k1 + 1.0) / (frequency + self.k1 * discount)
    }
}

/// Frequencies of one term, by slot or session, and which are not 0.
struct Frequencies {
    all: Vec<u32>,
    touched: Vec<u32>,
}

impl Frequencies {
    fn new(length: usize) -> Self {
        Self { all: vec![0; length], touched: Vec::new() }
    }

    fn add(&mut self, at: u32, frequency: u32) {
        if let Some(sum) = self.all.get_mut(place(at)) {
            if *sum == 0 {
                self.touched.push(at);
            }
            *sum = sum.saturating_add(frequency);
        }
    }

    /// Calls `each` with what was added, and clears it.
    fn drain(&mut self, mut each: impl FnMut(u32, u32)) {
        for at in self.touched.drain(..) {
            if let Some(sum) = self.all.get_mut(place(at)) {
                each(at, std::mem::take(sum));
            }
        }
    }
}

impl Index {
    /// The terms of a question, without names of speakers.
    pub(super) fn terms(&self, masked: &str) -> Vec<String> {
        let mut seen = HashSet::new();
        query_terms(masked).into_iter().filter(|term| seen.insert(term.clone())).collect()
    }

    pub(super) fn lexical(&self, terms: &[String], given: Option<Bm25>) -> Lexical {
        let slots = self.slots.len();
        let sessions = self.lasts.iter().filter(|last| **last != NONE).count();
        let mut sums = Lexical {
            turn: vec![0.0; slots],
            window: vec![0.0; slots],
            session: vec![0.0; self.lasts.len()],
            covered: vec![0.0; slots],
        };
        let turn = Parameters::of(self.len(), self.tokens, given);
        let window = Parameters { mean: turn.mean * 3.0, ..turn };
        let session =
            Parameters { k1: 1.2, b: 0.75, ..Parameters::of(sessions, self.tokens, None) }.with(given);
        let mut windows = Frequencies::new(slots);
        let mut in_sessions = Frequencies::new(self.lasts.len());
        let mut having: Vec<(u32, u32)> = Vec::new();
        let mut rarity = 0.0_f32;
        for forms in self.words.forms(terms) {
            having.clear();
            having.extend(
                forms
                    .iter()
                    .flat_map(|form| self.words.containing(form))
                    .filter(|(slot, _)| self.slot(*slot).is_some_and(|slot| !slot.removed)),
            );
            if forms.len() > 1 {
                having.sort_unstable();
                having.dedup_by(|again, first| {
                    let same = again.0 == first.0;
                    first.1 = first.1.saturating_add(if same { again.1 } else { 0 });
                    same
                });
            }
            #[allow(clippy::cast_possible_truncation, reason = "a logarithm")]
            let weight = |all: usize, having: usize| idf(number(all), number(having)) as f32;
            let rare = weight(self.len(), having.len());
            rarity += rare;
            for (at, frequency) in &having {
                let Some(slot) = self.slot(*at) else { continue };
                add(&mut sums.turn, *at, turn.weight(rare, *frequency, tokens(slot.tokens)));
                add(&mut sums.covered, *at, rare);
                windows.add(*at, *frequency);
                windows.add(slot.previous, *frequency);
                windows.add(slot.next, *frequency);
                in_sessions.add(slot.session, *frequency);
            }
            windows.drain(|at, frequency| {
                add(&mut sums.window, at, window.weight(rare, frequency, self.window_tokens(at)));
            });
            let rare = weight(sessions, in_sessions.touched.len());
            in_sessions.drain(|at, frequency| {
                let length = self.session_tokens.get(place(at)).copied().unwrap_or_default();
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                add(&mut sums.session, at, session.weight(rare, frequency, tokens(length)));
            });
        }
        if rarity > 0.0 {
            sums.covered.iter_mut().for_each(|covered| *covered = (*covered / rarity).min(1.0));
        }
        sums
    }

    fn window_tokens(&self, at: u32) -> f32 {
        let Some(slot) = self.slot(at) else { return 0.0 };
        let of = |at: u32| self.slot(at).map_or(0.0, |slot| tokens(slot.tokens));
        tokens(slot.tokens) + of(slot.previous) + of(slot.next)
    }
}

fn add(sums: &mut [f32], at: u32, value: f32) {
    if let Some(sum) = sums.get_mut(place(at)) {
        *sum += value;
    }
}

#[allow(clippy::cast_precision_loss, reason = "24 bits are enough for a length")]
fn tokens(count: u32) -> f32 {
    count as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_are_given_take_the_place_of_those_by_length() {
        let by_length = Parameters::of(10, 1_000, None);
        assert!((by_length.k1 - 1.2).abs() < 1e-6 && (by_length.b - 0.75).abs() < 1e-6);
        let given = Parameters::of(10, 1_000, Some(Bm25::new(2.0, 0.0).unwrap()));
        assert!(given.weight(1.0, 2, 10.0) > by_length.weight(1.0, 2, 500.0));
        assert_eq!(given.weight(1.0, 2, 10.0).to_bits(), given.weight(1.0, 2, 500.0).to_bits(), "b is 0");
        let once = Parameters::of(10, 1_000, Some(Bm25::new(0.0, 1.0).unwrap()));
        assert_eq!(once.weight(1.0, 1, 10.0).to_bits(), once.weight(1.0, 9, 500.0).to_bits(), "k1 is 0");
    }
}
