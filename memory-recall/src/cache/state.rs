//! One scope's conversation in memory, with what ranking needs. Contains no text.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;

use memory_core::embed::EmbeddingModel;
use memory_core::{Entry, Result, Timestamp};

use crate::rank::{Index, Question, Ranked, Weights};
use crate::store::keys;
use crate::store::record::{self, Record};
use crate::store::vector::StoredVector;

/// Turns among those read that cannot be found by meaning.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Unembedded {
    /// Their vectors are of another model.
    pub(crate) stale: usize,
    /// They were stored without one.
    pub(crate) missing: usize,
    /// The other model of the last.
    pub(crate) other: String,
}

impl Unembedded {
    fn count(&mut self, vector: Option<&StoredVector>, model: &EmbeddingModel) {
        match vector.map(|vector| vector.foreign(model)) {
            None => self.missing += 1,
            Some(Some(other)) => {
                self.stale += 1;
                other.clone_into(&mut self.other);
            }
            Some(None) => {}
        }
    }

    /// Logs this once, when the first of them are read.
    pub(crate) fn warn(&self, before: &Self) {
        const DO: &str = "they are found by words alone until `memory reembed` embeds them";
        if self.stale > 0 && before.stale == 0 {
            let (turns, model) = (self.stale, &self.other);
            tracing::warn!(turns, model, "turns were embedded by another model; {DO}");
        }
        if self.missing > 0 && before.missing == 0 {
            tracing::warn!(turns = self.missing, "turns were stored without a vector; {DO}");
        }
    }
}

/// What was read of a scope's log.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The head it is current with.
    pub(crate) version: Option<u64>,
    pub(crate) epoch: String,
    /// The first record not read yet.
    pub(crate) next: u64,
    index: Index,
    /// When each turn starts to hold, in milliseconds, by ascending number.
    begins: Vec<(u64, i64)>,
    /// When derived facts were said, if they hold from a different time.
    said: BTreeMap<u64, i64>,
    /// Until when each corrected turn held.
    superseded: BTreeMap<u64, i64>,
    /// When turns were last confirmed, if they were.
    confirmed: BTreeMap<u64, i64>,
    /// The turns that support each derived fact; some may be gone.
    derived: BTreeMap<u64, Vec<u64>>,
    /// When turns expire.
    expiries: BTreeSet<(i64, u64)>,
    unembedded: Unembedded,
    bytes: usize,
}

impl State {
    /// Takes over a record of the log.
    pub(crate) fn apply(&mut self, entry: &Entry, model: Option<&EmbeddingModel>) -> Result<()> {
        let number = keys::number(&entry.key)?;
        match record::read::<Record>(entry)? {
            Record::Turn(turn) => {
                self.index.insert(&turn.indexed(number, model));
                if let Some(model) = model {
                    self.unembedded.count(turn.vector.as_ref(), model);
                }
                let begins = turn.begins(entry);
                match self.begins.last() {
                    Some((last, _)) if *last >= number => {
                        if let Err(at) = self.begins.binary_search_by_key(&number, |(number, _)| *number) {
                            self.begins.insert(at, (number, begins));
                        }
                    }
                    _ => self.begins.push((number, begins)),
                }
                let said = turn.said(entry);
                if said != begins {
                    self.said.insert(number, said);
                }
                if let Some(at) = turn.confirmed_at {
                    self.confirmed.insert(number, at);
                }
                if let Some(until) = turn.valid_to {
                    self.superseded.insert(number, until);
                }
                if let Some(derived) = turn.derived {
                    let sources = derived.sources.iter().map(|source| source.n).collect();
                    self.derived.insert(number, sources);
                }
                if let Some(at) = entry.expires_at {
                    self.expiries.insert((at.as_millis(), number));
                }
            }
            Record::Forgot(numbers) => numbers.into_iter().for_each(|number| self.remove(number)),
            Record::Superseded(pairs) => self.superseded.extend(pairs),
            Record::Confirmed(pairs) => {
                // A superseded turn holds again once its successor is gone.
                for (number, _) in &pairs {
                    self.superseded.remove(number);
                }
                self.confirmed.extend(pairs);
            }
            Record::Gone => self.remove(number),
        }
        self.next = self.next.max(number.saturating_add(1));
        Ok(())
    }

    fn remove(&mut self, number: u64) {
        self.index.remove(number);
        self.said.remove(&number);
        self.superseded.remove(&number);
        self.confirmed.remove(&number);
        self.derived.remove(&number);
        if let Ok(at) = self.begins.binary_search_by_key(&number, |(number, _)| *number) {
            self.begins.remove(at);
        }
    }

    /// Whether an expired turn is still present.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expiries.first().is_some_and(|(at, _)| *at <= now.as_millis())
    }

    /// Removes what has expired.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        while let Some((at, number)) = self.expiries.first().copied()
            && at <= now.as_millis()
        {
            self.expiries.pop_first();
            self.remove(number);
        }
    }

    /// Finishes applying records: sorts turns, and measures the memory used.
    pub(crate) fn settle(&mut self) {
        self.index.settle();
        self.bytes = self.index.bytes()
            + self.begins.capacity() * size_of::<(u64, i64)>()
            + (self.said.len() + self.superseded.len() + self.confirmed.len() + self.expiries.len())
                * 3
                * size_of::<(u64, i64)>()
            + self.derived.len() * 8 * size_of::<u64>();
    }

    /// Derived facts supported by one of these turns.
    pub(crate) fn standing_on(&self, turns: &dyn Fn(u64) -> bool) -> Vec<u64> {
        let stands = |(_, sources): &(&u64, &Vec<u64>)| sources.iter().any(|source| turns(*source));
        self.derived.iter().filter(stands).map(|(number, _)| *number).collect()
    }

    /// The numbers of a session's turns, ascending.
    pub(crate) fn of_session(&self, name: &str) -> Vec<u64> {
        self.index.of_session(name)
    }

    /// Whether a turn was corrected.
    pub(crate) fn is_superseded(&self, number: u64) -> bool {
        self.superseded.contains_key(&number)
    }

    /// Turns read that cannot be found by meaning.
    pub(crate) fn unembedded(&self) -> &Unembedded {
        &self.unembedded
    }

    /// The memory it took when last measured.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn turns(&self) -> usize {
        self.begins.len()
    }

    /// The question in the form given to an embedder.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.index.masked(text)
    }

    /// The best turns that hold now or held at a given moment, optionally only those that nobody has confirmed since
    /// another.
    pub(crate) fn search(
        &self,
        question: &Question,
        weights: &Weights,
        of: Moment,
        limit: usize,
    ) -> Vec<Ranked> {
        let Moment { as_of, unconfirmed_since: since, derived } = of;
        let (as_of, since) = (as_of.map(Timestamp::as_millis), since.map(Timestamp::as_millis));
        let begins = |number: u64| {
            let begins = self.begins.binary_search_by_key(&number, |(number, _)| *number);
            begins.ok().and_then(|at| self.begins.get(at)).map(|(_, begins)| *begins)
        };
        let held = |number: u64| match as_of {
            None => !self.superseded.contains_key(&number),
            Some(as_of) => {
                begins(number).is_some_and(|begins| begins <= as_of)
                    && self.superseded.get(&number).is_none_or(|until| *until > as_of)
            }
        };
        let confirmed = |number: u64, since: i64| {
            self.said.get(&number).copied().or_else(|| begins(number)).is_some_and(|at| at >= since)
                || self.confirmed.get(&number).is_some_and(|at| *at >= since)
        };
        let eligible = |number: u64| {
            held(number)
                && since.is_none_or(|since| !confirmed(number, since))
                && (!derived || self.derived.contains_key(&number))
        };
        self.index.search(question, weights, &eligible, limit)
    }
}

/// The times a question is about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    /// What held then; `None` for what holds now.
    pub(crate) as_of: Option<Timestamp>,
    /// Only what nobody has said or confirmed since then.
    pub(crate) unconfirmed_since: Option<Timestamp>,
    /// Only what was derived.
    pub(crate) derived: bool,
}
