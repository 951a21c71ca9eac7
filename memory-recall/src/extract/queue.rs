//! What waits for extraction: a conversation's log from some number on, and the turns that were set aside.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use memory_core::layer::FactId;
use memory_core::{Clock, Error, IdGen, Op, Provider, Quota, Result, Retry, Scope, Timestamp};
use serde::Serialize;

use crate::changes::{self, Found};
use crate::recall::{Recall, RecallOptions};
use crate::store::keys;
use crate::store::log::{ATTEMPTS, Log, PAGE, contended};
use crate::store::progress::{Aside, Progress, Spent};
use crate::store::record::{self, Record, StoredTurn};

/// Most turns set aside in a scope; more stops the extraction.
pub(super) const MAX_ASIDE: usize = 1_000;
/// Most bytes of text in one prompt; the first turn is taken whatever its size.
const MAX_BATCH_BYTES: usize = 48 << 10;
/// Most records searched for turns at a time.
const MAX_LOOKED_AT: usize = 10_000;

/// How facts are extracted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExtractOptions {
    /// How many turns the extractor gets at once: 1 to 100. Default 20.
    pub batch: usize,
    /// How often turns are tried before they are set aside. Default 5.
    pub max_attempts: u32,
    /// How long turns given to an extractor are not given to another. It should exceed the extractor's time limit;
    /// after a kill, turns wait this long. Default 10 minutes.
    pub lease: Duration,
    /// The scope's quota; facts count against it as turns do.
    pub quota: Quota,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self { batch: 20, max_attempts: 5, lease: Duration::from_secs(600), quota: Quota::default() }
    }
}

/// A turn that was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SetAside {
    /// Its id.
    pub id: FactId,
    /// The code of the last error.
    pub code: String,
    /// When.
    pub at: Timestamp,
}

/// What waits, and what has been done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExtractStatus {
    /// Turns not examined yet.
    pub waiting: u64,
    /// Turns that were given up.
    pub aside: Vec<SetAside>,
    /// Failed attempts at the turns that are next.
    pub attempts: u32,
    /// When they are tried again, if that is later than now.
    pub again_at: Option<Timestamp>,
    /// What was spent on this scope.
    pub spent: Spent,
}

/// The queue of turns from which no facts have been extracted yet. It is part of the scope's own entries: the log from
/// some number on is what waits, so a turn waits from the moment it is stored until it is forgotten. Each queue has one
/// extractor.
#[derive(Debug)]
pub struct ExtractionQueue {
    pub(super) recall: Recall<Arc<dyn Provider>>,
    pub(super) options: ExtractOptions,
    /// Identifies this queue's owner among those that extract.
    pub(super) owner: String,
    /// Until when the extractor wants to be left alone, for any scope.
    pub(super) rests_until: AtomicI64,
}

/// The turns that are next.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) turns: Vec<Found>,
    /// The numbers examined, including those of records that are gone.
    pub(super) numbers: Vec<u64>,
    /// Where the log continues after them.
    pub(super) next: u64,
}

impl ExtractionQueue {
    /// The queue of a store whose conversations this crate keeps. `recall` has the embedder of the store's conversations, which
    /// embeds the facts.
    #[must_use]
    pub fn new(
        provider: Arc<dyn Provider>,
        recall: RecallOptions,
        mut options: ExtractOptions,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
    ) -> Self {
        options.batch = options.batch.clamp(1, 100);
        options.max_attempts = options.max_attempts.max(1);
        let recall = Recall::beside(provider, recall, clock, ids);
        let owner = recall.epoch();
        Self { recall, options, owner, rests_until: AtomicI64::new(0) }
    }

    pub(super) fn log<'a>(&'a self, scope: &'a Scope) -> Result<Log<'a>> {
        self.recall.log(scope, Op::Facts)
    }

    /// Counts what waits, and lists what was set aside.
    ///
    /// # Errors
    /// The store's errors; `capability_unsupported` for a store whose conversations this crate does not keep.
    pub async fn status(&self, scope: &Scope) -> Result<ExtractStatus> {
        let log = self.log(scope)?;
        let (_, progress) = log.progress().await?.unzip();
        let progress = progress.unwrap_or_default();
        let mut waiting = changes::at_numbers(&log, &progress.again).await?.len();
        let mut next = progress.next;
        loop {
            let page = log.page(next, PAGE).await?;
            let Some(last) = page.last() else { break };
            next = keys::number(&last.key)?.saturating_add(1);
            for entry in &page {
                if let Record::Turn(turn) = record::read(entry)? {
                    waiting += usize::from(waits(&turn));
                }
            }
        }
        let numbers: Vec<u64> = progress.aside.iter().map(|aside| aside.n).collect();
        let found = changes::at_numbers(&log, &numbers).await?;
        let ids: BTreeMap<u64, String> =
            found.into_iter().map(|found| (found.number, found.turn.id)).collect();
        let mut aside = Vec::new();
        for Aside { n, code, at } in progress.aside {
            let Some(id) = ids.get(&n) else { continue };
            let at = Timestamp::from_millis_clamped(at);
            aside.push(SetAside { id: FactId::new(id.as_str())?, code, at });
        }
        let now = self.recall.clock.now().as_millis();
        let again_at = (progress.not_before > now).then_some(progress.not_before);
        Ok(ExtractStatus {
            waiting: u64::try_from(waiting).unwrap_or(u64::MAX),
            aside,
            attempts: progress.attempts,
            again_at: again_at.map(Timestamp::from_millis_clamped),
            spent: progress.spent,
        })
    }

    /// Requeues what was set aside, and clears all delays. Returns how many turns had been set aside.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn retry(&self, scope: &Scope) -> Result<u64> {
        let changed = self
            .change(scope, |progress| {
                let aside: Vec<u64> = progress.aside.drain(..).map(|aside| aside.n).collect();
                let turns = u64::try_from(aside.len()).unwrap_or(u64::MAX);
                progress.again.extend(aside);
                (progress.attempts, progress.size, progress.not_before) = (0, None, 0);
                Some(turns)
            })
            .await?;
        Ok(changed.unwrap_or(0))
    }

    /// Releases what this queue claimed but did not finish, so that nobody waits for it.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn release(&self, scope: &Scope) -> Result<()> {
        let ours = |progress: &mut Progress| {
            self.is_ours(progress).then(|| {
                progress.claim = None;
                progress.attempts = progress.attempts.saturating_sub(1);
            })
        };
        self.change(scope, ours).await.map(drop)
    }

    /// Whether this queue still claims the first waiting turns.
    pub(super) fn is_ours(&self, progress: &Progress) -> bool {
        progress.claim.as_ref().is_some_and(|claim| claim.by == self.owner)
    }

    /// Changes the progress of a scope, if there is one and `change` has something to change.
    pub(super) async fn change<T>(
        &self,
        scope: &Scope,
        change: impl Fn(&mut Progress) -> Option<T> + Sync,
    ) -> Result<Option<T>> {
        let log = self.log(scope)?;
        for _ in 0..ATTEMPTS {
            let Some((version, mut progress)) = log.progress().await? else { return Ok(None) };
            let Some(changed) = change(&mut progress) else { return Ok(None) };
            if log.write(vec![progress.written(Some(version))?], Quota::default()).await?.is_some() {
                return Ok(Some(changed));
            }
        }
        Err(contended())
    }

    /// The turns that are next: those to be retried, or else those after the last that were examined.
    pub(super) async fn batch(&self, log: &Log<'_>, progress: &Progress) -> Result<Batch> {
        let most = progress.size.unwrap_or(self.options.batch).clamp(1, self.options.batch);
        if !progress.again.is_empty() {
            let numbers: Vec<u64> = progress.again.iter().take(most).copied().collect();
            let mut turns = changes::at_numbers(log, &numbers).await?;
            turns.retain(|found| waits(&found.turn));
            return Ok(Batch { turns, numbers, next: progress.next });
        }
        let mut batch = Batch { turns: Vec::new(), numbers: Vec::new(), next: progress.next };
        let (mut bytes, mut looked_at) = (0, 0);
        loop {
            let page = log.page(batch.next, most.max(100)).await?;
            if page.is_empty() || looked_at >= MAX_LOOKED_AT {
                return Ok(batch);
            }
            looked_at += page.len();
            for entry in page {
                let number = keys::number(&entry.key)?;
                if let Record::Turn(turn) = record::read(&entry)?
                    && waits(&turn)
                {
                    bytes += turn.text.len() + turn.caption.as_ref().map_or(0, String::len);
                    let full = batch.turns.len() >= most || bytes > MAX_BATCH_BYTES;
                    if full && !batch.turns.is_empty() {
                        return Ok(batch);
                    }
                    batch.numbers.push(number);
                    batch.turns.push(Found { number, turn: *turn, entry });
                }
                batch.next = number.saturating_add(1);
            }
        }
    }

    /// The error if too many turns are set aside.
    pub(super) fn too_many_aside() -> Error {
        Error::quota_exceeded(format!(
            "{MAX_ASIDE} turns of this scope are set aside; find out why, then let them be tried again"
        ))
        .with_retry(Retry::Never)
    }
}

/// Whether facts may be extracted from a record.
fn waits(turn: &StoredTurn) -> bool {
    turn.derived.is_none() && turn.superseded_by.is_none()
}
