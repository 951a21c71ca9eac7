//! Forgetting: taking away, the tombstone, and cleaning the file. `docs/spec/forget.md` has the behaviours.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use memory_core::scope::TenantId;
use memory_core::{
    EraseTarget, Erased, Error, Key, NameDigest, Result, Scope, ScopeDigest, ScopeId, ScopeKind, Timestamp,
    Tombstone, TombstoneId, TombstonesOf,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::batch::{Batch, Fault, Target};
use crate::error::{engine, malformed};
use crate::file::Role;
use crate::row::{self, Unreadable, signed};
use crate::space::Space;
use crate::store::Store;
use crate::sweep;
use crate::writer::Cost;

/// Largest file that is rebuilt, in bytes. Writers wait meanwhile.
const REBUILT_BYTES: u64 = 1 << 30;
/// How long readers of the log are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Stands for all of a tenant, or of a scope.
const ALL: &[u8] = &[];

/// The highest version that what was erased of a scope had; 0: nothing was.
pub(crate) fn version_of(connection: &Connection, scope: &ScopeDigest) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(version), 0) FROM tombstone WHERE scope = ?1")?
        .query_row([scope.as_bytes()], |row| row.get(0))
}

/// Whether a scope, or a key of it, was forgotten at this moment or later.
pub(crate) fn is_forgotten(
    connection: &Connection,
    scope: &Scope,
    key: Option<&Key>,
    moment: Timestamp,
) -> rusqlite::Result<bool> {
    let (tenant, scope) = (NameDigest::of_tenant(&scope.tenant), NameDigest::of_scope(scope));
    let key = key.map(|key| NameDigest::of_key(&scope, key));
    let key = key.as_ref().map_or(ALL, |key| key.as_bytes());
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM tombstone WHERE tenant = ?1 AND scope IN (x'', ?2) AND key IN (x'', ?3) \
             AND at >= ?4)",
        )?
        .query_row(params![tenant.as_bytes(), scope.as_bytes(), key, moment.as_millis()], |row| row.get(0))
}

/// What was in memory of what went.
struct Gone {
    digest: ScopeDigest,
    space: i64,
    key: Option<String>,
}

/// Takes the entries out of sight and leaves the tombstone, in one transaction.
pub(crate) fn entries(store: &Store, target: &EraseTarget) -> Result<Erased> {
    let _one = store.erasing.lock().unwrap_or_else(PoisonError::into_inner);
    overwrite(store, true)?;
    let target = target.clone();
    let (erased, gone) = store.writer.submit_blocking(Cost::slow(0), move |batch| {
        let mut gone = Vec::new();
        take_away(batch, &target, &mut gone).map(|erased| (erased, gone))
    })?;
    for Gone { digest, space, key } in gone {
        store.accesses.forget(space, key.as_deref());
        if key.is_none() {
            store.indexes.forget(&digest);
            store.matrices.forget(&digest);
        }
    }
    Ok(erased)
}

fn take_away(batch: &mut Batch<'_>, target: &EraseTarget, gone: &mut Vec<Gone>) -> Result<Erased, Fault> {
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

/// Takes a scope's row away, and its entries out of sight: whether it had held some, how many, the highest version.
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
        let kind = match row.get::<_, i64>(0)? {
            0 => ScopeKind::Agent,
            1 => ScopeKind::User,
            2 => ScopeKind::Run,
            _ => return Err(malformed("scope").into()),
        };
        let id = ScopeId::new(row.get::<_, String>(1)?).map_err(|_| malformed("scope"))?;
        scopes.push(Scope::new(tenant.clone(), kind, id));
    }
    Ok(scopes)
}

/// Takes the names of ended runs away that were kept until their databases were gone, which they are.
pub(crate) fn names(store: &Store, target: &EraseTarget) -> Result<()> {
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

/// Adds a tombstone; of two the later moment and the higher version stay.
fn put(batch: &mut Batch<'_>, tombstone: Tombstone) -> Result<Tombstone, Fault> {
    let Tombstone { id: TombstoneId { tenant, scope, key }, at, version } = tombstone;
    let bytes =
        |digest: &Option<NameDigest>| digest.map_or_else(Vec::new, |digest| digest.as_bytes().to_vec());
    let (at, version) = batch
        .statement(
            "INSERT INTO tombstone (tenant, scope, key, at, version) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (tenant, scope, key) DO UPDATE SET at = max(at, excluded.at), \
             version = max(version, excluded.version) RETURNING at, version",
        )?
        .query_row(
            params![tenant.as_bytes(), bytes(&scope), bytes(&key), at.as_millis(), signed(version)],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        )?;
    batch.wrote(2);
    Ok(Tombstone { id: tombstone.id, at: row::time(at)?, version: row::unsigned(version, "version")? })
}

/// FGT-12.
pub(crate) fn bury(batch: &mut Batch<'_>, tombstones: &[Tombstone]) -> Result<(), Fault> {
    let now = batch.now();
    for tombstone in tombstones {
        let version = tombstone.version.min(i64::MAX.unsigned_abs());
        put(batch, Tombstone { at: tombstone.at.min(now), version, ..*tombstone })?;
        let Some(scope) = tombstone.id.scope else { continue };
        let digest = ScopeDigest::from_bytes(*scope.as_bytes());
        let mut space = batch.space(&digest)?;
        if version > space.version {
            (space.version, space.floor) = (version, version);
            if space.id != 0 {
                space.touch();
            }
            batch.keep(&digest, space);
        }
    }
    Ok(())
}

/// FGT-11.
pub(crate) fn list(
    connection: &Connection,
    of: &TombstonesOf,
    after: Option<TombstoneId>,
    limit: usize,
) -> Result<Vec<Tombstone>, Unreadable> {
    let (tenant, scope) = match of {
        TombstonesOf::Tenant(tenant) => (Some(NameDigest::of_tenant(tenant)), None),
        TombstonesOf::Scope(scope) => {
            (Some(NameDigest::of_tenant(&scope.tenant)), Some(NameDigest::of_scope(scope)))
        }
        _ => (None, None),
    };
    let bytes =
        |digest: Option<NameDigest>| digest.map_or_else(Vec::new, |digest| digest.as_bytes().to_vec());
    let (last_tenant, last_scope, last_key) =
        after.map_or((None, None, None), |after| (Some(after.tenant), after.scope, after.key));
    let mut statement = connection.prepare_cached(match (tenant, scope) {
        (None, _) => {
            "SELECT tenant, scope, key, at, version FROM tombstone WHERE (tenant, scope, key) > (?1, ?2, ?3) \
             AND ?4 = x'' AND ?5 = x'' ORDER BY tenant, scope, key LIMIT ?6"
        }
        (Some(_), None) => {
            "SELECT tenant, scope, key, at, version FROM tombstone WHERE tenant = ?4 \
             AND (tenant, scope, key) > (?1, ?2, ?3) AND ?5 = x'' ORDER BY tenant, scope, key LIMIT ?6"
        }
        (Some(_), Some(_)) => {
            "SELECT tenant, scope, key, at, version FROM tombstone WHERE tenant = ?4 AND scope IN (x'', ?5) \
             AND (tenant, scope, key) > (?1, ?2, ?3) ORDER BY tenant, scope, key LIMIT ?6"
        }
    })?;
    let mut rows = statement.query(params![
        bytes(last_tenant),
        bytes(last_scope),
        bytes(last_key),
        bytes(tenant),
        bytes(scope),
        signed(limit as u64)
    ])?;
    let mut tombstones = Vec::new();
    while let Some(row) = rows.next()? {
        let digest = |at: usize| -> Result<Option<NameDigest>, Unreadable> {
            let bytes: Vec<u8> = row.get(at)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| malformed("tombstone"))?;
            Ok(Some(NameDigest::from_bytes(bytes)))
        };
        let tenant = digest(0)?.ok_or_else(|| malformed("tombstone"))?;
        tombstones.push(Tombstone {
            id: TombstoneId { tenant, scope: digest(1)?, key: digest(2)? },
            at: row::time(row.get(3)?)?,
            version: row::unsigned(row.get(4)?, "version")?,
        });
    }
    Ok(tombstones)
}

/// Whether what is deleted on the writing connection is overwritten with zeros.
fn overwrite(store: &Store, does: bool) -> Result<()> {
    let connection = store.writer.connection();
    let set = connection.pragma_update(None, "secure_delete", does).map_err(engine);
    store.writer.release(connection);
    set
}

/// FGT-20, FGT-22. Deletes what is out of sight, rebuilds the file, empties the log. What is left, in words.
pub(crate) fn scrub(store: &Store) -> Result<Vec<String>> {
    let _one = store.erasing.lock().unwrap_or_else(PoisonError::into_inner);
    overwrite(store, true)?;
    let scrubbed = scrub_overwriting(store);
    overwrite(store, false)?;
    scrubbed
}

fn scrub_overwriting(store: &Store) -> Result<Vec<String>> {
    sweep::garbage(&store.writer)?;
    let mut remains = Vec::new();
    let (Some(path), Some(connection)) = (store.database(), store.connect_as(Role::Writer)?) else {
        return Ok(remains);
    };
    let bytes = std::fs::symlink_metadata(path).map_or(0, |found| found.len());
    if bytes <= REBUILT_BYTES {
        // A page may hold in its gaps what an update wrote over long ago.
        store
            .writer
            .pause(|| {
                connection.busy_timeout(store.config.busy_timeout())?;
                connection.execute_batch("PRAGMA temp_store = FILE; VACUUM")
            })
            .map_err(engine)?;
    } else {
        sweep::free_pages(&store.writer)?;
        remains.push(
            "the database file is over 1 GiB and was not rebuilt: what was overwritten before may be left in gaps of its \
             pages; run VACUUM on it when nobody writes"
                .to_owned(),
        );
    }
    if !empty_log(store, &connection)? {
        remains.push(
            "a reader kept the log of the database from being emptied; erase again when it has ended"
                .to_owned(),
        );
    }
    Ok(remains)
}

/// Moves the log into the file and makes it empty; false where a reader is in the way for long.
fn empty_log(store: &Store, connection: &Connection) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let busy = store
            .writer
            .pause(|| {
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
