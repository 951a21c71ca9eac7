//! When scopes were used. What is stored of it is never the slack behind, whatever dies: a use within the granularity of
//! what is stored is not noted, one within the slack is held in memory, one beyond it is written before it is answered.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::{Result, ScopeDigest};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::batch::{Batch, Fault};
use crate::row::Unreadable;
use crate::sql::two_ages::TwoAges;
use crate::writer::{Cost, Writer};

/// The slack is so many times the granularity.
const SLACK: i64 = 10;
/// Memory for what is known of scopes: some 80,000.
const KNOWN_BYTES: usize = 8 << 20;
const KNOWN_WEIGHT: usize = 104;
/// Scopes of one step of a flush.
const FLUSH: usize = 512;

/// What became of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It need not be written now.
    Done,
    /// It is held, and many are: they should be written.
    Full,
    /// What is stored is not known, or too old.
    Ask,
}

/// What a row says of the use of its scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredUse {
    pub(crate) used_at: i64,
    /// The intent to remove its database; 0: none.
    pub(crate) leaving: i64,
}

/// A run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedRun {
    pub(crate) at: i64,
    pub(crate) leaving: i64,
}

/// Uses that are held, and what is known to be stored.
#[derive(Debug)]
pub(crate) struct Uses {
    known: Mutex<Known>,
    granularity: i64,
    slack: i64,
    most: usize,
    /// Scopes without a moment of their own were used then.
    tracked_since: i64,
}

#[derive(Debug)]
struct Known {
    stored: TwoAges<ScopeDigest, i64>,
    held: HashMap<ScopeDigest, i64>,
}

impl Uses {
    pub(crate) fn new(config: &crate::SqliteConfig, tracked_since: i64) -> Self {
        let granularity = i64::try_from(config.use_granularity_ms).unwrap_or(i64::MAX / SLACK);
        Self {
            known: Mutex::new(Known { stored: TwoAges::new(KNOWN_BYTES), held: HashMap::new() }),
            granularity,
            slack: granularity.saturating_mul(SLACK),
            most: config.access_entries,
            tracked_since,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn slack(&self) -> i64 {
        self.slack
    }

    /// A moment of a row, which may be from before uses were kept.
    pub(crate) fn at(&self, used_at: i64) -> i64 {
        used_at.max(self.tracked_since)
    }

    /// Notes a use.
    pub(crate) fn note(&self, digest: &ScopeDigest, now: i64) -> Noted {
        let mut known = self.lock();
        let Some(stored) = known.stored.get(digest) else { return Noted::Ask };
        if now < stored.saturating_add(self.granularity) {
            return Noted::Done;
        }
        if now >= stored.saturating_add(self.slack) {
            return Noted::Ask;
        }
        let many = known.held.len() >= self.most;
        if let Some(held) = known.held.get_mut(digest) {
            *held = now.max(*held);
            return Noted::Done;
        }
        if many {
            return Noted::Ask;
        }
        known.held.insert(*digest, now);
        if known.held.len() >= self.most { Noted::Full } else { Noted::Done }
    }

    /// Notes what is stored.
    pub(crate) fn learn(&self, digest: &ScopeDigest, stored: i64) {
        let mut known = self.lock();
        let stored = known.stored.get(digest).unwrap_or(i64::MIN).max(stored);
        known.stored.put(*digest, stored, KNOWN_WEIGHT);
        if known.held.get(digest).is_some_and(|held| *held <= stored) {
            known.held.remove(digest);
        }
    }

    /// Holds a use that could not be written.
    pub(crate) fn hold(&self, digest: &ScopeDigest, now: i64) {
        let mut known = self.lock();
        if known.held.len() < self.most {
            known.held.insert(*digest, now);
        }
    }

    /// The use of a scope that is held.
    pub(crate) fn held(&self, digest: &ScopeDigest) -> i64 {
        self.lock().held.get(digest).copied().unwrap_or_default()
    }

    /// What is held; one caller at a time, which tells what became of it.
    fn take(&self) -> Vec<(ScopeDigest, i64)> {
        self.lock().held.drain().collect()
    }
}

/// Writes the uses that are held.
pub(crate) fn flush(writer: &Writer, uses: &Uses) -> Result<()> {
    let taken = uses.take();
    for (at, step) in taken.chunks(FLUSH).enumerate() {
        let shares = step.to_vec();
        let written = writer.submit_blocking(Cost::slow(0), move |batch| {
            batch.wrote(shares.len());
            let touched = shares.iter().map(|(digest, used_at)| touch(batch, digest, *used_at));
            touched.collect::<Result<Vec<bool>, Fault>>()
        });
        let touched = match written {
            Ok(touched) => touched,
            Err(error) => {
                taken.iter().skip(at * FLUSH).for_each(|(digest, used_at)| uses.hold(digest, *used_at));
                return Err(error);
            }
        };
        for ((digest, used_at), _) in step.iter().zip(touched).filter(|(_, touched)| *touched) {
            uses.learn(digest, *used_at);
        }
    }
    Ok(())
}

/// Stores a use of a scope that has a row. False where it has none, or its database is to go: it is then not to be known
/// as fresh, or nobody would look for what is to be done.
pub(crate) fn touch(batch: &mut Batch<'_>, digest: &ScopeDigest, used_at: i64) -> Result<bool, Fault> {
    let mut space = batch.space(digest)?;
    if space.id != 0 && space.used_at < used_at {
        space.used_at = used_at;
        space.touch();
        batch.keep(digest, space);
    }
    Ok(space.id != 0 && space.leaving == 0)
}

/// What the row of a scope says.
pub(crate) fn stored(
    connection: &Connection,
    digest: &ScopeDigest,
) -> std::result::Result<Option<StoredUse>, Unreadable> {
    Ok(connection
        .prepare_cached("SELECT used_at, leaving FROM scope WHERE digest = ?1")?
        .query_row([digest.as_bytes()], |row| Ok(StoredUse { used_at: row.get(0)?, leaving: row.get(1)? }))
        .optional()?)
}

/// Whether and when a run ended.
pub(crate) fn ended(
    connection: &Connection,
    digest: &ScopeDigest,
) -> std::result::Result<Option<EndedRun>, Unreadable> {
    Ok(connection
        .prepare_cached("SELECT at, leaving FROM ended WHERE digest = ?1")?
        .query_row(params![digest.as_bytes()], |row| Ok(EndedRun { at: row.get(0)?, leaving: row.get(1)? }))
        .optional()?)
}
