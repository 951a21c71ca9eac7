//! Vectors of existing turns: which models they are from, and new ones by the current model.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory_core::backend::NewEntry;
use memory_core::embed::{EmbeddingModel, embed_documents};
use memory_core::{Clock, Embedder, IdGen, Op, Provider, ReembedOutcome, Result, Scope};
use serde::Serialize;

use crate::add::NO_QUOTA;
use crate::changes::Found;
use crate::rank::Turn;
use crate::recall::{Recall, RecallOptions};
use crate::store::keys;
use crate::store::log::{ATTEMPTS, Log, ROOM, contended};
use crate::store::record::{self, Head, Record};
use crate::store::vector::StoredVector;

/// Turns that are embedded and rewritten together.
const STEP: usize = 256;

/// Which models' vectors a scope's turns have, including facts extracted from them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TurnVectorStats {
    /// The model that questions are embedded with.
    pub model: EmbeddingModel,
    /// All turns.
    pub turns: u64,
    /// Turns whose vectors are from another model: they are found by words alone.
    pub stale: u64,
    /// Turns stored without a vector: they are found by words alone, too.
    pub missing: u64,
    /// The models of stale vectors, with the number of turns for each.
    pub stale_models: BTreeMap<String, u64>,
}

/// The vectors of turns in a store whose conversations this crate manages.
#[derive(Debug)]
pub struct TurnVectors {
    recall: Recall<Arc<dyn Provider>>,
    embedder: Arc<dyn Embedder>,
}

impl TurnVectors {
    /// For a store. `embedder` is the one used to recall its conversations.
    #[must_use]
    pub fn new(
        provider: Arc<dyn Provider>,
        embedder: Arc<dyn Embedder>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
    ) -> Self {
        Self { recall: Recall::beside(provider, RecallOptions::default(), clock, ids), embedder }
    }

    /// Counts a scope's turns by the model of their vectors. Reads every turn.
    ///
    /// # Errors
    /// The store's errors; `capability_unsupported` for a store whose conversations this crate does not keep.
    pub async fn stats(&self, scope: &Scope) -> Result<TurnVectorStats> {
        let log = self.recall.log(scope, Op::Facts)?;
        let model = self.embedder.model();
        let mut stats = TurnVectorStats {
            model: model.clone(),
            turns: 0,
            stale: 0,
            missing: 0,
            stale_models: BTreeMap::new(),
        };
        let mut next = 0;
        while let Some(turns) = turns_from(&log, &mut next).await? {
            for Found { turn, .. } in turns {
                stats.turns += 1;
                match turn.vector.as_ref().map(|vector| vector.foreign(model)) {
                    None => stats.missing += 1,
                    Some(None) => {}
                    Some(Some(other)) => {
                        stats.stale += 1;
                        *stats.stale_models.entry(other.to_owned()).or_default() += 1;
                    }
                }
            }
        }
        Ok(stats)
    }

    /// Embeds every turn of a scope without a vector of the current model, in steps. After each, calls `goes_on` with
    /// the progress so far, and stops if that returns false. What was done stays, even after an error; running it again
    /// continues from there.
    ///
    /// `failed` counts texts that the model has no vector for, and turns without room for one; they do not remain. Only
    /// the vectors of turns change. Other processes find the turns by their new vectors once this returns.
    ///
    /// # Errors
    /// The embedder's and the store's errors; `capability_unsupported` as [`TurnVectors::stats`].
    pub async fn reembed(
        &self,
        scope: &Scope,
        goes_on: &(dyn Fn(ReembedOutcome) -> bool + Sync),
    ) -> Result<ReembedOutcome> {
        let log = self.recall.log(scope, Op::Reembed)?;
        let stats = self.stats(scope).await?;
        let mut outcome = ReembedOutcome::default();
        outcome.remaining = stats.stale + stats.missing;
        if outcome.remaining == 0 {
            return Ok(outcome);
        }
        let ended = self.embed_all(&log, &mut outcome, goes_on).await;
        if outcome.embedded + outcome.failed > 0 {
            self.tell(&log).await?;
        }
        ended.map(|()| outcome)
    }

    async fn embed_all(
        &self,
        log: &Log<'_>,
        outcome: &mut ReembedOutcome,
        goes_on: &(dyn Fn(ReembedOutcome) -> bool + Sync),
    ) -> Result<()> {
        let mut next = 0;
        let mut attempts = 0;
        loop {
            let from = next;
            let Some(mut turns) = turns_from(log, &mut next).await? else { return Ok(()) };
            turns.retain(|found| self.lacks_vector(found));
            if turns.is_empty() {
                continue;
            }
            let (items, embedded, failed) = self.embedded(turns).await?;
            if log.write(items, NO_QUOTA).await?.is_none() {
                // A turn was forgotten, corrected or confirmed meanwhile.
                (next, attempts) = (from, attempts + 1);
                if attempts >= ATTEMPTS {
                    return Err(contended());
                }
                continue;
            }
            attempts = 0;
            outcome.embedded += embedded;
            outcome.failed += failed;
            outcome.remaining = outcome.remaining.saturating_sub(embedded + failed);
            if !goes_on(*outcome) {
                return Ok(());
            }
        }
    }

    fn lacks_vector(&self, found: &Found) -> bool {
        let model = self.embedder.model();
        found.turn.vector.as_ref().is_none_or(|vector| vector.foreign(model).is_some())
    }

    /// The turns with new vectors, ready to be written, and how many got one and how many did not.
    async fn embedded(&self, turns: Vec<Found>) -> Result<(Vec<NewEntry>, u64, u64)> {
        let texts: Vec<String> = turns
            .iter()
            .map(|found| Turn::embedded_text(&found.turn.text, found.turn.caption.as_deref()))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = embed_documents(self.embedder.as_ref(), &texts).await;
        let most = self.recall.inner().capabilities().max_value_bytes.saturating_sub(ROOM);
        let (mut items, mut embedded, mut failed) = (Vec::with_capacity(turns.len()), 0, 0);
        for (mut found, vector) in turns.into_iter().zip(vectors) {
            let vector = StoredVector::answered(self.embedder.model(), vector)?;
            let has_direction = vector.has_direction();
            found.turn.vector = Some(vector);
            let item = found.rewritten()?;
            let fits = item.value.len_bytes() <= most;
            let done = if fits && has_direction { &mut embedded } else { &mut failed };
            *done += 1;
            items.extend(fits.then_some(item));
        }
        Ok((items, embedded, failed))
    }

    /// Begins an epoch, so that every reader picks up the new vectors.
    async fn tell(&self, log: &Log<'_>) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let seen = log.head().await?;
            let head = Head { epoch: self.recall.epoch(), ..seen.then(seen.next(), String::new) };
            if seen.version.is_none() || log.write(vec![seen.moved_to(&head)?], NO_QUOTA).await?.is_some() {
                return Ok(());
            }
        }
        Err(contended())
    }
}

/// The turns among the next records of the log; `None` if there are no more records.
async fn turns_from(log: &Log<'_>, next: &mut u64) -> Result<Option<Vec<Found>>> {
    let page = log.page(*next, STEP).await?;
    let Some(last) = page.last() else { return Ok(None) };
    *next = keys::number(&last.key)?.saturating_add(1);
    let mut turns = Vec::with_capacity(page.len());
    for entry in page {
        if let Record::Turn(turn) = record::read(&entry)? {
            turns.push(Found { number: keys::number(&entry.key)?, turn: *turn, entry });
        }
    }
    Ok(Some(turns))
}
