//! Forgetting: taking away, the tombstone, and judging copies. `docs/spec/forget.md` has the behaviours.
//!
//! An erasure holds a lock of its tenant for itself, whatever judges a copy shares it: so the one sees what the other did.

use std::collections::HashMap;

use memory_core::{
    EraseTarget, Erased, Error, NameDigest, Record, Result, Scope, ScopeKind, Taken, TenantId, Timestamp,
    Tombstone, TombstoneId, TombstonesOf,
};
use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Row};

use crate::connect::Transaction;
use crate::error::{Effect, malformed};
use crate::kv::row::{self, column, signed, unsigned};
use crate::kv::sweep;
use crate::kv::target::{Target, Value, kind_number};
use crate::store::Store;

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
const LOCK_SHARED: &str = "SELECT pg_advisory_xact_lock_shared($1)";

/// A number for a tenant; two that share one wait for each other in vain.
fn lock_of(tenant: &NameDigest) -> i64 {
    let first = tenant.as_bytes().first_chunk::<8>().copied().unwrap_or_default();
    i64::from_be_bytes(first)
}

fn bytes(digest: Option<NameDigest>) -> Vec<u8> {
    digest.map_or_else(Vec::new, |digest| digest.as_bytes().to_vec())
}

/// What the store has forgotten of a scope, as long as the transaction that asked lasts.
pub(crate) struct Judge {
    scope: NameDigest,
    whole: Option<i64>,
    keys: HashMap<NameDigest, i64>,
}

impl Judge {
    /// Waits for an erasure of the tenant that is under way; none begins before the transaction has ended.
    pub(crate) async fn over(store: &Store, scope: &Scope, transaction: &Transaction<'_>) -> Result<Self> {
        let (tenant, digest) = (NameDigest::of_tenant(&scope.tenant), NameDigest::of_scope(scope));
        transaction.query(LOCK_SHARED, &[(&lock_of(&tenant), Type::INT8)]).await?;
        let (tenant, of_scope) = (bytes(Some(tenant)), bytes(Some(digest)));
        let sql = store.named(
            "SELECT t.key, t.at FROM @schema@.tombstone t WHERE t.tenant = $1 AND t.scope IN ('\\x'::bytea, $2)",
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

    /// Whether all of a copy of this moment is from before.
    pub(crate) fn covers(&self, moment: Timestamp) -> bool {
        self.whole.is_some_and(|at| moment.as_millis() <= at)
    }

    /// The records that are stored, each with its number among those given.
    pub(crate) fn take(&self, records: Vec<Record>, taken: Taken) -> (Vec<Record>, Vec<u64>) {
        let stays = |record: &Record| {
            let Some(moment) = taken.moment(record.entry.updated_at) else { return true };
            let of_key = || self.keys.get(&NameDigest::of_key(&self.scope, &record.entry.key));
            !self.covers(moment)
                && (self.keys.is_empty() || of_key().is_none_or(|at| moment.as_millis() > *at))
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

/// Takes the entries away and leaves the tombstone, in one transaction.
pub(crate) async fn entries(store: &Store, target: &EraseTarget) -> Result<Erased> {
    let mut connection = store.connections.take().await?;
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    match take_away(store, target, &transaction).await {
        Ok(erased) => transaction.commit().await.map(|()| erased),
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

/// When a scope was last used, for one that had no entries: with them it goes.
pub(crate) async fn last_use(store: &Store, scope: &Scope) -> Result<()> {
    let target = Target::of(scope);
    let texts = target.texts();
    let sql = store.named(
        "WITH gone AS (DELETE FROM @schema@.scope_use u WHERE u.mark = @schema@.scope_mark($1, $2, $3) RETURNING 1) \
         SELECT count(*) FROM gone",
    );
    store.write(&sql, &target.values(&texts)).await.map(drop)
}

async fn take_away(store: &Store, target: &EraseTarget, transaction: &Transaction<'_>) -> Result<Erased> {
    let id = TombstoneId::of(target);
    transaction.query(LOCK, &[(&lock_of(&id.tenant), Type::INT8)]).await?;
    let now = now(store, transaction).await?;
    let (mut scopes, mut entries, mut version) = (0, 0, 0);
    match target {
        EraseTarget::Tenant(tenant) => {
            for scope in scopes_of(store, tenant, transaction).await? {
                let (found, held, highest) = erase_scope(store, &scope, transaction).await?;
                let of_scope = TombstoneId::of(&EraseTarget::Scope(scope));
                put(store, Tombstone { id: of_scope, at: now, version: highest }, transaction).await?;
                scopes += u64::from(found);
                entries += held;
                version = version.max(highest);
            }
        }
        EraseTarget::Scope(scope) => {
            let (found, held, highest) = erase_scope(store, scope, transaction).await?;
            (scopes, entries, version) = (u64::from(found), held, highest);
        }
        EraseTarget::Key { scope, key } => {
            let target = Target::of(scope);
            let texts = target.texts();
            let (at, name, any) = (store.time.parameter(), key.as_str(), 0_i16);
            let (no_version, no_sum): (Option<i64>, Option<Vec<u8>>) = (None, None);
            let mut values = Vec::with_capacity(8);
            values.extend(target.values(&texts));
            let own: [Value<'_>; 5] = [
                (&at, Type::INT8),
                (&name, Type::TEXT),
                (&any, Type::INT2),
                (&no_version, Type::INT8),
                (&no_sum, Type::BYTEA),
            ];
            values.extend(own);
            let rows = transaction.query(&store.statements.delete, &values).await?;
            let row = rows.first().ok_or_else(|| malformed("outcome"))?;
            entries = u64::from(column::<i16>(row, 0, "outcome")? == 0);
        }
        _ => return Err(Error::unsupported("erase", "postgres")),
    }
    let tombstone = put(store, Tombstone { id, at: now, version }, transaction).await?;
    let mut erased = Erased::new(tombstone);
    (erased.scopes, erased.entries) = (scopes, entries);
    Ok(erased)
}

async fn now(store: &Store, transaction: &Transaction<'_>) -> Result<Timestamp> {
    let sql = store.named("SELECT coalesce($1, @schema@.now_ms())");
    let rows = transaction.query(&sql, &[(&store.time.parameter(), Type::INT8)]).await?;
    row::time(column(rows.first().ok_or_else(|| malformed("time"))?, 0, "time")?)
}

async fn scopes_of(store: &Store, tenant: &TenantId, transaction: &Transaction<'_>) -> Result<Vec<Scope>> {
    let sql = store.named("SELECT s.kind, s.name FROM @schema@.scope s WHERE s.tenant = $1 ORDER BY 1, 2");
    let rows = transaction.query(&sql, &[(&tenant.as_str(), Type::TEXT)]).await?;
    rows.iter()
        .map(|row| {
            let kind: i16 = column(row, 0, "scope")?;
            let kind = [ScopeKind::Agent, ScopeKind::User, ScopeKind::Run]
                .into_iter()
                .find(|known| kind_number(*known) == kind)
                .ok_or_else(|| malformed("scope"))?;
            let id = memory_core::ScopeId::new(column::<&str>(row, 1, "scope")?)
                .map_err(|_| malformed("scope"))?;
            Ok(Scope::new(tenant.clone(), kind, id))
        })
        .collect()
}

async fn erase_scope(
    store: &Store,
    scope: &Scope,
    transaction: &Transaction<'_>,
) -> Result<(bool, u64, u64)> {
    let target = Target::of(scope);
    let texts = target.texts();
    let sql = store.named("SELECT * FROM @schema@.erase_scope($1, $2, $3)");
    let rows = transaction.query(&sql, &target.values(&texts)).await?;
    let row = rows.first().ok_or_else(|| malformed("outcome"))?;
    Ok((column(row, 0, "outcome")?, unsigned(row, 1, "count")?, unsigned(row, 2, "version")?))
}

async fn put(store: &Store, tombstone: Tombstone, transaction: &Transaction<'_>) -> Result<Tombstone> {
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
    Ok(Tombstone { id, at: row::time(column(row, 0, "time")?)?, version: unsigned(row, 1, "version")? })
}

/// FGT-12.
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

/// FGT-11.
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
         WHERE (t.tenant, t.scope, t.key) > ($1, $2, $3) AND ($4 = '\\x'::bytea OR t.tenant = $4) \
         AND ($5 = '\\x'::bytea OR t.scope IN ('\\x'::bytea, $5)) ORDER BY 1, 2, 3 LIMIT $6",
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
        at: row::time(column(row, 3, "time")?)?,
        version: unsigned(row, 4, "version")?,
    })
}

/// Tables in whose pages something of an erased scope may lie.
const TABLES: [&str; 5] = ["entry", "vector", "scope", "garbage", "scope_use"];

/// The server lets only these roles vacuum a table, and tells others so in a notice, not in an error.
const MAY_VACUUM: &str = "SELECT t.name, pg_has_role(c.relowner, 'USAGE') OR pg_has_role(d.datdba, 'USAGE') \
     OR CASE WHEN current_setting('server_version_num')::int < 170000 THEN false \
        ELSE has_table_privilege(c.oid, 'MAINTAIN') END \
     FROM unnest($1) t(name) JOIN pg_class c ON c.oid = ('@schema@.' || t.name)::regclass \
     JOIN pg_database d ON d.datname = current_database()";

/// Deletes what is out of sight and lets the server overwrite it. What is left until later, in words.
pub(crate) async fn scrub(store: &Store) -> Result<Vec<String>> {
    sweep::sweep(store).await?;
    let mut remains = vec![
        "the server's write-ahead log, its standbys and base backups hold it until they are rotated; pages that were \
         vacuumed are overwritten as they are used again"
            .to_owned(),
    ];
    let connection = store.connections.take().await?;
    let tables = TABLES.to_vec();
    let values: [Value<'_>; 1] = [(&tables, Type::TEXT_ARRAY)];
    let rows = connection.query(&store.named(MAY_VACUUM), &values, Effect::None).await?;
    let mut left = Vec::new();
    for row in &rows {
        let (table, may): (&str, bool) = (column(row, 0, "table")?, column(row, 1, "right")?);
        let table = store.named(&format!("@schema@.{table}"));
        if !may || connection.batch(&format!("VACUUM {table}"), Effect::None).await.is_err() {
            left.push(table);
        }
    }
    if !left.is_empty() {
        remains.push(format!(
            "pages of tables that this role could not vacuum hold it until the server does so by itself; their owner runs \
             `VACUUM {}`",
            left.join(", ")
        ));
    }
    Ok(remains)
}
