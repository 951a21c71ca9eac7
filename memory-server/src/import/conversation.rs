//! The records of a conversation in an export. The log is stored unchanged if it comes from the same scope and that
//! scope has none. Otherwise its turns are added to the scope's own log, because records of two logs have the same
//! keys, and digests depend on the scope.

use std::collections::BTreeMap;

use memory::conversations::{ConversationEntry, ConversationHead, KnownFact, known_facts};
use memory_core::layer::{Fact, FactId};
use memory_core::{Backend, Error, ErrorKind, Record, Result, Scope, Timestamp, Tombstone};

use super::moved::{Moved, left};
use super::problems::Problems;
use super::readers::Place;
use super::turns::Turns;
use crate::terminal::note;

/// Most facts that are looked up at once.
const LOOKED_UP: usize = 1_000;

/// How a conversation's records are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// They are stored unchanged.
    AsTheyAre,
    /// Their turns are added to the scope's own conversation.
    AsTurns,
}

/// The records of a conversation in one file, for one scope.
///
/// The head is stored last, and only if there still is none. Until then nobody takes the log for complete; anyone who
/// adds in the meantime starts a log of their own, and then the turns are added to that.
pub(crate) struct ConversationRecords<'a> {
    backend: &'a dyn Backend,
    scope: &'a Scope,
    /// The file's scope is a different one. Digests include the scope, so they would match nothing here.
    is_from_elsewhere: bool,
    /// Whether turns can be added to the scope's own conversation.
    adds: bool,
    /// What was forgotten in the scope or in all of it; `None` if the store does not tell.
    tombstones: Option<Vec<Tombstone>>,
    now: Timestamp,
    way: Option<Way>,
    /// The end of the scope's log when the way was chosen.
    there: Option<ConversationHead>,
    /// Turns and digests to store unchanged.
    ready: Vec<(Place, Record)>,
    /// Records that refer to turns by number, stored after them.
    behind: Vec<(Place, Record)>,
    head: Option<(Place, Record)>,
    /// Facts of the file, to be added if the records cannot be stored unchanged.
    facts: Vec<FileFact>,
    pub(crate) expired: u64,
    pub(crate) forgotten: u64,
    pub(crate) passed_over: u64,
    pub(crate) problems: Problems,
}

struct FileFact {
    place: Place,
    fact: Fact,
    updated_at: Timestamp,
    expires_at: Option<Timestamp>,
}

impl<'a> ConversationRecords<'a> {
    pub(crate) fn new(
        backend: &'a dyn Backend,
        scope: &'a Scope,
        from: Option<&Scope>,
        adds: bool,
        tombstones: Option<Vec<Tombstone>>,
        now: Timestamp,
    ) -> Self {
        Self {
            backend,
            scope,
            is_from_elsewhere: from.is_some_and(|from| from != scope),
            adds,
            tombstones,
            now,
            way: None,
            there: None,
            ready: Vec::new(),
            behind: Vec::new(),
            head: None,
            facts: Vec::new(),
            expired: 0,
            forgotten: 0,
            passed_over: 0,
            problems: Problems::default(),
        }
    }

    /// Takes a record; returns it if it does not belong to a conversation. An unreadable one is a problem: once stored,
    /// it would make the whole conversation unreadable.
    ///
    /// # Errors
    /// The store's errors; `conflict` if turns cannot be added to the scope's conversation.
    pub(crate) async fn take(
        &mut self,
        file: &str,
        place: Place,
        record: Record,
    ) -> Result<Option<(Place, Record)>> {
        let found = match ConversationEntry::of(&record.entry) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Some((place, record))),
            Err(error) => {
                self.problems.add(file, place, error.message());
                return Ok(None);
            }
        };
        if self.way.is_none() && found != ConversationEntry::Bookkeeping {
            self.way = Some(self.choose(file, &found).await?);
        }
        if let ConversationEntry::Fact(fact) = &found
            && (self.way == Some(Way::AsTurns) || self.adds && self.there.is_none())
        {
            let (updated_at, expires_at) = (record.entry.updated_at, record.entry.expires_at);
            self.facts.push(FileFact {
                place: place.clone(),
                fact: (**fact).clone(),
                updated_at,
                expires_at,
            });
        }
        match (self.way, found) {
            (Some(Way::AsTurns), ConversationEntry::Fact(_)) => {}
            (Some(Way::AsTurns), _) => self.passed_over += 1,
            (_, ConversationEntry::Head(_)) => self.head = Some((place, record)),
            (Some(Way::AsTheyAre), ConversationEntry::Fact(_) | ConversationEntry::Digest) => {
                self.ready.push((place, record));
            }
            _ => self.behind.push((place, record)),
        }
        Ok(None)
    }

    async fn choose(&mut self, file: &str, found: &ConversationEntry) -> Result<Way> {
        self.there = ConversationHead::of(self.backend, self.scope).await?;
        Ok(match (&self.there, found) {
            _ if self.is_from_elsewhere && self.adds => Way::AsTurns,
            (None, ConversationEntry::Head(_)) => Way::AsTheyAre,
            // The same log, perhaps lacking what has expired or was left out earlier.
            (Some(there), ConversationEntry::Head(head)) if there == head => Way::AsTheyAre,
            _ if self.adds => Way::AsTurns,
            (None, _) => Way::AsTheyAre,
            _ => return Err(has_its_own(file, self.scope)),
        })
    }

    /// How many turns and digests wait to be stored unchanged.
    pub(crate) fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// The turns and digests to store unchanged, unless the scope has got another conversation.
    ///
    /// # Errors
    /// The store's errors; `conflict` if turns cannot be added to the other conversation.
    pub(crate) async fn ready(&mut self, file: &str) -> Result<Vec<(Place, Record)>> {
        self.check(file).await?;
        Ok(std::mem::take(&mut self.ready))
    }

    /// What to store after them and then, provided that there is still none, the head.
    ///
    /// # Errors
    /// As [`Self::ready`].
    pub(crate) async fn rest(
        &mut self,
        file: &str,
    ) -> Result<(Vec<(Place, Record)>, Option<(Place, Record)>)> {
        self.check(file).await?;
        if self.way == Some(Way::AsTheyAre) {
            Ok((std::mem::take(&mut self.behind), self.head.take()))
        } else {
            Ok((Vec::new(), None))
        }
    }

    async fn check(&mut self, file: &str) -> Result<()> {
        if self.way == Some(Way::AsTheyAre)
            && ConversationHead::of(self.backend, self.scope).await? != self.there
        {
            self.give_up(file)?;
        }
        Ok(())
    }

    /// Somebody else has added to the conversation meanwhile, so the file's turns are added too.
    ///
    /// # Errors
    /// `conflict` if they cannot be added.
    pub(crate) fn give_up(&mut self, file: &str) -> Result<()> {
        // If the log was already here, then whatever differs is newer here.
        if self.there.is_some() {
            return Ok(());
        }
        if !self.adds {
            return Err(has_its_own(file, self.scope));
        }
        self.way = Some(Way::AsTurns);
        self.ready.clear();
        self.behind.clear();
        self.head = None;
        Ok(())
    }

    /// The turns to add to the scope's conversation. Those it already has under their own ids are counted.
    ///
    /// # Errors
    /// The store's errors.
    pub(crate) async fn turns(&mut self, turns: &mut Turns<'_>) -> Result<Vec<Moved>> {
        let facts = std::mem::take(&mut self.facts);
        if self.way != Some(Way::AsTurns) || facts.is_empty() {
            return Ok(Vec::new());
        }
        if self.tombstones.is_none() {
            note(
                "memory: the token does not allow `tombstones`, so what was erased with its whole scope may come back",
            );
        }
        let mut moved = Vec::with_capacity(facts.len());
        for FileFact { place, fact, updated_at, expires_at } in facts {
            // Only tombstones of the whole scope or tenant: those of single entries name the keys of another log.
            let is_erased =
                |tombstone: &Tombstone| tombstone.id.key.is_none() && tombstone.is_after(updated_at);
            if expires_at.is_some_and(|at| at <= self.now) {
                self.expired += 1;
            } else if !turns.again && self.tombstones.iter().flatten().any(is_erased) {
                self.forgotten += 1;
            } else {
                match Moved::of_fact(self.scope.clone(), place, fact, left(expires_at, self.now)) {
                    Some(turn) => moved.push(turn),
                    None => self.passed_over += 1,
                }
            }
        }
        // Answers refer to message ids, which are the same in every scope.
        let messages: BTreeMap<String, Option<String>> =
            moved.iter().map(|moved| (moved.id.clone(), moved.message.id.clone())).collect();
        for moved in &mut moved {
            let answered = moved.message.answers.take();
            moved.message.answers = answered.and_then(|id| messages.get(&id).cloned().flatten());
        }
        let (mut known, mut forgotten) = (0, 0);
        for chunk in moved.chunks_mut(LOOKED_UP) {
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
        Ok(moved)
    }

    /// Counts records whose head or turn never came.
    pub(crate) fn left(&mut self) {
        self.passed_over += std::mem::take(&mut self.behind).len() as u64;
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
