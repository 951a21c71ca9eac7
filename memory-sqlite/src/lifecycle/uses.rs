//! Stores when scopes were last used.

use memory_core::{Result, ScopeDigest};
use rusqlite::{Connection, OptionalExtension as _};

use crate::commit::batch::Batch;
use crate::commit::store::Store;
use crate::commit::uses::Uses;
use crate::commit::writer::{Cost, Writer};
use crate::error::{Fault, Unreadable};

/// Scopes per step of a flush.
const FLUSH: usize = 512;

/// The stored use of a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredUse {
    pub(crate) used_at: i64,
    /// The number of the intent to remove its database; 0 if there is none.
    pub(crate) intent: i64,
}

/// Records a use of a scope's entries, before they are read: a successful read therefore proves that the scope is
/// kept.
pub(crate) async fn note(store: &Store, digest: &ScopeDigest) -> Result<()> {
    if store.record_use(digest) {
        return Ok(());
    }
    let digest = *digest;
    let Some(row) = store.read(move |connection| stored(connection, &digest)).await? else {
        return Ok(());
    };
    if row.intent == 0 {
        store.uses.learn(&digest, store.uses.at(row.used_at));
        if store.record_use(&digest) {
            return Ok(());
        }
    }
    let now = store.clock.now().as_millis();
    let written = store.writer.submit(Cost::entry(0), move |batch| touch(batch, &digest, now)).await;
    match written {
        Ok(true) => store.uses.learn(&digest, now),
        Ok(false) => {}
        Err(error) => {
            tracing::debug!(%error, "the use of a scope is held, since it cannot be written");
            store.uses.hold(&digest, now);
        }
    }
    Ok(())
}

/// Writes the uses held in memory.
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

/// Stores a use of a scope that has a row. Returns false if it has none, or its database has an intent: such a
/// scope must not be cached as fresh, or nobody would process the intent.
pub(crate) fn touch(batch: &mut Batch<'_>, digest: &ScopeDigest, used_at: i64) -> Result<bool, Fault> {
    let mut space = batch.space(digest)?;
    if space.id != 0 && space.used_at < used_at {
        space.used_at = used_at;
        space.touch();
        batch.keep(digest, space);
    }
    Ok(space.id != 0 && space.intent == 0)
}

/// The stored use of a scope.
pub(crate) fn stored(connection: &Connection, digest: &ScopeDigest) -> Result<Option<StoredUse>, Unreadable> {
    Ok(connection
        .prepare_cached("SELECT used_at, leaving FROM scope WHERE digest = ?1")?
        .query_row([digest.as_bytes()], |row| Ok(StoredUse { used_at: row.get(0)?, intent: row.get(1)? }))
        .optional()?)
}
