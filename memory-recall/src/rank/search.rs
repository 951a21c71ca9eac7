//! From a question to the best turns.

use std::cmp::Ordering;

use memory_core::Timestamp;
use memory_core::layer::Role;

use super::calendar::day_of;
use super::dates::{Window, windows};
use super::index::{Index, Slot};
use super::lexical::Lexical;
use super::signal::{SIGNALS, Signal, Weights};
use super::text::Wants;
use super::{Question, Ranked, Share, place};

/// How many of the first results the feedback signal looks at.
const FEEDBACK_TURNS: usize = 5;

/// What a question asks about this scope.
struct Asked {
    /// Speakers it names, ascending.
    named: Vec<u32>,
    wants: Wants,
    windows: Vec<Window>,
}

impl Asked {
    fn names(&self, speaker: u32) -> bool {
        self.named.binary_search(&speaker).is_ok()
    }
}

/// Scales the raw values of a signal to 0 to 1: the least among what may be found becomes 0, the greatest 1. If all are
/// equal, they become 1, unless they are 0.
#[derive(Clone, Copy, Default)]
struct Scale {
    least: f32,
    factor: f32,
}

impl Scale {
    fn over<'a>(values: impl Iterator<Item = &'a f32>) -> Self {
        let (least, most) = values.fold((f32::MAX, f32::MIN), |(least, most), value| {
            (if *value < least { *value } else { least }, if *value > most { *value } else { most })
        });
        if most > least {
            Self { least, factor: 1.0 / (most - least) }
        } else if most > 0.0 {
            Self { least: 0.0, factor: 1.0 / most }
        } else {
            Self::default()
        }
    }

    fn of(self, value: f32) -> f32 {
        ((value - self.least) * self.factor).min(1.0)
    }
}

/// The scales of the signals that have one.
#[derive(Clone, Copy, Default)]
struct Scales {
    lexical: Scale,
    window: Scale,
    session_lexical: Scale,
    dense: Scale,
    previous: Scale,
    next: Scale,
    session_dense: Scale,
    feedback: Scale,
}

/// One question to one index: what the signals of each slot are computed from, slot by slot.
struct Search<'a> {
    index: &'a Index,
    weights: &'a Weights,
    /// Whether a slot may be found.
    eligible: Vec<bool>,
    lexical: Lexical,
    /// The question's cosine with each slot; empty if there are no vectors to compare.
    cosines: Vec<f32>,
    /// The greatest cosine in each session.
    session_cosines: Vec<f32>,
    /// Each slot's cosine with the turns found first.
    feedback: Vec<f32>,
    asked: Asked,
    /// The role that the question is about.
    role: Option<Role>,
    scales: Scales,
    /// By slot, as precise as finding the best needs.
    totals: Vec<f32>,
}

impl Index {
    /// The best `limit` turns for which `eligible` is true, best first, ties by number.
    ///
    /// Statistics cover all turns, whatever is eligible.
    #[must_use]
    pub fn search(
        &self,
        question: &Question,
        weights: &Weights,
        eligible: &(dyn Fn(u64) -> bool + Sync),
        limit: usize,
    ) -> Vec<Ranked> {
        let mut search = Search::new(self, question, weights, eligible);
        search.add_up();
        if weights.get(Signal::Feedback) != 0.0 {
            search.add_feedback();
        }
        let ranked = search.best(limit).into_iter().filter_map(|at| search.ranked(at));
        // Leave out turns that are only neighbours of what was found, with nothing else to support them.
        let mut ranked: Vec<Ranked> =
            ranked.filter(|found| !found.shares.is_empty() || found.similarity > 0.0).collect();
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.number.cmp(&b.number)));
        ranked
    }

    fn asked(&self, question: &Question) -> Asked {
        // What was said later cannot be meant.
        let said_before = |at: &Timestamp| question.at.is_none_or(|asked| *at <= asked);
        let times = self.slots.iter().filter(|slot| !slot.removed).filter_map(|slot| slot.at);
        let times = times.filter(said_before);
        let span = times.fold(None, |span: Option<(Timestamp, Timestamp)>, at| match span {
            None => Some((at, at)),
            Some((first, last)) => Some((first.min(at), last.max(at))),
        });
        let windows = span.map_or_else(Vec::new, |(first, last)| {
            let span = (day_of(first), day_of(last));
            windows(&question.text, question.at.map_or(span.1, day_of), span)
        });
        let mut named = self.speakers.named(&question.text);
        named.sort_unstable();
        Asked { named, wants: Wants::of(&question.text), windows }
    }
}

impl<'a> Search<'a> {
    fn new(
        index: &'a Index,
        question: &Question,
        weights: &'a Weights,
        eligible: &(dyn Fn(u64) -> bool + Sync),
    ) -> Self {
        let said_before =
            |slot: &Slot| question.at.is_none_or(|asked| slot.at.is_none_or(|said| said <= asked));
        let eligible: Vec<bool> = index
            .slots
            .iter()
            .map(|slot| !slot.removed && said_before(slot) && eligible(slot.number))
            .collect();
        let asked = index.asked(question);
        let lexical = index.lexical(&index.terms(&index.masked(&question.text)), weights.bm25());
        let cosines = question.vector.as_deref().and_then(|vector| index.vectors.cosines(vector));
        let mut cosines = cosines.unwrap_or_default();
        // A turn without a vector must not lose to one with a vector and fewer of the words.
        index.vectors.fill_missing(&mut cosines, &lexical.covered);
        let mut session_cosines = vec![0.0_f32; if cosines.is_empty() { 0 } else { index.lasts.len() }];
        for (slot, (cosine, eligible)) in index.slots.iter().zip(cosines.iter().zip(&eligible)) {
            if let Some(best) = session_cosines.get_mut(place(slot.session)).filter(|_| *eligible) {
                *best = best.max(*cosine);
            }
        }
        let of_role = if asked.wants.assistant { Role::Assistant } else { Role::User };
        let mut search = Self {
            index,
            weights,
            lexical,
            cosines,
            session_cosines,
            feedback: Vec::new(),
            role: (asked.named.is_empty() && index.assistants > 0).then_some(of_role),
            asked,
            scales: Scales::default(),
            totals: Vec::new(),
            eligible,
        };
        search.scales = search.scaled();
        search
    }

    /// A signal without weight is not scaled, and stays 0.
    fn scaled(&self) -> Scales {
        fn of<'a>(values: &'a [f32], eligible: &'a [bool]) -> Scale {
            Scale::over(
                values.iter().zip(eligible).filter(|(_, eligible)| **eligible).map(|(value, _)| value),
            )
        }
        let mut held = vec![false; self.index.lasts.len()];
        for (slot, _) in self.index.slots.iter().zip(&self.eligible).filter(|(_, eligible)| **eligible) {
            if let Some(held) = held.get_mut(place(slot.session)) {
                *held = true;
            }
        }
        let beside = |signal: Signal, neighbour: fn(&Slot) -> u32| {
            if self.weights.get(signal) == 0.0 || self.cosines.is_empty() {
                return Scale::default();
            }
            let slots = self.index.slots.iter().zip(&self.eligible).filter(|(_, eligible)| **eligible);
            Scale::over(slots.map(|(slot, _)| self.cosines.get(place(neighbour(slot))).unwrap_or(&0.0)))
        };
        Scales {
            lexical: of(&self.lexical.turn, &self.eligible),
            window: of(&self.lexical.window, &self.eligible),
            session_lexical: of(&self.lexical.session, &held),
            dense: of(&self.cosines, &self.eligible),
            previous: beside(Signal::PreviousDense, |slot| slot.previous),
            next: beside(Signal::NextDense, |slot| slot.next),
            session_dense: of(&self.session_cosines, &held),
            feedback: of(&self.feedback, &self.eligible),
        }
    }

    /// Every signal of a slot, 0 to 1, in their order. [`Search::add_up`] adds the same up for all slots.
    fn values(&self, at: usize, slot: &Slot) -> [f32; SIGNALS] {
        let session = place(slot.session);
        let flag = |yes: bool| if yes { 1.0 } else { 0.0 };
        let scales = &self.scales;
        [
            scales.lexical.of(value(&self.lexical.turn, at)),
            scales.window.of(value(&self.lexical.window, at)),
            scales.session_lexical.of(value(&self.lexical.session, session)),
            scales.dense.of(value(&self.cosines, at)),
            scales.previous.of(value(&self.cosines, place(slot.previous))),
            scales.next.of(value(&self.cosines, place(slot.next))),
            scales.session_dense.of(value(&self.session_cosines, session)),
            flag(self.asked.names(slot.speaker)),
            flag(self.role == Some(slot.role)),
            self.nearness(slot),
            flag(self.asked.wants.when && slot.shape.says_when),
            flag(self.asked.wants.number && slot.shape.says_number),
            slot.shape.length(),
            flag(slot.shape.asks),
            flag(slot.caption),
            scales.feedback.of(value(&self.feedback, at)),
        ]
    }

    /// How near a slot is to the times that the question names.
    fn nearness(&self, slot: &Slot) -> f32 {
        let Some(at) = slot.at.filter(|_| !self.asked.windows.is_empty()) else { return 0.0 };
        let day = day_of(at);
        #[allow(clippy::cast_possible_truncation, reason = "0 to 1")]
        let near = |window: &Window| window.nearness(day) as f32;
        self.asked.windows.iter().map(near).fold(0.0, f32::max)
    }

    fn add_up(&mut self) {
        #[allow(clippy::cast_possible_truncation, reason = "weights are small")]
        let weight = |signal: Signal| self.weights.get(signal) as f32;
        let weigh = |signal: Signal, scale: Scale, value: f32| weight(signal) * scale.of(value);
        let scales = &self.scales;
        // What a session adds to each of its turns.
        let sessions: Vec<f32> = (0..self.index.lasts.len())
            .map(|session| {
                let lexical = value(&self.lexical.session, session);
                weigh(Signal::SessionLexical, scales.session_lexical, lexical)
                    + weigh(Signal::SessionDense, scales.session_dense, value(&self.session_cosines, session))
            })
            .collect();
        // What each combination of flags adds.
        let wants = self.asked.wants;
        let flags: [(bool, f32); 4] = [
            (wants.when, weight(Signal::SaysWhen)),
            (wants.number, weight(Signal::SaysNumber)),
            (true, weight(Signal::Asks)),
            (true, weight(Signal::Caption)),
        ];
        let mut by_flags = [0.0_f32; 16];
        for (combination, sum) in by_flags.iter_mut().enumerate() {
            let set =
                flags.iter().enumerate().filter(|(bit, (wanted, _))| *wanted && combination >> bit & 1 == 1);
            *sum = set.map(|(_, (_, weight))| weight).sum();
        }
        let combination = |slot: &Slot| {
            let shape = slot.shape;
            let bits = [shape.says_when, shape.says_number, shape.asks, slot.caption];
            bits.iter().rev().fold(0, |bits, set| bits << 1 | usize::from(*set))
        };
        let (speaker, role, date) = (weight(Signal::Speaker), weight(Signal::Role), weight(Signal::Date));
        let length = weight(Signal::Length);
        let beside = weight(Signal::PreviousDense) != 0.0;
        let total = |(at, (slot, eligible)): (usize, (&Slot, &bool))| {
            if !*eligible {
                return f32::MIN;
            }
            let own = weigh(Signal::Lexical, scales.lexical, value(&self.lexical.turn, at))
                + weigh(Signal::Window, scales.window, value(&self.lexical.window, at));
            let mut sum = own + value(&sessions, place(slot.session)) + value(&by_flags, combination(slot));
            if !self.cosines.is_empty() {
                sum += weigh(Signal::Dense, scales.dense, value(&self.cosines, at))
                    + weigh(Signal::NextDense, scales.next, value(&self.cosines, place(slot.next)));
                if beside {
                    let previous = value(&self.cosines, place(slot.previous));
                    sum += weigh(Signal::PreviousDense, scales.previous, previous);
                }
                if !self.feedback.is_empty() {
                    sum += weigh(Signal::Feedback, scales.feedback, value(&self.feedback, at));
                }
            }
            if self.asked.names(slot.speaker) {
                sum += speaker;
            }
            if self.role == Some(slot.role) {
                sum += role;
            }
            if !self.asked.windows.is_empty() {
                sum += date * self.nearness(slot);
            }
            if length != 0.0 {
                sum += length * slot.shape.length();
            }
            sum
        };
        self.totals = self.index.slots.iter().zip(&self.eligible).enumerate().map(total).collect();
    }

    /// The best slots among those that contain or are next to a word of the question, have a vector to compare, or
    /// match its time or speaker.
    fn best(&self, limit: usize) -> Vec<u32> {
        let all = !self.cosines.is_empty() || !self.asked.windows.is_empty();
        let speakers = self.index.slots.iter().map(|slot| slot.speaker);
        let windows = self.eligible.iter().zip(&self.lexical.window);
        let mut order: Vec<u32> = (0..)
            .zip(windows.zip(speakers))
            .filter(|(_, ((eligible, window), speaker))| {
                **eligible && (all || **window > 0.0 || self.asked.names(*speaker))
            })
            .map(|(at, _)| at)
            .collect();
        let best_first = |a: &u32, b: &u32| self.best_first(*a, *b);
        if let Some(last) = limit.checked_sub(1)
            && last < order.len()
        {
            order.select_nth_unstable_by(last, best_first);
        }
        order.truncate(limit);
        order
    }

    fn best_first(&self, a: u32, b: u32) -> Ordering {
        let total = |at: u32| self.totals.get(place(at)).copied().unwrap_or(f32::MIN);
        let named = |at: u32| self.index.slot(at).map(|slot| slot.number);
        total(b).total_cmp(&total(a)).then_with(|| named(a).cmp(&named(b)))
    }

    fn ranked(&self, at: u32) -> Option<Ranked> {
        let slot = self.index.slot(at)?;
        let at = place(at);
        let shares: Vec<Share> = Signal::all()
            .zip(self.values(at, slot))
            .map(|(signal, value)| Share {
                signal: signal.name(),
                value: self.weights.get(signal) * f64::from(value),
            })
            .filter(|share| share.value != 0.0)
            .collect();
        let near = self.cosines.get(at).copied().unwrap_or_default();
        let near = near.max(self.lexical.covered.get(at).copied()?);
        Some(Ranked {
            number: slot.number,
            score: shares.iter().fold(0.0, |sum, share| sum + share.value),
            similarity: f64::from(near.clamp(0.0, 1.0)),
            shares,
        })
    }

    /// Compares with the mean of the turns found first, as Rocchio's relevance feedback does with the judged ones.
    fn add_feedback(&mut self) {
        let mut first = self.best(FEEDBACK_TURNS);
        first.sort_unstable();
        let vectors = &self.index.vectors;
        let mut mean = vec![0.0; vectors.dimensions()];
        first.into_iter().for_each(|at| vectors.add_to(at, 1.0, &mut mean));
        if let Some(cosines) = vectors.cosines(&mean) {
            self.feedback = cosines;
            self.scales = self.scaled();
            self.add_up();
        }
    }
}

fn value(values: &[f32], at: usize) -> f32 {
    values.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::Turn;
    use super::*;

    #[test]
    fn the_best_are_found_by_the_score_that_is_told() {
        let mut index = Index::new();
        for number in 0..60_u16 {
            let text =
                format!("kite number {} flew in May, did it? {}", number % 7, "wind ".repeat(number.into()));
            let mut turn = Turn::new(number.into(), text.trim_end_matches('?'));
            turn.speaker = Some(if number % 3 == 0 { "Ann" } else { "Ben" }.to_owned());
            turn.session = Some((number / 9).to_string());
            turn.at = Some(Timestamp::from_millis_clamped(i64::from(number) * 86_400_000));
            turn.caption = (number % 5 == 0).then(|| "a kite".to_owned());
            turn.role = if number % 2 == 0 { Role::Assistant } else { Role::User };
            turn.vector = Some(vec![f32::from(number % 11) - 5.0, f32::from(number % 4), 1.0]);
            index.insert(&turn);
        }
        index.remove(7);
        let mut weights = Weights::default();
        for (signal, weight) in Signal::all().zip(1_u8..) {
            weights = weights.with(signal, f64::from(weight) / 10.0);
        }
        for text in ["When did Ann fly how many kites in January 1970?", "Which wind did you mention in May?"]
        {
            let question = Question { text: text.to_owned(), at: None, vector: Some(vec![2.0, -1.0, 0.5]) };
            let mut search = Search::new(&index, &question, &weights, &|number| number != 9);
            search.add_up();
            search.add_feedback();
            for at in (0..60).filter(|at| ![7, 9].contains(at)) {
                let told = search.ranked(at).unwrap().score;
                let found_by = f64::from(search.totals[place(at)]);
                assert!((told - found_by).abs() < 1e-4, "{at}: {told} {found_by}");
            }
            assert!(search.best(60).iter().all(|at| ![7, 9].contains(at)));
        }
    }
}
