//! Erasing: deletes entries, writes the tombstone, and scrubs the file. Specified in `docs/spec/forget.md`.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use memory_core::{
    EraseTarget, Erased, Error, Result, Retry, Scope, ScopeDigest, TenantId, Tombstone, TombstoneId,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::tombstones::put;
use crate::commit::batch::Batch;
use crate::commit::scope::{Space, Target};
use crate::commit::store::Store;
use crate::commit::writer::Cost;
use crate::error::{Fault, engine};
use crate::file::column::scope;
use crate::file::open::Role;
use crate::kv::sweep;
use crate::search::Caches;

/// Largest file to rebuild, in bytes. Writers wait meanwhile.
const REBUILT_BYTES: u64 = 1 << 30;
/// How long to wait for readers of the log.
const PATIENCE: Duration = Duration::from_secs(2);
/// Erased rows that caches may still hold.
struct Gone {
    digest: ScopeDigest,
    space: i64,
    key: Option<String>,
}

/// Deletes the entries and writes the tombstone, in one transaction.
pub(crate) fn entries(store: &Store, caches: &Caches, target: &EraseTarget) -> Result<Erased> {
    let _one = store.erasing.lock().unwrap_or_else(PoisonError::into_inner);
    let target = target.clone();
    let (erased, gone) = store.writer.submit_blocking(Cost::slow(0), move |batch| {
        let mut gone = Vec::new();
        delete(batch, &target, &mut gone).map(|erased| (erased, gone))
    })?;
    for Gone { digest, space, key } in gone {
        store.accesses.forget(space, key.as_deref());
        if key.is_none() {
            caches.forget(&digest);
        }
    }
    Ok(erased)
}

fn delete(batch: &mut Batch<'_>, target: &EraseTarget, gone: &mut Vec<Gone>) -> Result<Erased, Fault> {
    let now = batch.now();
    let id = TombstoneId::of(target);
    let (mut scopes, mut entries, mut version) = (0, 0, 0);
    match target {
        EraseTarget::Tenant(tenant) => {
            for scope in scopes_of(batch, tenant)? {
                let of_scope = TombstoneId::of(&EraseTarget::Scope(scope.clone()));
                let (there, held, highest) = take_scope(batch, &Target::of(&scope), gone)?;
                put(batch, Tombstone { id: of_scope, at: now, version: highest })?;
                scopes += u64::from(there);
                entries += held;
                version = version.max(highest);
            }
        }
        EraseTarget::Scope(scope) => {
            let (there, held, highest) = take_scope(batch, &Target::of(scope), gone)?;
            (scopes, entries, version) = (u64::from(there), held, highest);
        }
        EraseTarget::Key { scope, key } => {
            let target = Target::of(scope);
            let mut space = batch.space(&target.digest)?;
            if let Some(old) = batch.old(&space, key)? {
                batch.remove(&target, &mut space, key, &old)?;
                batch.keep(&target.digest, space);
                entries = 1;
                let key = Some(key.as_str().to_owned());
                gone.push(Gone { digest: target.digest, space: space.id, key });
            }
            version = space.version;
        }
        _ => return Err(Error::unsupported("erase", "sqlite").into()),
    }
    let tombstone = put(batch, Tombstone { id, at: now, version })?;
    let mut erased = Erased::new(tombstone);
    (erased.scopes, erased.entries) = (scopes, entries);
    Ok(erased)
}

/// Removes a scope's row, which hides its entries. Returns whether the row existed, its number of entries and its
/// highest version.
fn take_scope(
    batch: &mut Batch<'_>,
    target: &Target,
    gone: &mut Vec<Gone>,
) -> Result<(bool, u64, u64), Fault> {
    let space = batch.space(&target.digest)?;
    if space.id == 0 {
        return Ok((false, 0, space.version));
    }
    batch.statement("INSERT OR IGNORE INTO garbage (space) VALUES (?1)")?.execute([space.id])?;
    batch.statement("DELETE FROM scope WHERE digest = ?1")?.execute([target.digest.as_bytes()])?;
    batch.leaves_garbage();
    batch.wrote(3);
    gone.push(Gone { digest: target.digest, space: space.id, key: None });
    let left = Space { version: space.version, floor: space.version, ..Space::default() };
    batch.keep(&target.digest, left);
    Ok((true, space.entries, space.version))
}

fn scopes_of(batch: &Batch<'_>, tenant: &TenantId) -> Result<Vec<Scope>, Fault> {
    let mut statement = batch.statement("SELECT kind, name FROM scope WHERE tenant = ?1")?;
    let mut rows = statement.query([tenant.as_str()])?;
    let mut scopes = Vec::new();
    while let Some(row) = rows.next()? {
        scopes.push(scope(tenant.as_str().to_owned(), row.get(0)?, row.get(1)?)?);
    }
    Ok(scopes)
}

/// The error to report once the entries have been erased.
pub(crate) fn entries_only(error: Error) -> Error {
    Error::outcome_unknown(
        "the entries are erased, but not every SQL database, and the file was not scrubbed; erase again to complete it",
    )
    .with_retry(Retry::Now)
    .with_source(error)
}

/// What remains after cleaning failed.
pub(crate) fn unclean(error: &Error) -> Vec<String> {
    tracing::warn!(%error, "the file was not scrubbed after an erasure");
    vec![
        "the file was not scrubbed, since another process kept it locked or it could not be written, and may still contain \
         what was erased; erase again"
            .to_owned(),
    ]
}

/// Removes what erasing entries and databases leaves in the file: see [`names`] and [`scrub`].
pub(crate) fn clean(store: &Store, target: &EraseTarget) -> Result<Vec<String>> {
    names(store, target)?;
    scrub(store)
}

/// Clears the names of ended runs, which were kept until their databases were gone.
fn names(store: &Store, target: &EraseTarget) -> Result<()> {
    let (tenant, digest) = match target {
        EraseTarget::Tenant(tenant) => (tenant.clone(), None),
        EraseTarget::Scope(scope) => (scope.tenant.clone(), Some(scope.digest())),
        _ => return Ok(()),
    };
    store.writer.submit_blocking(Cost::slow(0), move |batch| {
        let changed = batch
            .statement(
                "UPDATE ended SET leaving = 0, tenant = NULL, name = NULL WHERE tenant = ?1 \
                 AND digest = coalesce(?2, digest)",
            )?
            .execute(params![tenant.as_str(), digest.as_ref().map(|digest| digest.as_bytes().as_slice())])?;
        batch.wrote(changed);
        Ok(())
    })
}

/// Deletes dropped rows, rebuilds the file and empties the log (FGT-20, FGT-22). Returns a message for each thing
/// that could not be cleaned.
fn scrub(store: &Store) -> Result<Vec<String>> {
    let _one = store.erasing.lock().unwrap_or_else(PoisonError::into_inner);
    sweep::garbage(&store.writer)?;
    let mut remains = Vec::new();
    let (Some(path), Some(connection)) = (store.database(), store.connect_as(Role::Writer)?) else {
        return Ok(remains);
    };
    let bytes = std::fs::symlink_metadata(path).map_or(0, |found| found.len());
    if bytes <= REBUILT_BYTES {
        // Gaps in a page may contain content overwritten by an update long ago.
        store
            .writer
            .run_first("rebuilding the file", || {
                connection.busy_timeout(store.config.busy_timeout())?;
                connection.execute_batch("PRAGMA temp_store = FILE; VACUUM")
            })
            .map_err(engine)?;
    } else {
        sweep::vacuum(&store.writer, 0)?;
        remains.push(
            "the database file is over 1 GiB and was not rebuilt: gaps in its pages may still contain data overwritten \
             earlier; run VACUUM on it when nobody writes"
                .to_owned(),
        );
    }
    if !empty_log(store, &connection)? {
        remains.push(
            "a reader prevented emptying the database's log; erase again when it has finished".to_owned(),
        );
    }
    Ok(remains)
}

/// Moves the log into the file and truncates it; false if a reader prevents it for too long.
fn empty_log(store: &Store, connection: &Connection) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let busy = store
            .writer
            .run_first("emptying the log", || {
                connection.busy_timeout(PATIENCE / 8)?;
                connection
                    .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
                    .optional()
            })
            .map_err(engine)?;
        if busy == Some(0) {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
