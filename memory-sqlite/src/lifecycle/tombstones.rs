//! Tombstones: what was forgotten, and when.

use memory_core::{
    Key, NameDigest, Result, Scope, ScopeDigest, Timestamp, Tombstone, TombstoneId, TombstonesOf,
};
use rusqlite::{Connection, params};

use crate::commit::batch::Batch;
use crate::error::{Fault, Unreadable, malformed};
use crate::file::column::{signed, time, unsigned};

/// Digest that stands for a whole tenant or scope.
const ALL: &[u8] = &[];

/// Whether a scope, or a key in it, was forgotten at this time or later.
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

/// Adds a tombstone; of two, the later time and the higher version win.
pub(crate) fn put(batch: &mut Batch<'_>, tombstone: Tombstone) -> Result<Tombstone, Fault> {
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
    Ok(Tombstone { id: tombstone.id, at: time(at)?, version: unsigned(version, "version")? })
}

/// Adds tombstones, as a restore does; their used-up versions are never assigned again (FGT-12).
pub(crate) fn put_all(batch: &mut Batch<'_>, tombstones: &[Tombstone]) -> Result<(), Fault> {
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

/// Lists tombstones in order, a page at a time (FGT-11).
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
            at: time(row.get(3)?)?,
            version: unsigned(row.get(4)?, "version")?,
        });
    }
    Ok(tombstones)
}
