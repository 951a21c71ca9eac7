//! One step of an extraction: some turns, one request to the extractor, one transaction.

use std::sync::atomic::Ordering;
use std::time::Duration;

use memory_core::layer::FactId;
use memory_core::{Error, ErrorKind, Key, Quota, Result, Retry, Scope, Timestamp};

use super::check::checked;
use super::extractor::{Drawn, Extractor, KnownFact, SourceTurn};
use super::queue::{Batch, ExtractionQueue, MAX_ASIDE};
use crate::cache::Moment;
use crate::rank::Question;
use crate::store::keys;
use crate::store::log::{ATTEMPTS, Log, contended, cut};
use crate::store::progress::{Aside, Claim, Progress, Spent};
use crate::store::record::{self, Record};

/// Longest text of a turn given to an extractor, in bytes.
const MAX_TURN_BYTES: usize = 16 << 10;
/// Most known facts given to an extractor.
const KNOWN_FACTS: usize = 30;
/// How many bytes of the turns are used to find known facts.
const QUESTION_BYTES: usize = 4 << 10;
/// The first delay after a refusal or timeout; each later one is four times as long.
const FIRST_DELAY: Duration = Duration::from_secs(10);
/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(3_600);

/// The result of a step.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step {
    /// Nothing waits.
    Idle,
    /// Facts were extracted, possibly none.
    Extracted(Extracted),
    /// Not yet: somebody else is working on it, or an attempt has just failed.
    Wait {
        /// Until when.
        until: Timestamp,
    },
    /// An attempt failed and will be repeated, possibly with fewer turns.
    Failed {
        /// Why.
        error: Error,
        /// Not before this time.
        again_at: Timestamp,
    },
    /// The last attempt failed; these turns are skipped from now on.
    SetAside {
        /// How many.
        turns: u64,
        /// Why.
        error: Error,
    },
}

/// What a step extracted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extracted {
    /// Turns examined.
    pub turns: u64,
    /// Facts that were stored.
    pub facts: u64,
    /// Facts that already existed and are now supported by these turns too.
    pub known: u64,
    /// Facts that were superseded.
    pub superseded: u64,
    /// Facts that were refused: without a given turn, or malformed.
    pub refused: u64,
    /// Facts left out because they, or all turns that support them, were forgotten.
    pub forgotten: u64,
}

impl ExtractionQueue {
    /// Extracts facts from the turns that are next.
    ///
    /// # Errors
    /// The store's errors, and errors of the extractor that would affect other turns too; the turns keep waiting.
    pub async fn step(&self, scope: &Scope, extractor: &dyn Extractor) -> Result<Step> {
        let log = self.log(scope)?;
        let batch = match self.claimed(&log).await? {
            Claimed::Batch(batch) => batch,
            Claimed::Not(step) => return Ok(step),
        };
        let turns = given(&batch)?;
        let known = self.known(&log, &turns).await?;
        let Drawn { facts, spent } = extractor.extract(&turns, &known).await;
        match facts {
            Ok(facts) => {
                let (facts, refused) = checked(facts, &turns, &known);
                let stored = self.commit(&log, &batch, facts, extractor.name(), spent).await;
                match stored {
                    Ok(Some(extracted)) => Ok(Step::Extracted(Extracted { refused, ..extracted })),
                    // Somebody else took over.
                    Ok(None) => Ok(Step::Wait { until: self.recall.clock.now() }),
                    Err(error) => {
                        self.not_helped(scope, spent).await?;
                        Err(error)
                    }
                }
            }
            Err(error) => self.failed(scope, &batch, error, spent).await,
        }
    }

    /// Claims the turns that are next, so that nobody else takes them.
    async fn claimed(&self, log: &Log<'_>) -> Result<Claimed> {
        let rests_until = self.rests_until.load(Ordering::Relaxed);
        for _ in 0..ATTEMPTS {
            let (version, progress) = log.progress().await?.unzip();
            let mut progress = progress.unwrap_or_default();
            let now = self.recall.clock.now().as_millis();
            let taken =
                progress.claim.as_ref().filter(|claim| claim.by != self.owner).map(|claim| claim.until);
            let until = taken.unwrap_or(0).max(progress.not_before);
            if until > now {
                return Ok(Claimed::Not(Step::Wait { until: Timestamp::from_millis_clamped(until) }));
            }
            if progress.aside.len() >= MAX_ASIDE {
                return Err(Self::too_many_aside());
            }
            let batch = self.batch(log, &progress).await?;
            if batch.turns.is_empty() {
                let moved = batch.next != progress.next || !progress.again.is_empty();
                if !moved {
                    return Ok(Claimed::Not(Step::Idle));
                }
                progress.done_with(&batch.numbers, batch.next);
                if log.write(vec![progress.written(version)?], Quota::default()).await?.is_some() {
                    continue;
                }
            } else if progress.attempts >= self.options.max_attempts {
                // The last attempt ended without recording why it failed.
                let error = Error::internal("every attempt was interrupted");
                let turns = set_aside(&mut progress, &batch, &error, now);
                if log.write(vec![progress.written(version)?], Quota::default()).await?.is_some() {
                    return Ok(Claimed::Not(Step::SetAside { turns, error }));
                }
            } else if rests_until > now {
                return Ok(Claimed::Not(Step::Wait { until: Timestamp::from_millis_clamped(rests_until) }));
            } else {
                let until = Timestamp::from_millis_clamped(now).checked_add(self.options.lease);
                let until = until.unwrap_or(Timestamp::MAX).as_millis();
                progress.claim = Some(Claim { by: self.owner.clone(), until });
                progress.attempts = progress.attempts.saturating_add(1);
                if log.write(vec![progress.written(version)?], Quota::default()).await?.is_some() {
                    return Ok(Claimed::Batch(batch));
                }
            }
        }
        Err(contended())
    }

    /// The earlier facts that are nearest to these turns.
    async fn known(&self, log: &Log<'_>, turns: &[SourceTurn]) -> Result<Vec<KnownFact>> {
        let texts: Vec<&str> = turns.iter().map(|turn| turn.text.as_str()).collect();
        let text = cut(texts.join("\n"), QUESTION_BYTES);
        let model = self.recall.options.embedder.as_ref().map(|embedder| embedder.model());
        let slot = self.recall.cache.current(log, model, self.recall.clock.now()).await?;
        let question = Question { vector: self.recall.embedded(&slot, &text).await, text, at: None };
        let of = Moment { derived: true, ..Moment::default() };
        let ranked = slot.state().search(&question, &self.recall.options.weights, of, KNOWN_FACTS);
        let keys: Vec<Key> = ranked.iter().map(|found| keys::log(found.number)).collect::<Result<_>>()?;
        let mut known = Vec::new();
        for entry in log.entries(&keys).await?.iter().flatten() {
            if let Record::Turn(turn) = record::read(entry)?
                && turn.superseded_by.is_none()
            {
                known.push(KnownFact::new(FactId::new(turn.id)?, turn.text));
            }
        }
        Ok(known)
    }

    /// Records a failed attempt: it is repeated later, or with fewer turns, until the turns are set aside.
    async fn failed(&self, scope: &Scope, batch: &Batch, error: Error, spent: Spent) -> Result<Step> {
        // A model that refuses these turns will refuse them later, too.
        let fewer = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::TooLarge)
            || error.kind() == ErrorKind::Unavailable && error.retry() == Retry::Never;
        let later =
            matches!(error.kind(), ErrorKind::RateLimited | ErrorKind::Timeout | ErrorKind::Unavailable);
        if !fewer && !later {
            self.not_helped(scope, spent).await?;
            return Err(error);
        }
        let now = self.recall.clock.now().as_millis();
        if let (true, Retry::After(asked)) = (later, error.retry()) {
            let until = Timestamp::from_millis_clamped(now).checked_add(asked.min(MAX_DELAY));
            self.rests_until.store(until.unwrap_or(Timestamp::MAX).as_millis(), Ordering::Relaxed);
        }
        let noted = self.change(scope, |progress| {
            if !self.is_ours(progress) {
                return None;
            }
            progress.spent.add(spent);
            if progress.attempts >= self.options.max_attempts {
                return Some((None, set_aside(progress, batch, &error, now)));
            }
            progress.claim = None;
            if !fewer {
                let delay = delay(progress.attempts, error.retry());
                let until = Timestamp::from_millis_clamped(now).checked_add(delay);
                progress.not_before = until.unwrap_or(Timestamp::MAX).as_millis();
            } else {
                progress.size = Some((batch.turns.len() / 2).max(1));
            }
            Some((Some(Timestamp::from_millis_clamped(progress.not_before.max(now))), 0))
        });
        Ok(match noted.await? {
            Some((Some(again_at), _)) => Step::Failed { error, again_at },
            Some((None, turns)) => Step::SetAside { turns, error },
            None => Step::Wait { until: Timestamp::from_millis_clamped(now) },
        })
    }

    /// Records an attempt that failed for reasons unrelated to the turns.
    async fn not_helped(&self, scope: &Scope, spent: Spent) -> Result<()> {
        let noted = self.change(scope, |progress| {
            progress.spent.add(spent);
            if self.is_ours(progress) {
                progress.claim = None;
                progress.attempts = progress.attempts.saturating_sub(1);
            }
            Some(())
        });
        noted.await.map(drop)
    }
}

/// Claimed turns, or why none were claimed.
enum Claimed {
    Batch(Batch),
    Not(Step),
}

/// The turns in the form given to an extractor.
fn given(batch: &Batch) -> Result<Vec<SourceTurn>> {
    let of = |found: &crate::changes::Found| {
        let turn = &found.turn;
        Ok(SourceTurn {
            id: FactId::new(turn.id.as_str())?,
            text: cut(turn.text.clone(), MAX_TURN_BYTES),
            role: turn.role,
            speaker: turn.speaker.clone(),
            at: turn.at.map(Timestamp::from_millis_clamped),
            caption: turn.caption.clone(),
        })
    };
    batch.turns.iter().map(of).collect()
}

/// How long to wait after this many attempts.
fn delay(attempts: u32, retry: Retry) -> Duration {
    let own = FIRST_DELAY.saturating_mul(4_u32.saturating_pow(attempts.saturating_sub(1)));
    let asked = if let Retry::After(asked) = retry { asked } else { Duration::ZERO };
    own.max(asked).min(MAX_DELAY)
}

/// Gives up these turns.
fn set_aside(progress: &mut Progress, batch: &Batch, error: &Error, now: i64) -> u64 {
    let numbers = batch.turns.iter().map(|found| found.number);
    let code = error.kind().code().to_owned();
    progress.aside.extend(numbers.map(|n| Aside { n, code: code.clone(), at: now }));
    progress.done_with(&batch.numbers, batch.next);
    u64::try_from(batch.turns.len()).unwrap_or(u64::MAX)
}
