//! Forgetting in a pair of stores: first the queued writes, then both stores.

use std::path::Path;

use memory_core::{
    EraseTarget, Erased, Error, Next, Reply, Request, Result, Tombstone, TombstoneId, TombstonesOf,
};
use rusqlite::params;

use super::journal::{Journal, failed};
use super::pair::Stores;
use super::record::Record;
use crate::memory::Memory;

impl Journal {
    /// Removes a target's queued writes, and every trace of them in the file. Returns how many were removed or
    /// shortened. The caller holds the turn.
    pub(super) fn erase(&self, target: &EraseTarget) -> Result<u64> {
        let changed = match target {
            EraseTarget::Tenant(tenant) => {
                self.execute("DELETE FROM waiting WHERE tenant = ?1", [tenant.as_str()])?
            }
            EraseTarget::Scope(scope) => {
                self.execute("DELETE FROM waiting WHERE scope = ?1", [scope.digest().as_bytes()])?
            }
            EraseTarget::Key { scope, key } => {
                let digest = scope.digest();
                let of_key = params![digest.as_bytes(), key.as_str()];
                self.execute("DELETE FROM written WHERE scope = ?1 AND key = ?2", of_key)?;
                let mut changed = 0;
                for (id, text) in self.rows_of(scope)? {
                    let record: Record = serde_json::from_str(&text).map_err(super::journal::unreadable)?;
                    if record.keys().all(|held| held != key) {
                        continue;
                    }
                    changed += 1;
                    match record.without(key) {
                        Some(left) => {
                            let text = serde_json::to_string(&left).map_err(|error| {
                                Error::internal("a write has no JSON form").with_source(error)
                            })?;
                            // An attempt's expectations covered all its keys, so they must be read again.
                            let sql = "UPDATE waiting SET record = ?2, bytes = length(CAST(?2 AS BLOB)), \
                                       expects = NULL, state = iif(state = 2, 1, state) WHERE id = ?1";
                            self.execute(sql, params![id, text]).map(drop)?;
                        }
                        None => self.remove(id)?,
                    }
                }
                changed
            }
            _ => return Err(Error::unsupported("erase", "the journal")),
        };
        // Versions of replayed keys matter only as long as their scope has queued writes.
        self.execute("DELETE FROM written WHERE scope NOT IN (SELECT scope FROM waiting)", [])?;
        let connection = self.lock();
        // Free pages and the log still contain erased data.
        connection.execute_batch("VACUUM").map_err(failed)?;
        let busy: i64 =
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
        if busy != 0 {
            return Err(Error::unavailable(
                "another process reads the journal, whose log could not be emptied; try again",
            ));
        }
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    fn rows_of(&self, scope: &memory_core::Scope) -> Result<Vec<(i64, String)>> {
        let connection = self.lock();
        let mut statement =
            connection.prepare("SELECT id, record FROM waiting WHERE scope = ?1").map_err(failed)?;
        let rows = statement
            .query_map([scope.digest().as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }
}

/// Removes a target's queued writes from an existing journal; returns how many.
///
/// # Errors
/// As [`journal_counts`](super::journal_counts).
pub fn erase_journaled(file: &Path, target: &EraseTarget) -> Result<u64> {
    let journal = Journal::existing(file)?;
    let _turn = journal.turn()?;
    journal.erase(target)
}

impl Stores {
    /// FGT-27. Queued writes go first; otherwise they would be replayed after the primary has forgotten.
    pub(super) async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        if let Some(journal) = &self.journal {
            let _turn = self.turn.lock().await;
            let _processes = journal.turn()?;
            journal.erase(target)?;
        }
        let request = || Request::Erase { target: target.clone() };
        let of_primary = self.primary.run(request()).await.map_err(Error::from);
        let of_fallback = Next::to(&self.fallback).run(request()).await;
        let (of_primary, of_fallback) = match (of_primary, of_fallback) {
            (Ok(primary), Ok(fallback)) => (taken(primary)?, taken(fallback)?),
            (Err(error), Ok(_)) => return Err(half("primary store", "fallback", error)),
            (Ok(_), Err(error)) => return Err(half("fallback", "primary store", error)),
            (Err(error), Err(_)) => return Err(error),
        };
        let mut erased = of_primary;
        erased.tombstone = erased.tombstone.merged(of_fallback.tombstone);
        erased.remains.extend(of_fallback.remains);
        Ok(erased)
    }

    pub(super) async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        let request = || Request::Bury { tombstones: tombstones.to_vec() };
        self.primary.run(request()).await?;
        Next::to(&self.fallback).run(request()).await.map(drop)
    }

    pub(super) async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        let memory: Memory = self.primary.get().await?;
        memory.tombstones(of, after, limit).await
    }
}

/// The error of the store that has not forgotten.
fn half(it: &str, other: &str, error: Error) -> Error {
    let message = format!(
        "{}; the {other} has forgotten, the {it} has not: forget again when it is back",
        error.message()
    );
    Error::outcome_unknown(message).with_retry(error.retry()).with_source(error)
}

fn taken(reply: Reply) -> Result<Erased> {
    match reply {
        Reply::Erase(erased) => Ok(erased),
        other => Err(Error::internal(format!("`erase` was answered as `{}`", other.op()))),
    }
}
