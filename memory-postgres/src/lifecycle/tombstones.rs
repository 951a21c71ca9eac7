//! Tombstones: the record of an erasure, so that no copy brings the erased entries back.
//!
//! An erasure locks its tenant exclusively, and an import that checks tombstones shares the lock, so neither misses the
//! other's changes. `docs/spec/forget.md` has the behaviours.

use std::collections::HashMap;

use memory_core::{
    NameDigest, Record, Result, Scope, Taken, Timestamp, Tombstone, TombstoneId, TombstonesOf,
};
use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Row};

use crate::connect::Transaction;
use crate::error::{Effect, malformed};
use crate::store::Store;
use crate::store::columns::{column, signed, time, unsigned};
use crate::store::parameters::Value;

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";

const LOCK_SHARED: &str = "SELECT pg_advisory_xact_lock_shared($1)";

/// The number of a tenant's lock. Two tenants with the same number wait for each other needlessly.
fn lock_of(tenant: &NameDigest) -> i64 {
    let first = tenant.as_bytes().first_chunk::<8>().copied().unwrap_or_default();
    i64::from_be_bytes(first)
}

/// Takes the lock of a tenant for an erasure, until the transaction ends.
pub(super) async fn lock(tenant: &NameDigest, transaction: &Transaction<'_>) -> Result<()> {
    transaction.query(LOCK, &[(&lock_of(tenant), Type::INT8)]).await.map(drop)
}

fn bytes(digest: Option<NameDigest>) -> Vec<u8> {
    digest.map_or_else(Vec::new, |digest| digest.as_bytes().to_vec())
}

/// A scope's tombstones, valid until the end of the transaction that read them.
pub(crate) struct ScopeTombstones {
    scope: NameDigest,
    whole: Option<i64>,
    keys: HashMap<NameDigest, i64>,
}

impl ScopeTombstones {
    /// Reads them. Waits for an erasure of the tenant in progress; no other starts before the transaction ends.
    pub(crate) async fn over(store: &Store, scope: &Scope, transaction: &Transaction<'_>) -> Result<Self> {
        let (tenant, digest) = (NameDigest::of_tenant(&scope.tenant), NameDigest::of_scope(scope));
        transaction.query(LOCK_SHARED, &[(&lock_of(&tenant), Type::INT8)]).await?;
        let (tenant, of_scope) = (bytes(Some(tenant)), bytes(Some(digest)));
        let sql = store.named(
            "SELECT t.key, t.at FROM @schema@.tombstone t WHERE t.tenant = $1 AND t.scope IN (''::bytea, $2)",
        );
        let values: [Value<'_>; 2] = [(&tenant, Type::BYTEA), (&of_scope, Type::BYTEA)];
        let mut judge = Self { scope: digest, whole: None, keys: HashMap::new() };
        for row in transaction.query(&sql, &values).await? {
            let (key, at): (&[u8], i64) = (column(&row, 0, "tombstone")?, column(&row, 1, "tombstone")?);
            match digest_of(key)? {
                None => judge.whole = judge.whole.max(Some(at)),
                Some(key) => drop(judge.keys.insert(key, at)),
            }
        }
        Ok(judge)
    }

    /// Whether the whole scope was erased after this time.
    pub(crate) fn covers(&self, taken: Timestamp) -> bool {
        self.whole.is_some_and(|at| taken.as_millis() <= at)
    }

    /// The records that no tombstone covers, each with its index among those given.
    pub(crate) fn take(&self, records: Vec<Record>, taken: Taken) -> (Vec<Record>, Vec<u64>) {
        let stays = |record: &Record| {
            let Some(taken_at) = taken.taken_at(record.entry.updated_at) else { return true };
            let of_key = || self.keys.get(&NameDigest::of_key(&self.scope, &record.entry.key));
            !self.covers(taken_at)
                && (self.keys.is_empty() || of_key().is_none_or(|at| taken_at.as_millis() > *at))
        };
        (0_u64..).zip(records).filter(|(_, record)| stays(record)).map(|(at, record)| (record, at)).unzip()
    }
}

fn digest_of(bytes: &[u8]) -> Result<Option<NameDigest>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| malformed("tombstone"))?;
    Ok(Some(NameDigest::from_bytes(bytes)))
}

pub(super) async fn now(store: &Store, transaction: &Transaction<'_>) -> Result<Timestamp> {
    let sql = store.named("SELECT coalesce($1, @schema@.now_ms())");
    let rows = transaction.query(&sql, &[(&store.time.parameter(), Type::INT8)]).await?;
    time(column(rows.first().ok_or_else(|| malformed("time"))?, 0, "time")?)
}

pub(super) async fn put(
    store: &Store,
    tombstone: Tombstone,
    transaction: &Transaction<'_>,
) -> Result<Tombstone> {
    let Tombstone { id, at, version } = tombstone;
    let (tenant, scope, key) = (bytes(Some(id.tenant)), bytes(id.scope), bytes(id.key));
    let (at, version) = (at.as_millis(), signed(version));
    let values: [Value<'_>; 5] = [
        (&tenant, Type::BYTEA),
        (&scope, Type::BYTEA),
        (&key, Type::BYTEA),
        (&at, Type::INT8),
        (&version, Type::INT8),
    ];
    let sql = store.named("SELECT * FROM @schema@.bury($1, $2, $3, $4, $5)");
    let rows = transaction.query(&sql, &values).await?;
    let row = rows.first().ok_or_else(|| malformed("outcome"))?;
    Ok(Tombstone { id, at: time(column(row, 0, "time")?)?, version: unsigned(row, 1, "version")? })
}

/// FGT-12: adds tombstones of another store.
pub(crate) async fn bury(store: &Store, tombstones: &[Tombstone]) -> Result<()> {
    let mut connection = store.connections.take().await?;
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    let done = async {
        let now = now(store, &transaction).await?;
        for tombstone in tombstones {
            put(store, Tombstone { at: tombstone.at.min(now), ..*tombstone }, &transaction).await?;
        }
        Ok(())
    }
    .await;
    match done {
        Ok(()) => transaction.commit().await,
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

/// FGT-11: a page of tombstones.
pub(crate) async fn list(
    store: &Store,
    of: &TombstonesOf,
    after: Option<&TombstoneId>,
    limit: usize,
) -> Result<Vec<Tombstone>> {
    let (tenant, scope) = match of {
        TombstonesOf::Tenant(tenant) => (Some(NameDigest::of_tenant(tenant)), None),
        TombstonesOf::Scope(scope) => {
            (Some(NameDigest::of_tenant(&scope.tenant)), Some(NameDigest::of_scope(scope)))
        }
        _ => (None, None),
    };
    let last = (
        bytes(after.map(|after| after.tenant)),
        bytes(after.and_then(|after| after.scope)),
        bytes(after.and_then(|after| after.key)),
    );
    let (tenant, scope, limit) = (bytes(tenant), bytes(scope), signed(limit as u64));
    let values: [Value<'_>; 6] = [
        (&last.0, Type::BYTEA),
        (&last.1, Type::BYTEA),
        (&last.2, Type::BYTEA),
        (&tenant, Type::BYTEA),
        (&scope, Type::BYTEA),
        (&limit, Type::INT8),
    ];
    let sql = store.named(
        "SELECT t.tenant, t.scope, t.key, t.at, t.version FROM @schema@.tombstone t \
         WHERE (t.tenant, t.scope, t.key) > ($1, $2, $3) AND ($4 = ''::bytea OR t.tenant = $4) \
         AND ($5 = ''::bytea OR t.scope IN (''::bytea, $5)) ORDER BY 1, 2, 3 LIMIT $6",
    );
    let connection = store.connections.read().await?;
    let rows = connection.query(&sql, &values, Effect::None).await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Tombstone> {
    let digest = |at| digest_of(column(row, at, "tombstone")?);
    let tenant = digest(0)?.ok_or_else(|| malformed("tombstone"))?;
    Ok(Tombstone {
        id: TombstoneId { tenant, scope: digest(1)?, key: digest(2)? },
        at: time(column(row, 3, "time")?)?,
        version: unsigned(row, 4, "version")?,
    })
}
