//! The turns of one scope, and what is kept of each.

use std::collections::{BTreeSet, HashMap};
use std::mem::size_of;

use memory_core::Timestamp;
use memory_core::layer::Role;

use super::speakers::Speakers;
use super::text::Shape;
use super::vectors::Vectors;
use super::words::Words;
use super::{NONE, Turn, number, place};

/// Removed turns tolerated in an index of any size.
const SLACK: usize = 256;

/// The turns of one scope.
#[derive(Debug, Default)]
pub struct Index {
    pub(super) words: Words,
    pub(super) vectors: Vectors,
    pub(super) speakers: Speakers,
    pub(super) slots: Vec<Slot>,
    by_number: HashMap<u64, u32>,
    sessions: HashMap<Box<str>, u32>,
    /// Bytes of the keys of `sessions`.
    session_bytes: usize,
    /// By the number of the session.
    pub(super) lasts: Vec<u32>,
    /// Sessions whose turns are linked in order of arrival until [`Index::settle`].
    unsorted: BTreeSet<u32>,
    /// Turns passed since then while searching for the places of new ones.
    passed: usize,
    pub(super) session_tokens: Vec<u64>,
    /// Tokens of all turns.
    pub(super) tokens: u64,
    /// Turns of an assistant.
    pub(super) assistants: usize,
}

/// What is kept of a turn, besides its words and vector.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) number: u64,
    pub(super) at: Option<Timestamp>,
    pub(super) tokens: u32,
    pub(super) session: u32,
    pub(super) speaker: u32,
    /// The neighbours in the session, by time, then number.
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) shape: Shape,
    pub(super) role: Role,
    pub(super) caption: bool,
    pub(super) removed: bool,
}

impl Index {
    /// An index without turns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a turn, or replaces the one with its number. Turns mostly arrive in order of their numbers and times; after
    /// adding many that do not, [`Index::settle`] sorts them.
    pub fn insert(&mut self, turn: &Turn) {
        self.remove(turn.number);
        let slot = number(self.slots.len());
        let caption = turn.caption.as_deref().unwrap_or_default();
        let tokens = self.words.push(slot, &format!("{} {caption}", turn.text));
        self.vectors.push(turn.vector.as_deref());
        let session = self.session(turn.session.as_deref().unwrap_or_default());
        self.slots.push(Slot {
            number: turn.number,
            at: turn.at,
            tokens,
            session,
            speaker: self.speakers.add(turn.speaker.as_deref()),
            previous: NONE,
            next: NONE,
            shape: Shape::of(&turn.text),
            role: turn.role,
            caption: turn.caption.is_some(),
            removed: false,
        });
        self.by_number.insert(turn.number, slot);
        self.tokens += u64::from(tokens);
        if let Some(sum) = self.session_tokens.get_mut(place(session)) {
            *sum += u64::from(tokens);
        }
        self.assistants += usize::from(turn.role == Role::Assistant);
        self.link(slot);
    }

    fn session(&mut self, name: &str) -> u32 {
        if let Some(session) = self.sessions.get(name) {
            return *session;
        }
        let session = number(self.lasts.len());
        self.session_bytes += name.len();
        self.sessions.insert(name.into(), session);
        self.lasts.push(NONE);
        self.session_tokens.push(0);
        session
    }

    /// The numbers of a session's turns, ascending.
    #[must_use]
    pub fn of_session(&self, name: &str) -> Vec<u64> {
        let session = self.sessions.get(name).and_then(|session| self.lasts.get(place(*session)));
        let mut slot = session.and_then(|last| self.slot(*last));
        let mut numbers = Vec::new();
        while let Some(turn) = slot {
            numbers.push(turn.number);
            slot = self.slot(turn.previous);
        }
        numbers.sort_unstable();
        numbers
    }

    pub(super) fn slot(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(place(slot))
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(place(slot))
    }

    /// Puts a slot at its place in its session, searching from the end, since turns mostly arrive in order. If that
    /// would take too long, the session is sorted once, later.
    fn link(&mut self, slot: u32) {
        let Some((session, order)) = self.slot(slot).map(|new| (new.session, (new.at, new.number))) else {
            return;
        };
        let mut next = NONE;
        let mut previous = self.lasts.get(place(session)).copied().unwrap_or(NONE);
        while !self.unsorted.contains(&session)
            && let Some(before) = self.slot(previous)
            && (before.at, before.number) > order
        {
            next = previous;
            previous = before.previous;
            self.passed += 1;
            if self.passed > 4 * self.slots.len() {
                self.unsorted.insert(session);
                (previous, next) = (self.lasts.get(place(session)).copied().unwrap_or(NONE), NONE);
            }
        }
        if let Some(new) = self.slot_mut(slot) {
            new.previous = previous;
            new.next = next;
        }
        self.join(session, previous, slot);
        self.join(session, slot, next);
    }

    /// Sorts the sessions that received many turns out of order.
    pub fn settle(&mut self) {
        self.passed = 0;
        for session in std::mem::take(&mut self.unsorted) {
            let mut turns = Vec::new();
            let mut at = self.lasts.get(place(session)).copied().unwrap_or(NONE);
            while let Some(slot) = self.slot(at) {
                turns.push((slot.at, slot.number, at));
                at = slot.previous;
            }
            turns.sort_unstable();
            let mut previous = NONE;
            for (_, _, slot) in turns {
                self.join(session, previous, slot);
                previous = slot;
            }
            self.join(session, previous, NONE);
        }
    }

    /// Makes two slots neighbours; either may be none.
    fn join(&mut self, session: u32, previous: u32, next: u32) {
        if let Some(previous) = self.slot_mut(previous) {
            previous.next = next;
        }
        match self.slot_mut(next) {
            Some(next) => next.previous = previous,
            None => {
                if let Some(last) = self.lasts.get_mut(place(session)) {
                    *last = previous;
                }
            }
        }
    }

    /// Removes a turn with everything known about it. Returns whether it existed.
    ///
    /// The postings of its words, though not their order in the text, stay in memory until enough turns have been
    /// removed.
    pub fn remove(&mut self, number: u64) -> bool {
        let Some(at) = self.by_number.remove(&number) else { return false };
        self.vectors.clear(at);
        let Some(slot) = self.slot_mut(at) else { return false };
        slot.removed = true;
        let (session, previous, next) = (slot.session, slot.previous, slot.next);
        let (tokens, role, speaker) = (slot.tokens, slot.role, slot.speaker);
        self.tokens -= u64::from(tokens);
        if let Some(sum) = self.session_tokens.get_mut(place(session)) {
            *sum -= u64::from(tokens);
        }
        self.assistants -= usize::from(role == Role::Assistant);
        self.speakers.remove(speaker);
        if next == NONE && previous == NONE {
            if let Some(last) = self.lasts.get_mut(place(session)) {
                *last = NONE;
            }
        } else {
            self.join(session, previous, next);
        }
        if self.slots.len() - self.by_number.len() > SLACK.max(self.slots.len() / 3) {
            self.compact();
        }
        true
    }

    /// Frees what removed turns left behind.
    fn compact(&mut self) {
        self.settle();
        let mut moved = Vec::with_capacity(self.slots.len());
        let mut live = 0;
        for slot in &self.slots {
            moved.push(if slot.removed { NONE } else { live });
            live += u32::from(!slot.removed);
        }
        let place_of = |slot: u32| moved.get(place(slot)).copied().filter(|slot| *slot != NONE);
        self.words.keep(place_of);
        self.vectors.keep(|slot| place_of(slot).is_some());
        let mut sessions_moved = Vec::with_capacity(self.lasts.len());
        let (mut lasts, mut session_tokens) = (Vec::new(), Vec::new());
        for (last, tokens) in self.lasts.iter().zip(&self.session_tokens) {
            let last = place_of(*last);
            sessions_moved.push(last.map(|_| number(lasts.len())));
            session_tokens.extend(last.map(|_| tokens));
            lasts.extend(last);
        }
        self.lasts = lasts;
        self.session_tokens = session_tokens;
        let session_of = |session: u32| sessions_moved.get(place(session)).copied().flatten();
        self.sessions.retain(|_, session| {
            let kept = session_of(*session);
            *session = kept.unwrap_or(NONE);
            kept.is_some()
        });
        self.session_bytes = self.sessions.keys().map(|name| name.len()).sum();
        self.slots.retain(|slot| !slot.removed);
        self.slots.shrink_to_fit();
        for slot in &mut self.slots {
            slot.previous = place_of(slot.previous).unwrap_or(NONE);
            slot.next = place_of(slot.next).unwrap_or(NONE);
            slot.session = session_of(slot.session).unwrap_or(NONE);
        }
        for slot in self.by_number.values_mut() {
            *slot = place_of(*slot).unwrap_or(NONE);
        }
    }

    /// Number of turns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether there is no turn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// About how many bytes it takes in memory, vectors included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // A hash table stores one byte per slot, and keeps an eighth of the slots free.
        let table = |capacity: usize, entry: usize| capacity * 8 / 7 * (entry + 1);
        self.words.bytes()
            + self.vectors.bytes()
            + self.speakers.bytes()
            + self.slots.capacity() * size_of::<Slot>()
            + table(self.by_number.capacity(), size_of::<(u64, u32)>())
            + table(self.sessions.capacity(), size_of::<(Box<str>, u32)>())
            + self.session_bytes
            + self.lasts.capacity() * (size_of::<u32>() + size_of::<u64>())
    }

    /// The question's text in the form given to an embedder: without the names of the scope's speakers, which would
    /// outweigh the actual question.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        self.speakers.masked(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_come_in_any_order_are_linked_in_theirs() {
        const TURNS: u64 = 2_000;
        let orders: [fn(u64) -> u64; 3] = [|n| n, |n| TURNS - 1 - n, |n| n * 7 % TURNS];
        for order in orders {
            let mut index = Index::new();
            for number in 0..TURNS {
                let mut turn = Turn::new(number, "said");
                turn.at = Timestamp::from_millis(i64::try_from(order(number)).unwrap()).ok();
                index.insert(&turn);
                assert!(index.passed <= 4 * index.slots.len() + 1, "a walk for each turn is quadratic");
            }
            index.remove(7);
            index.settle();
            let (mut slot, mut times) = (index.lasts[0], Vec::new());
            while let Some(turn) = index.slot(slot) {
                assert!(index.slot(turn.previous).is_none_or(|previous| previous.next == slot));
                times.push(turn.at.unwrap().as_millis());
                slot = turn.previous;
            }
            times.reverse();
            let gone = i64::try_from(order(7)).unwrap();
            assert_eq!(times, (0..2_000).filter(|time| *time != gone).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_sessions_turns_are_known_by_number_whatever_their_times() {
        let mut index = Index::new();
        for (number, session, at) in
            [(3, "a", 30), (1, "a", 90), (2, "b", 10), (7, "a", 20), (5, "", 40), (4, "a", 50)]
        {
            let mut turn = Turn::new(number, "said");
            turn.session = Some(session.to_owned()).filter(|session| !session.is_empty());
            turn.at = Some(Timestamp::from_millis_clamped(at));
            index.insert(&turn);
        }
        index.remove(3);
        assert_eq!(index.of_session("a"), [1, 4, 7]);
        index.compact();
        assert_eq!((index.of_session("a"), index.of_session("b")), (vec![1, 4, 7], vec![2]));
        index.remove(2);
        assert!(index.of_session("b").is_empty() && index.of_session("c").is_empty());
    }
}
