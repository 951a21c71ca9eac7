//! Forgetting: the words are removed and a digest stays, so that the same message does not come back unasked.

use std::collections::BTreeSet;

use memory_core::backend::NewEntry;
use memory_core::layer::{FactId, Forget, ForgetOutcome};
use memory_core::{Entry, Error, Expect, Op, Provider, Result, Retry, Scope, Ttl};

use crate::add::NO_QUOTA;
use crate::changes;
use crate::recall::Recall;
use crate::store::forgotten::Forgotten;
use crate::store::log::{ATTEMPTS, Log, SOON, SeenHead, contended, gone, item};
use crate::store::record::{self, Head, Known, Record};
use crate::store::{digest, keys};

/// Turns forgotten per transaction when everything is forgotten.
const BATCH: usize = 500;

impl<P: Provider> Recall<P> {
    pub(crate) async fn forget_facts(&self, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        let log = self.log(scope, Op::Forget)?.observing(&self.inner.capabilities());
        let mut outcome = match what {
            Forget::Ids(ids) => self.forget_ids(&log, &ids).await,
            Forget::All => self.forget_all(&log).await,
            _ => Err(Error::unsupported(Op::Forget.as_str(), self.inner.name())),
        }?;
        outcome.drift = log.changes();
        Ok(outcome)
    }

    async fn forget_ids(&self, log: &Log<'_>, ids: &[FactId]) -> Result<ForgetOutcome> {
        for _ in 0..ATTEMPTS {
            let seen = log.head().await?;
            let (ours, strange): (Vec<&FactId>, Vec<&FactId>) =
                ids.iter().partition(|id| digest::is_digest(id));
            let mut not_found: BTreeSet<&FactId> = strange.into_iter().collect();
            let digests: Vec<&str> = ours.iter().map(|id| id.as_str()).collect();
            let mut found = Vec::new();
            for (id, turn) in ours.iter().zip(changes::named(log, &digests).await?) {
                match turn {
                    Some(turn) => found.push(turn.entry),
                    None => drop(not_found.insert(id)),
                }
            }
            let mut outcome = ForgetOutcome::new(u64::try_from(found.len()).ok());
            outcome.not_found = ids.iter().filter(|id| not_found.contains(id)).cloned().collect();
            if found.is_empty() {
                return Ok(outcome);
            }
            let named: BTreeSet<u64> =
                found.iter().map(|entry| keys::number(&entry.key)).collect::<Result<_>>()?;
            if self.bury(log, &seen, found, &|number| named.contains(&number), &mut outcome).await? {
                return Ok(outcome);
            }
        }
        Err(contended())
    }

    /// Forgets what was named, and what was derived only from `gone` turns, in one transaction. Returns false if
    /// another writer was first.
    async fn bury(
        &self,
        log: &Log<'_>,
        seen: &SeenHead,
        found: Vec<Entry>,
        gone: &(dyn Fn(u64) -> bool + Sync),
        outcome: &mut ForgetOutcome,
    ) -> Result<bool> {
        let (mut items, numbers) = self.burial(log, found, gone, None).await?;
        if items.is_empty() {
            return Ok(true);
        }
        outcome.forgotten = u64::try_from(numbers.len()).ok();
        let mut head = seen.then(seen.next(), || self.epoch());
        items.extend(log.forgot(numbers, &mut head, || self.epoch()).await?);
        items.push(seen.moved_to(&head)?);
        if log.write(items, NO_QUOTA).await?.is_none() {
            self.after_conflict(log, seen).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// The writes that forget what was named and what was derived only from `gone` turns, and the numbers of all of
    /// these. The digest `kept` continues with another turn.
    pub(crate) async fn burial(
        &self,
        log: &Log<'_>,
        mut found: Vec<Entry>,
        gone: &(dyn Fn(u64) -> bool + Sync),
        kept: Option<&String>,
    ) -> Result<(Vec<NewEntry>, Vec<u64>)> {
        let progress = log.progress().await?;
        let (mut items, mut dropped) = (Vec::new(), BTreeSet::new());
        if let Some((version, mut progress)) = progress {
            for mut standing in self.standing_on(log, gone).await? {
                // One that was named itself.
                if found.iter().any(|entry| entry.key == standing.entry.key) {
                    continue;
                }
                let Some(derived) = &mut standing.turn.derived else { continue };
                derived.sources.retain(|source| !gone(source.n));
                if derived.sources.is_empty() {
                    dropped.insert(standing.number);
                    found.push(standing.entry);
                } else {
                    items.push(standing.rewritten()?);
                }
            }
            if progress.forget(gone) {
                items.push(progress.written(Some(version))?);
            }
        }
        let numbers: Vec<u64> = found.iter().map(|entry| keys::number(&entry.key)).collect::<Result<_>>()?;
        let dropped = |number| dropped.contains(&number);
        items.extend(buried(log, &found, &dropped, kept).await?);
        Ok((items, numbers))
    }

    /// Forgets everything that existed when it began, in batches. Each begins an epoch, so that every reader starts
    /// over.
    async fn forget_all(&self, log: &Log<'_>) -> Result<ForgetOutcome> {
        let end = log.head().await?.next();
        let (mut from, mut forgotten, mut attempts) = (0, 0_u64, 0);
        loop {
            match self.forget_batch(log, from, end).await {
                Ok(Batch::Done { turns, next }) => {
                    (from, forgotten, attempts) = (next, forgotten.saturating_add(turns), 0);
                }
                Ok(Batch::Nothing) => {
                    self.cache.drop_scope(log.scope);
                    return Ok(ForgetOutcome::new(Some(forgotten)));
                }
                Ok(Batch::Contended) if attempts < ATTEMPTS => attempts += 1,
                Ok(Batch::Contended) if forgotten == 0 => return Err(contended()),
                Ok(Batch::Contended) => return Err(partly(forgotten, contended())),
                Err(error) if forgotten == 0 => return Err(error),
                Err(error) => return Err(partly(forgotten, error)),
            }
        }
    }

    async fn forget_batch(&self, log: &Log<'_>, from: u64, end: u64) -> Result<Batch> {
        let seen = log.head().await?;
        let mut page = log.page(from, BATCH).await?;
        // Entries with other keys than records, and unreadable ones, go too: nothing else would remove them.
        let is_gone = |entry: &Entry| matches!(record::read(entry), Ok(Record::Gone));
        page.retain(|entry| keys::number(&entry.key).map_or(!is_gone(entry), |number| number < end));
        if page.is_empty() {
            // Facts derived in the meantime from turns that are forgotten now.
            let mut outcome = ForgetOutcome::new(Some(0));
            let buried = self.bury(log, &seen, Vec::new(), &|number| number < end, &mut outcome).await?;
            return Ok(match outcome.forgotten {
                _ if !buried => Batch::Contended,
                Some(turns @ 1..) => Batch::Done { turns, next: end },
                _ => Batch::Nothing,
            });
        }
        let numbers = page.iter().filter_map(|entry| keys::number(&entry.key).ok());
        let next = numbers.max().map_or(from, |last| last.saturating_add(1));
        let turns = page.iter().filter(|entry| matches!(record::read(entry), Ok(Record::Turn(_)))).count();
        let mut items = buried(log, &page, &|_| true, None).await?;
        if let Some((version, mut progress)) = log.progress().await?
            && progress.forget(&|number| number < end)
        {
            items.push(progress.written(Some(version))?);
        }
        let head = Head { epoch: self.epoch(), ..seen.then(seen.next(), String::new) };
        items.push(seen.moved_to(&head)?);
        Ok(match log.write(items, NO_QUOTA).await? {
            Some(()) => Batch::Done { turns: u64::try_from(turns).unwrap_or(u64::MAX), next },
            None => Batch::Contended,
        })
    }
}

/// The result of a batch.
enum Batch {
    /// This many turns are forgotten, and every record before `next`.
    Done { turns: u64, next: u64 },
    /// There was nothing left.
    Nothing,
    /// Another writer was first.
    Contended,
}

fn partly(forgotten: u64, error: Error) -> Error {
    Error::outcome_unknown(format!("{forgotten} facts are forgotten, and the rest may not be; forget again"))
        .with_retry(Retry::Now)
        .with_source(error)
}

/// The writes that reduce these records to digests.
///
/// For a message with its own id, the digest of its content is kept as well, unless another message is known by that.
/// For a derived fact that is `dropped` with its turns, the digest says so: if they are added again, it may be derived
/// again.
async fn buried(
    log: &Log<'_>,
    entries: &[Entry],
    dropped: &(dyn Fn(u64) -> bool + Sync),
    kept: Option<&String>,
) -> Result<Vec<NewEntry>> {
    let mut items = Vec::with_capacity(entries.len() * 2);
    let (mut ids, mut contents) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries {
        items.push(gone(entry)?);
        let Ok(Record::Turn(turn)) = record::read(entry) else { continue };
        // Different words of the same message replace `kept`, so its own are not forgotten.
        if turn.derived.is_none() && kept != Some(&turn.id) {
            contents.insert(digest::of_parts(
                log.scope,
                turn.role,
                turn.speaker.as_deref(),
                turn.at,
                &turn.text,
                turn.caption.as_deref(),
            ));
        } else if turn.derived.is_some() && dropped(keys::number(&entry.key)?) {
            let dropped = record::written(&Known { dropped: true, ..Known::default() })?;
            items.push(item(keys::id(&turn.id)?, dropped, Expect::Any, Ttl::Never)?);
            continue;
        }
        if kept != Some(&turn.id) {
            ids.insert(turn.id);
        }
    }
    let contents: Vec<&str> = contents.difference(&ids).map(String::as_str).collect();
    let known = log.known(&contents).await?;
    let unknown =
        contents.iter().zip(known).filter(|(_, known)| known.is_none()).map(|(content, _)| *content);
    let digests: Vec<&str> = ids.iter().map(String::as_str).chain(unknown).collect();
    let mut forgotten = Forgotten::of(log, &digests).await?;
    digests.iter().for_each(|digest| forgotten.add(digest));
    items.extend(forgotten.writes()?);
    let tombstone = record::written(&Known::default())?;
    for id in &ids {
        items.push(item(keys::id(id)?, tombstone.clone(), Expect::Any, SOON)?);
    }
    Ok(items)
}
