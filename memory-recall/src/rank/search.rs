//! From a question to the best turns.

use std::cmp::Ordering;

use memory_core::layer::Role;

use super::calendar::day_of;
use super::dates::{Window, windows};
use super::index::{Index, Slot};
use super::signal::{SIGNALS, Signal, Weights};
use super::text::Wants;
use super::{Question, Ranked, Share, number, place};

/// Turns found first that the feedback signal looks at.
const FEEDBACK_TURNS: usize = 5;

/// What a question asks of this scope.
struct Asked {
    /// Speakers it names.
    named: Vec<u32>,
    wants: Wants,
    windows: Vec<Window>,
}

/// The signals of every slot.
pub(crate) struct Signals {
    /// Whether a slot may be found.
    pub(crate) eligible: Vec<bool>,
    /// By signal, then slot; empty where a signal says nothing about this question.
    pub(crate) columns: Vec<Vec<f32>>,
    similarity: Vec<f32>,
    /// Whether anything but shape speaks for a slot.
    found: Vec<bool>,
    pub(super) totals: Vec<f64>,
}

impl Index {
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
        let signals = self.signals(question, weights, eligible);
        let mut order: Vec<u32> = (0..number(self.slots.len()))
            .filter(|at| signals.found.get(place(*at)).copied().unwrap_or_default())
            .collect();
        let best_first = |a: &u32, b: &u32| self.best_first(&signals.totals, *a, *b);
        if let Some(last) = limit.checked_sub(1)
            && last < order.len()
        {
            order.select_nth_unstable_by(last, best_first);
        }
        order.truncate(limit);
        order.sort_unstable_by(best_first);
        let ranked = order.into_iter().filter_map(|at| self.ranked(&signals, weights, at));
        // A neighbour of what was found, for which nothing speaks itself.
        ranked.filter(|found| !found.shares.is_empty() || found.similarity > 0.0).collect()
    }

    fn best_first(&self, totals: &[f64], a: u32, b: u32) -> Ordering {
        let total = |at: u32| totals.get(place(at)).copied().unwrap_or(f64::MIN);
        let named = |at: u32| self.slot(at).map(|slot| slot.number);
        total(b).total_cmp(&total(a)).then_with(|| named(a).cmp(&named(b)))
    }

    fn ranked(&self, signals: &Signals, weights: &Weights, at: u32) -> Option<Ranked> {
        let value = |column: &Vec<f32>| f64::from(column.get(place(at)).copied().unwrap_or_default());
        let shares: Vec<Share> = Signal::all()
            .zip(&signals.columns)
            .map(|(signal, column)| Share {
                signal: signal.name(),
                value: weights.get(signal) * value(column),
            })
            .filter(|share| share.value != 0.0)
            .collect();
        Some(Ranked {
            number: self.slot(at)?.number,
            score: shares.iter().fold(0.0, |sum, share| sum + share.value),
            similarity: f64::from(signals.similarity.get(place(at)).copied()?.clamp(0.0, 1.0)),
            shares,
        })
    }

    pub(crate) fn signals(
        &self,
        question: &Question,
        weights: &Weights,
        eligible: &(dyn Fn(u64) -> bool + Sync),
    ) -> Signals {
        let said_before =
            |slot: &Slot| question.at.is_none_or(|asked| slot.at.is_none_or(|said| said <= asked));
        let eligible: Vec<bool> = self
            .slots
            .iter()
            .map(|slot| !slot.removed && said_before(slot) && eligible(slot.number))
            .collect();
        let asked = self.asked(question);
        let lexical = self.lexical(&self.terms(&self.masked(&question.text)));
        let cosines = question.vector.as_deref().and_then(|vector| self.vectors.cosines(vector));
        let mut columns = vec![Vec::new(); SIGNALS];
        let mut put = |signal: Signal, column: Vec<f32>| {
            if let Some(slot) = columns.get_mut(signal as usize) {
                *slot = column;
            }
        };
        let found = self.found(&lexical.window, cosines.is_some(), &asked, &eligible);
        let mut similarity = lexical.covered;
        let session_lexical =
            self.by_slot(|slot| lexical.session.get(place(slot.session)).copied().unwrap_or_default());
        put(Signal::Lexical, scaled(lexical.turn, &eligible));
        put(Signal::Window, scaled(lexical.window, &eligible));
        put(Signal::SessionLexical, scaled(session_lexical, &eligible));
        if let Some(cosines) = cosines {
            similarity.iter_mut().zip(&cosines).for_each(|(near, cosine)| *near = near.max(*cosine));
            let of = |at: u32| cosines.get(place(at)).copied().unwrap_or_default();
            let mut best = vec![0.0_f32; self.lasts.len()];
            for (slot, (cosine, eligible)) in self.slots.iter().zip(cosines.iter().zip(&eligible)) {
                if let Some(best) = best.get_mut(place(slot.session)).filter(|_| *eligible) {
                    *best = best.max(*cosine);
                }
            }
            let session = self.by_slot(|slot| best.get(place(slot.session)).copied().unwrap_or_default());
            put(Signal::PreviousDense, scaled(self.by_slot(|slot| of(slot.previous)), &eligible));
            put(Signal::NextDense, scaled(self.by_slot(|slot| of(slot.next)), &eligible));
            put(Signal::SessionDense, scaled(session, &eligible));
            put(Signal::Dense, scaled(cosines, &eligible));
        }
        self.put_flags(&asked, &mut put);
        let mut signals = Signals { eligible, columns, similarity, found, totals: Vec::new() };
        signals.add_up(weights);
        if weights.get(Signal::Feedback) != 0.0 {
            self.add_feedback(&mut signals, weights);
        }
        signals
    }

    fn by_slot(&self, value: impl Fn(&Slot) -> f32) -> Vec<f32> {
        self.slots.iter().map(value).collect()
    }

    fn asked(&self, question: &Question) -> Asked {
        let days = || self.slots.iter().filter(|slot| !slot.removed).filter_map(|slot| slot.at).map(day_of);
        let span = days().fold(None, |span: Option<(i64, i64)>, day| match span {
            None => Some((day, day)),
            Some((first, last)) => Some((first.min(day), last.max(day))),
        });
        let windows = span
            .map_or_else(Vec::new, |span| windows(&question.text, question.at.map_or(span.1, day_of), span));
        Asked { named: self.speakers.named(&question.text), wants: Wants::of(&question.text), windows }
    }

    /// The signals that are 0 or 1, or nearly so, and need no scaling.
    fn put_flags(&self, asked: &Asked, put: &mut impl FnMut(Signal, Vec<f32>)) {
        let flag = |yes: bool| if yes { 1.0 } else { 0.0 };
        if !asked.named.is_empty() {
            let rank = |slot: &Slot| asked.named.iter().position(|named| *named == slot.speaker);
            put(Signal::Speaker, self.by_slot(|slot| rank(slot).map_or(0.0, |_| 1.0)));
        } else if self.assistants > 0 {
            let role = if asked.wants.assistant { Role::Assistant } else { Role::User };
            put(Signal::Role, self.by_slot(|slot| flag(slot.role == role)));
        }
        if !asked.windows.is_empty() {
            #[allow(clippy::cast_possible_truncation, reason = "0 to 1")]
            let nearness = |slot: &Slot| {
                let day = day_of(slot.at?);
                asked.windows.iter().map(|window| window.nearness(day) as f32).reduce(f32::max)
            };
            put(Signal::Date, self.by_slot(|slot| nearness(slot).unwrap_or_default()));
        }
        if asked.wants.when {
            put(Signal::SaysWhen, self.by_slot(|slot| flag(slot.shape.says_when)));
        }
        if asked.wants.number {
            put(Signal::SaysNumber, self.by_slot(|slot| flag(slot.shape.says_number)));
        }
        put(
            Signal::Length,
            self.by_slot(|slot| (f32::from(slot.shape.words).ln_1p() / 200.0_f32.ln()).min(1.0)),
        );
        put(Signal::Asks, self.by_slot(|slot| flag(slot.shape.asks)));
        put(Signal::Caption, self.by_slot(|slot| flag(slot.caption)));
    }

    /// Whether a slot has, or is beside, a word of the question, or has a vector to compare, or is of the time asked for.
    fn found(&self, window: &[f32], vectors: bool, asked: &Asked, eligible: &[bool]) -> Vec<bool> {
        let all = vectors || !asked.windows.is_empty();
        eligible.iter().zip(window).map(|(eligible, window)| *eligible && (all || *window > 0.0)).collect()
    }

    /// Compares with the mean of the turns found first, as Rocchio's relevance feedback does with the judged ones.
    fn add_feedback(&self, signals: &mut Signals, weights: &Weights) {
        let mut order: Vec<u32> = (0..number(self.slots.len()))
            .filter(|at| signals.found.get(place(*at)).copied().unwrap_or_default())
            .collect();
        let best_first = |a: &u32, b: &u32| self.best_first(&signals.totals, *a, *b);
        if FEEDBACK_TURNS < order.len() {
            order.select_nth_unstable_by(FEEDBACK_TURNS, best_first);
            order.truncate(FEEDBACK_TURNS);
        }
        order.sort_unstable();
        let mut mean = vec![0.0; self.vectors.dimensions()];
        for at in order {
            self.vectors.add_to(at, 1.0, &mut mean);
        }
        if let Some(cosines) = self.vectors.cosines(&mean)
            && let Some(column) = signals.columns.get_mut(Signal::Feedback as usize)
        {
            *column = scaled(cosines, &signals.eligible);
            signals.add_up(weights);
        }
    }
}

impl Signals {
    fn add_up(&mut self, weights: &Weights) {
        self.totals = vec![0.0; self.eligible.len()];
        for (signal, column) in Signal::all().zip(&self.columns) {
            let weight = weights.get(signal);
            if weight != 0.0 {
                for (total, value) in self.totals.iter_mut().zip(column) {
                    *total += weight * f64::from(*value);
                }
            }
        }
    }
}

/// Scaled so that the least eligible value is 0 and the greatest 1; where all are the same, 1 unless they are 0.
fn scaled(mut column: Vec<f32>, eligible: &[bool]) -> Vec<f32> {
    let values = || column.iter().zip(eligible).filter(|(_, eligible)| **eligible).map(|(value, _)| *value);
    let (least, most) = (values().fold(f32::MAX, f32::min), values().fold(f32::MIN, f32::max));
    let width = most - least;
    if width > 0.0 {
        column.iter_mut().for_each(|value| *value = ((*value - least) / width).clamp(0.0, 1.0));
    } else {
        column.fill(if most > 0.0 { 1.0 } else { 0.0 });
    }
    column
}
