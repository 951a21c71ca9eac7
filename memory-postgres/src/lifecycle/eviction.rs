//! Eviction of scopes, the end of runs, and the removal of their SQL databases.

use memory_core::{EvictOutcome, Kept, Reclaimed, Result, Scope, ScopeId, TenantId, Timestamp};
use tokio_postgres::types::Type;

use crate::error::{Effect, malformed};
use crate::kv::expiry;
use crate::store::Store;
use crate::store::columns::{column, signed, unsigned};
use crate::store::hex::Hex;
use crate::store::parameters::Value;
use crate::store::scope_ref::ScopeRef;

/// GC-5 to GC-11: drops the entries of an unused scope. `database` is the name of its SQL database, if this process
/// serves SQL, and the token of its pending eviction.
pub(crate) async fn evict(
    store: &Store,
    scope: &Scope,
    unused_since: Timestamp,
    database: Option<(&Hex, Option<i64>)>,
) -> Result<EvictOutcome> {
    let target = ScopeRef::of(scope);
    let now = store.time.parameter();
    let (since, slack) = (unused_since.as_millis(), store.uses.slack());
    let held = store.uses.held_ago(&target.digest, store.uses.tick(&store.time));
    let (hex, token) = (database.map(|(hex, _)| hex.as_str()), database.and_then(|(_, token)| token));
    let values = target.parameters([
        (&now, Type::INT8),
        (&since, Type::INT8),
        (&held, Type::INT8),
        (&slack, Type::INT8),
        (&hex, Type::TEXT),
        (&token, Type::INT8),
    ]);
    let row = store.write(&store.statements.evict, &values).await?;
    match column::<i16>(&row, 0, "outcome")? {
        0 => Ok(EvictOutcome::Evicted { bytes: unsigned(&row, 1, "size")? }),
        1 => Ok(EvictOutcome::Kept(Kept::Absent)),
        2 => {
            let last_used_at = Timestamp::from_millis_clamped(column(&row, 2, "use")?);
            Ok(EvictOutcome::Kept(Kept::Used { last_used_at }))
        }
        3 => Ok(EvictOutcome::Kept(Kept::InUse)),
        _ => Err(malformed("outcome")),
    }
}

/// SCO-5, RUN-1: ends a run. `token` is that of its database's pending eviction.
pub(crate) async fn end_run(store: &Store, scope: &Scope, fence: bool, token: Option<i64>) -> Result<()> {
    let target = ScopeRef::of(scope);
    let now = store.time.parameter();
    let hex = Hex::of_digest(&target.digest);
    let (hex, fence) = (hex.as_str(), fence && store.config.run_fence_ms > 0);
    let values = target.parameters([
        (&now, Type::INT8),
        (&fence, Type::BOOL),
        (&hex, Type::TEXT),
        (&token, Type::INT8),
    ]);
    store.write(&store.statements.run_end, &values).await.map(drop)
}

/// Whether a run has ended.
pub(crate) async fn is_ended(store: &Store, tenant: &TenantId, run: &ScopeId) -> Result<bool> {
    let (tenant, run) = (tenant.as_str(), run.as_str());
    let connection = store.connections.read().await?;
    let values: [Value<'_>; 2] = [(&tenant, Type::TEXT), (&run, Type::TEXT)];
    column(&connection.query_one(&store.statements.is_ended, &values, Effect::None).await?, 0, "state")
}

/// Settles an undecided eviction: the database stays. Returns true if it was evicted already.
pub(crate) async fn goes(store: &Store, hex: &Hex, token: i64) -> Result<bool> {
    let (hex, now) = (hex.as_str(), store.time.parameter());
    let values: [Value<'_>; 4] =
        [(&hex, Type::TEXT), (&token, Type::INT8), (&false, Type::BOOL), (&now, Type::INT8)];
    column(&store.write(&store.statements.settle_leaving, &values).await?, 0, "state")
}

/// The databases among these that are evicted, as far as decided.
pub(crate) async fn going(store: &Store, hexes: &[String]) -> Result<Vec<String>> {
    let connection = store.connections.read().await?;
    let rows = connection.query(&store.statements.goes, &[(&hexes, Type::TEXT_ARRAY)], Effect::None).await?;
    rows.iter().map(|row| column(row, 0, "state")).collect()
}

/// The tokens of a scope's evicted databases that may still exist.
pub(crate) async fn gone_of(store: &Store, hex: &Hex) -> Result<Vec<i64>> {
    let hex = hex.as_str();
    let connection = store.connections.read().await?;
    let rows = connection.query(&store.statements.gone_of, &[(&hex, Type::TEXT)], Effect::None).await?;
    rows.iter().map(|row| column(row, 0, "state")).collect()
}

/// Forgets an eviction whose database is gone.
pub(crate) async fn forget_leaving(store: &Store, hex: &Hex, token: i64) -> Result<()> {
    let hex = hex.as_str();
    let values: [Value<'_>; 2] = [(&hex, Type::TEXT), (&token, Type::INT8)];
    let connection = store.connections.take().await?;
    connection.query(&store.statements.forget_leaving, &values, Effect::Commits).await.map(drop)
}

/// GC-12: reclaims expired entries and run fences.
pub(crate) async fn reclaim(store: &Store) -> Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    reclaimed.expired = expiry::sweep(store).await?;
    reclaimed.fences = sweep_fences(store).await?;
    Ok(reclaimed)
}

/// Removes expired fences, and returns how many.
pub(crate) async fn sweep_fences(store: &Store) -> Result<u64> {
    let (now, fence) = (store.time.parameter(), signed(store.config.run_fence_ms));
    let row = store.write(&store.statements.sweep_uses, &[(&now, Type::INT8), (&fence, Type::INT8)]).await?;
    unsigned(&row, 0, "count")
}

/// A page of scopes without entries and without recent use, after a mark, with their SQL names.
pub(crate) async fn unused(store: &Store, after: &[u8], limit: i64) -> Result<Vec<(Vec<u8>, String)>> {
    let now = store.time.parameter();
    let values: [Value<'_>; 3] = [(&now, Type::INT8), (&after, Type::BYTEA), (&limit, Type::INT8)];
    let connection = store.connections.take().await?;
    let rows = connection.query(&store.statements.unused, &values, Effect::None).await?;
    rows.iter().map(|row| Ok((column(row, 0, "use")?, column(row, 1, "use")?))).collect()
}

/// Removes the last uses of these scopes.
pub(crate) async fn forget_uses(store: &Store, marks: &[Vec<u8>]) -> Result<()> {
    let now = store.time.parameter();
    let values: [Value<'_>; 2] = [(&now, Type::INT8), (&marks, Type::BYTEA_ARRAY)];
    store.write(&store.statements.forget_uses, &values).await.map(drop)
}

/// Whether any process serves agents' SQL with these entries. If this one does, it is recorded here.
pub(crate) async fn note_sql(store: &Store, serves: bool) -> Result<bool> {
    let connection = store.connections.take().await?;
    let row = connection.query_one(&store.statements.with_sql, &[], Effect::None).await?;
    let noted: bool = column(&row, 0, "state")?;
    if serves && !noted {
        let now = store.time.parameter();
        connection.query(&store.statements.note_sql, &[(&now, Type::INT8)], Effect::None).await?;
    }
    Ok(serves || noted)
}
