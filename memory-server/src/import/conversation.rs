//! The records of a conversation in an export. Its log is stored as it is where it is from the same scope and that has none; else
//! its turns are added to the scope's own, because the records of two logs have the same keys, and digests those of their scope.

use std::collections::BTreeMap;

use memory::conversations::{ConversationEntry, ConversationHead, KnownFact, is_reserved, known_facts};
use memory_core::layer::FactId;
use memory_core::{Backend, Error, ErrorKind, Record, Result, Scope, Timestamp, Tombstone};

use super::moved::{Moved, left};
use super::problems::Problems;
use super::readers::Place;
use super::turns::Turns;
use crate::terminal::note;

/// Facts that are looked up at once.
const LOOKED_UP: usize = 1_000;

/// What becomes of the records of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// They are stored as they are.
    AsTheyAre,
    /// Their turns are added to the scope's own conversation.
    AsTurns,
}

/// The records of a conversation in one file, for one scope.
pub(crate) struct ConversationRecords<'a> {
    backend: &'a dyn Backend,
    scope: &'a Scope,
    /// The scope of the file is another: digests hold the scope, and would know nothing here.
    is_from_elsewhere: bool,
    /// What was forgotten in the scope, with everything beside it; `None`: the store does not tell.
    tombstones: Option<Vec<Tombstone>>,
    now: Timestamp,
    way: Option<Way>,
    /// Records before the head of the log, which decides.
    held: Vec<(Place, Record)>,
    moved: Vec<Moved>,
    pub(crate) expired: u64,
    pub(crate) forgotten: u64,
    pub(crate) passed_over: u64,
    pub(crate) problems: Problems,
}

impl<'a> ConversationRecords<'a> {
    pub(crate) fn new(
        backend: &'a dyn Backend,
        scope: &'a Scope,
        from: Option<&Scope>,
        tombstones: Option<Vec<Tombstone>>,
        now: Timestamp,
    ) -> Self {
        Self {
            backend,
            scope,
            is_from_elsewhere: from.is_some_and(|from| from != scope),
            tombstones,
            now,
            way: None,
            held: Vec::new(),
            moved: Vec::new(),
            expired: 0,
            forgotten: 0,
            passed_over: 0,
            problems: Problems::default(),
        }
    }

    /// Takes a record; returns those that are to be stored as they are.
    ///
    /// # Errors
    /// The store's errors; `conflict` if turns cannot be added to the conversation that the scope has.
    pub(crate) async fn take(
        &mut self,
        file: &str,
        place: Place,
        record: Record,
        turns: Option<&Turns<'_>>,
    ) -> Result<Vec<(Place, Record)>> {
        if !is_reserved(record.entry.key.as_str()) {
            return Ok(vec![(place, record)]);
        }
        if self.way == Some(Way::AsTheyAre) {
            return Ok(vec![(place, record)]);
        }
        let found = match ConversationEntry::of(&record.entry) {
            Ok(Some(found)) => found,
            Ok(None) => ConversationEntry::Bookkeeping,
            Err(error) => {
                self.problems.add(file, place, error.message());
                return Ok(Vec::new());
            }
        };
        if self.way.is_none() {
            let there = ConversationHead::of(self.backend, self.scope).await?;
            let way = match (&there, &found) {
                _ if self.is_from_elsewhere && turns.is_some() => Way::AsTurns,
                (None, _) => Way::AsTheyAre,
                // The same log: an import that was interrupted goes on, or fills what is missing.
                (Some(there), ConversationEntry::Head(head)) if there == head => Way::AsTheyAre,
                // How far facts were drawn comes before the head.
                (Some(_), ConversationEntry::Bookkeeping) if self.held.is_empty() => {
                    self.held.push((place, record));
                    return Ok(Vec::new());
                }
                _ if turns.is_none() => return Err(has_its_own(file, self.scope)),
                _ => Way::AsTurns,
            };
            self.way = Some(way);
            let held = std::mem::take(&mut self.held);
            if way == Way::AsTheyAre {
                return Ok(held.into_iter().chain([(place, record)]).collect());
            }
            self.passed_over += held.len() as u64;
        }
        self.take_turn(place, record, found, turns.is_some_and(|turns| turns.again));
        Ok(Vec::new())
    }

    fn take_turn(&mut self, place: Place, record: Record, found: ConversationEntry, again: bool) {
        if self.tombstones.is_none() {
            note(
                "memory: the token does not allow `tombstones`, so what was erased with its whole scope may come back",
            );
            self.tombstones = Some(Vec::new());
        }
        let entry = record.entry;
        let ConversationEntry::Fact(fact) = found else {
            self.passed_over += 1;
            return;
        };
        // Of the whole scope or tenant: those of single entries name the keys of another log.
        let is_erased =
            |tombstone: &Tombstone| tombstone.id.key.is_none() && tombstone.is_after(entry.updated_at);
        if entry.is_expired(self.now) {
            self.expired += 1;
        } else if !again && self.tombstones.iter().flatten().any(is_erased) {
            self.forgotten += 1;
        } else {
            let ttl = left(entry.expires_at, self.now);
            match Moved::of_fact(self.scope.clone(), place, *fact, ttl) {
                Some(moved) => self.moved.push(moved),
                None => self.passed_over += 1,
            }
        }
    }

    /// The turns to add to the scope's conversation. Those that it knows under their own ids are counted.
    ///
    /// # Errors
    /// The store's errors.
    pub(crate) async fn into_turns(mut self, turns: &mut Turns<'_>) -> Result<Vec<Moved>> {
        // What a turn answers is named by the message's id, which it has in every scope.
        let messages: BTreeMap<String, Option<String>> =
            self.moved.iter().map(|moved| (moved.id.clone(), moved.message.id.clone())).collect();
        for moved in &mut self.moved {
            let answered = moved.message.answers.take();
            moved.message.answers = answered.and_then(|id| messages.get(&id).cloned().flatten());
        }
        let (mut known, mut forgotten) = (0, 0);
        for chunk in self.moved.chunks_mut(LOOKED_UP) {
            let ids: Vec<FactId> =
                chunk.iter().map(|moved| FactId::new(moved.id.as_str())).collect::<Result<_>>()?;
            let ids: Vec<&FactId> = ids.iter().collect();
            for (moved, found) in chunk.iter_mut().zip(known_facts(self.backend, self.scope, &ids).await?) {
                match found {
                    KnownFact::No => {}
                    KnownFact::Holds | KnownFact::Superseded => {
                        (moved.is_known, known) = (true, known + 1);
                    }
                    KnownFact::Forgotten if turns.again => {}
                    KnownFact::Forgotten => (moved.is_known, forgotten) = (true, forgotten + 1),
                }
            }
        }
        turns.count_known(self.scope, known, forgotten);
        Ok(self.moved)
    }

    /// Records that were held back for a head that did not come.
    pub(crate) fn left(&mut self) {
        self.passed_over += std::mem::take(&mut self.held).len() as u64;
    }
}

fn has_its_own(file: &str, scope: &Scope) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "{file} holds a conversation, and {scope} has one of its own; import it without --entries, which adds its turns, \
             or into a scope that has none; no turn was stored"
        ),
    )
}
