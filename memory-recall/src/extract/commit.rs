//! Stores extracted facts together with the progress, in one transaction.

use std::collections::BTreeSet;
use std::time::Duration;

use memory_core::backend::NewEntry;
use memory_core::embed::embed_documents;
use memory_core::layer::{FactId, Role};
use memory_core::{Expect, Metadata, Result, Timestamp, Ttl};

use super::extractor::DrawnFact;
use super::queue::{Batch, ExtractionQueue};
use super::step::Extracted;
use crate::changes::{self, Found};
use crate::store::log::{ATTEMPTS, Log, contended, gone, item, turn_item};
use crate::store::progress::Spent;
use crate::store::record::{self, Derived, Head, Known, StoredTurn, Support};
use crate::store::vector::StoredVector;
use crate::store::{digest, keys};

/// How many facts with the same words, each superseded by the next, are looked through.
const MAX_AGAIN: usize = 16;

/// What is known of a fact's words.
enum Place {
    /// It holds.
    Holds(Box<Found>),
    /// It is new, under this digest.
    Free(String, Expect),
    /// It was forgotten.
    Forgotten,
}

/// The writes of one commit.
struct Writes {
    items: Vec<NewEntry>,
    /// Records that are replaced.
    replaced: Vec<u64>,
    head: Head,
    done: Extracted,
}

impl ExtractionQueue {
    /// Stores facts from these turns, as far as the turns still exist. `None` if the turns are no longer claimed by us.
    pub(super) async fn commit(
        &self,
        log: &Log<'_>,
        batch: &Batch,
        facts: Vec<DrawnFact>,
        by: &str,
        spent: Spent,
    ) -> Result<Option<Extracted>> {
        let vectors = self.embedded(&facts).await;
        let numbers = &batch.numbers;
        for _ in 0..ATTEMPTS {
            let seen = log.head().await?;
            let Some((version, mut progress)) = log.progress().await? else { return Ok(None) };
            if !self.is_ours(&progress) {
                return Ok(None);
            }
            let mut turns = changes::at_numbers(log, numbers).await?;
            turns.retain(|found| found.turn.superseded_by.is_none());
            let done = Extracted {
                turns: u64::try_from(batch.turns.len()).unwrap_or(u64::MAX),
                ..Extracted::default()
            };
            let head = seen.then(seen.next(), || self.recall.epoch());
            let mut writes = Writes { items: Vec::new(), replaced: Vec::new(), head, done };
            let mut ended = BTreeSet::new();
            for (fact, vector) in facts.iter().zip(&vectors) {
                self.store(log, (fact, vector.clone()), &turns, by, &mut writes, &mut ended).await?;
            }
            if !writes.items.is_empty() {
                if !writes.replaced.is_empty() {
                    let told = log.forgot(writes.replaced, &mut writes.head, || self.recall.epoch()).await?;
                    writes.items.extend(told);
                }
                writes.items.push(seen.moved_to(&writes.head)?);
            }
            progress.done_with(numbers, batch.next);
            progress.spent.add(spent);
            writes.items.push(progress.written(Some(version))?);
            if log.write(writes.items, self.options.quota).await?.is_some() {
                return Ok(Some(writes.done));
            }
            self.recall.after_conflict(log, &seen).await?;
        }
        Err(contended())
    }

    async fn embedded(&self, facts: &[DrawnFact]) -> Vec<Option<StoredVector>> {
        let Some(embedder) = &self.recall.options.embedder else { return vec![None; facts.len()] };
        let texts: Vec<&str> = facts.iter().map(|fact| fact.text.as_str()).collect();
        if texts.is_empty() {
            return Vec::new();
        }
        let vectors = embed_documents(embedder.as_ref(), &texts).await;
        crate::add::stored(embedder.as_ref(), vectors)
    }

    /// Adds the writes of one fact. `ended` has the ids of the facts that others of this commit superseded.
    async fn store(
        &self,
        log: &Log<'_>,
        (fact, vector): (&DrawnFact, Option<StoredVector>),
        turns: &[Found],
        by: &str,
        writes: &mut Writes,
        ended: &mut BTreeSet<FactId>,
    ) -> Result<()> {
        let support: Vec<&Found> =
            turns.iter().filter(|found| fact.sources.iter().any(|id| id.as_str() == found.turn.id)).collect();
        // Turns forgotten in the meantime support nothing.
        if support.is_empty() {
            writes.done.forgotten += 1;
            return Ok(());
        }
        let (id, expect, mut turn, metadata) = match place(log, &fact.text).await? {
            Place::Forgotten => {
                writes.done.forgotten += 1;
                return Ok(());
            }
            Place::Holds(found) if ended.iter().any(|id| id.as_str() == found.turn.id) => return Ok(()),
            Place::Holds(found) => {
                writes.done.known += 1;
                let Found { number, turn, entry } = *found;
                writes.items.push(gone(&entry)?);
                writes.replaced.push(number);
                (turn.id.clone(), Expect::Any, turn, entry.metadata)
            }
            Place::Free(id, expect) => {
                writes.done.facts += 1;
                (id.clone(), expect, drawn(id, fact, by, vector), Metadata::new())
            }
        };
        let said = support.iter().map(|found| found.turn.said(&found.entry)).max();
        let derived = turn.derived.get_or_insert_with(|| Derived {
            sources: Vec::new(),
            by: by.to_owned(),
            valid_from: None,
        });
        for found in &support {
            if derived.sources.iter().all(|source| source.n != found.number) {
                derived.sources.push(Support { id: found.turn.id.clone(), n: found.number });
            }
        }
        let sources: Vec<u64> = derived.sources.iter().map(|source| source.n).collect();
        if turn.at.is_none() {
            turn.at = said;
        } else {
            turn.confirmed_at = turn.confirmed_at.max(said);
        }
        let ttl = self.lifetime(log, &sources).await?;
        let until = fact.valid_from.map(Timestamp::as_millis).or(said).unwrap_or_default();
        writes.items.push(turn_item(writes.head.next, turn, metadata, Expect::Absent, ttl)?);
        let known = Known { n: Some(writes.head.next), ..Known::default() };
        writes.items.push(item(keys::id(&id)?, record::written(&known)?, expect, ttl)?);
        writes.head.next = writes.head.next.saturating_add(1);
        // Only facts that hold, excluding those that another fact of this commit has already ended.
        let mut supersedes = Vec::new();
        for other in &fact.supersedes {
            if other.as_str() != id && !ended.contains(other) && is_live(log, other, &writes.replaced).await?
            {
                supersedes.push(other.clone());
            }
        }
        writes.done.superseded += u64::try_from(supersedes.len()).unwrap_or(u64::MAX);
        let correction = changes::Correction { id: &id, ended_by: None };
        let items =
            changes::supersede(log, &supersedes, correction, until, Vec::new(), &mut writes.head).await?;
        writes.items.extend(items);
        ended.extend(supersedes);
        Ok(())
    }

    /// As long as the longest-lived turn.
    async fn lifetime(&self, log: &Log<'_>, sources: &[u64]) -> Result<Ttl> {
        let mut last = Timestamp::EPOCH;
        for found in changes::at_numbers(log, sources).await? {
            match found.entry.expires_at {
                None => return Ok(Ttl::Never),
                Some(at) => last = last.max(at),
            }
        }
        let left = last.saturating_since(self.recall.clock.now());
        Ok(Ttl::After(left.max(Duration::from_millis(1))))
    }
}

fn drawn(id: String, fact: &DrawnFact, by: &str, vector: Option<StoredVector>) -> StoredTurn {
    StoredTurn {
        id,
        text: fact.text.clone(),
        role: Role::User,
        speaker: None,
        session: None,
        at: None,
        answers: None,
        caption: None,
        message: None,
        vector,
        confirmed_at: None,
        valid_to: None,
        superseded_by: None,
        derived: Some(Derived {
            sources: Vec::new(),
            by: by.to_owned(),
            valid_from: fact.valid_from.map(Timestamp::as_millis),
        }),
    }
}

/// What is known of a fact with these words. One that was superseded may hold again, under another digest.
async fn place(log: &Log<'_>, text: &str) -> Result<Place> {
    let mut after = String::new();
    for _ in 0..MAX_AGAIN {
        let id = digest::of_fact(log.scope, text, &after);
        let Some((expect, known)) = log.known(&[&id]).await?.pop().flatten() else {
            return Ok(Place::Free(id, Expect::Absent));
        };
        let Some(number) = known.n else {
            let free = known.dropped.then_some(Place::Free(id, expect));
            return Ok(free.unwrap_or(Place::Forgotten));
        };
        let found = changes::at_numbers(log, &[number]).await?.pop();
        let Some(found) = found.filter(|found| found.turn.id == id) else {
            return Ok(Place::Free(id, expect));
        };
        if found.turn.superseded_by.is_none() {
            return Ok(Place::Holds(Box::new(found)));
        }
        after = id;
    }
    Ok(Place::Forgotten)
}

/// Whether a derived fact exists and holds, and no other write of this commit replaces it.
async fn is_live(log: &Log<'_>, id: &FactId, replaced: &[u64]) -> Result<bool> {
    let found = changes::named(log, &[id.as_str()]).await?.pop().flatten();
    Ok(found.is_some_and(|found| {
        found.turn.derived.is_some()
            && found.turn.superseded_by.is_none()
            && !replaced.contains(&found.number)
    }))
}
