//! When scopes were used. The stored use lags behind the last one by less than the slack: a use within the granularity
//! of the stored one is dropped, one within the slack is held in memory, and a later one is written before the
//! operation.

use memory_core::{
    Cursor, Error, ErrorKind, Result, Retry, Scope, ScopeId, ScopeKind, ScopeUse, ScopeUsesPage,
    ScopeUsesQuery, TenantId, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::{Effect, malformed};
use crate::store::Store;
use crate::store::columns::{column, signed, unsigned};
use crate::store::hex::Hex;
use crate::store::parameters::Value;
use crate::store::scope_ref::{ScopeRef, kind_number, kind_of};

/// Records a use of a scope's entries, before the operation: so no scope is evicted while it is read, and no write is
/// newer than its stored use.
pub(crate) async fn used(store: &Store, target: &ScopeRef, writes: bool) -> Result<()> {
    note(store, target, writes, writes).await.map(drop)
}

/// Records a use of a scope's database, independent of its entries. Returns true if an earlier database must be removed
/// first; the use must then be recorded again.
pub(crate) async fn used_by_sql(store: &Store, target: &ScopeRef, writes: bool) -> Result<bool> {
    note(store, target, writes, true).await
}

async fn note(store: &Store, target: &ScopeRef, writes: bool, made: bool) -> Result<bool> {
    let now = store.uses.tick(&store.time);
    if store.uses.noted(target, now) {
        return Ok(false);
    }
    let (time, hex) = (store.time.parameter(), Hex::of_digest(&target.digest));
    let hex = hex.as_str();
    let values = target.parameters([(&time, Type::INT8), (&hex, Type::TEXT)]);
    let connection = store.connections.take().await?;
    let row = connection.query_one(&store.statements.use_of, &values, Effect::None).await?;
    drop(connection);
    let is_left: bool = column(&row, 1, "use")?;
    let stored = column::<Option<i64>>(&row, 0, "use")?.map(|age| now.saturating_sub(age.max(0)));
    // A scope known to be in use is not evicted, so nothing of an earlier database can remain.
    if let Some(stored) = stored.filter(|stored| now < stored.saturating_add(store.uses.slack()))
        && !is_left
    {
        store.uses.learn(&target.digest, stored);
        if store.uses.noted(target, now) {
            return Ok(false);
        }
    }
    if stored.is_none() && !made {
        return Ok(false);
    }
    match write(store, target, 0, made).await {
        Ok(Noted::Stored) => store.uses.learn(&target.digest, now),
        Ok(Noted::Nothing) => {}
        Ok(Noted::Leaving) => return Ok(true),
        // A read still succeeds, except from an evicted database.
        Err(error) if !(writes || made && is_left) => {
            tracing::debug!(%error, "the use of a scope cannot be written and stays in memory");
            store.uses.hold(&target.scope, &target.digest, now);
        }
        // The write itself was not sent yet.
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
            return Err(Error::unavailable("the connection was lost before anything was written; try again")
                .with_retry(Retry::Now)
                .with_source(error));
        }
        Err(error) => return Err(error),
    }
    Ok(false)
}

/// The result of recording a use.
enum Noted {
    Nothing,
    Stored,
    /// It is stored, and an evicted database of the scope still exists.
    Leaving,
}

async fn write(store: &Store, target: &ScopeRef, ago: i64, made: bool) -> Result<Noted> {
    let (time, hex) = (store.time.parameter(), Hex::of_digest(&target.digest));
    let hex = hex.as_str();
    let values =
        target.parameters([(&time, Type::INT8), (&ago, Type::INT8), (&made, Type::BOOL), (&hex, Type::TEXT)]);
    let row = store.write(&store.statements.use_scope, &values).await?;
    Ok(match column::<i32>(&row, 0, "use")? {
        0 => Noted::Nothing,
        1 => Noted::Stored,
        _ => Noted::Leaving,
    })
}

/// Writes the uses held in memory.
pub(crate) async fn flush(store: &Store) -> Result<()> {
    let mut held = store.uses.take_held().into_iter();
    while let Some((digest, scope, at)) = held.next() {
        let ago = store.uses.tick(&store.time).saturating_sub(at).max(0);
        match write(store, &ScopeRef::of(&scope), ago, false).await {
            Ok(Noted::Stored) => store.uses.learn(&digest, at),
            Ok(Noted::Nothing | Noted::Leaving) => {}
            Err(error) => {
                store.uses.hold(&scope, &digest, at);
                held.for_each(|(digest, scope, at)| store.uses.hold(&scope, &digest, at));
                return Err(error);
            }
        }
    }
    Ok(())
}

/// The kind and id after which a page begins.
pub(crate) fn after(tenant: &TenantId, query: &ScopeUsesQuery) -> Result<(i16, String)> {
    let after = query.cursor.as_ref().map(|cursor| cursor.scope(tenant)).transpose()?;
    Ok(after.map_or((i16::MIN, String::new()), |(kind, id)| (kind_number(kind), id.as_str().to_owned())))
}

/// One more than requested, to see whether there are more.
pub(crate) fn one_more(limit: usize) -> i64 {
    signed(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1))
}

/// The last use of a scope with a database, if it is too recent for eviction.
pub(crate) async fn used_since(
    store: &Store,
    scope: &Scope,
    unused_since: Timestamp,
) -> Result<Option<Timestamp>> {
    let rows = uses_of(store, &scope.tenant, &[kind_number(scope.kind)], &[scope.id.as_str()]).await?;
    let Some((used, now)) = rows.first().copied() else { return Ok(None) };
    let used = with_held(store, scope, used, now, store.uses.tick(&store.time));
    let latest = used.as_millis().saturating_add(store.uses.slack());
    Ok((latest > unused_since.as_millis().min(now)).then_some(used))
}

/// The page of scopes; there may be one more than requested.
pub(crate) fn page(tenant: &TenantId, mut scopes: Vec<ScopeUse>, limit: usize) -> ScopeUsesPage {
    let more = scopes.len() > limit;
    scopes.truncate(limit);
    let last = scopes.last().filter(|_| more);
    let next = last.map(|last| Cursor::after_scope(tenant, last.scope.kind, &last.scope.id));
    ScopeUsesPage::new(scopes, next)
}

/// GC-1 to GC-3: a page of uses, if this process serves no SQL.
pub(crate) async fn list(store: &Store, tenant: &TenantId, query: &ScopeUsesQuery) -> Result<ScopeUsesPage> {
    let (after, limit) = (after(tenant, query)?, one_more(query.limit));
    let scopes = of_entries(store, tenant, query.kind, &after, limit).await?;
    Ok(page(tenant, scopes, query.limit))
}

/// Scopes with entries, after a kind and an id.
pub(crate) async fn of_entries(
    store: &Store,
    tenant: &TenantId,
    kind: Option<ScopeKind>,
    after: &(i16, String),
    limit: i64,
) -> Result<Vec<ScopeUse>> {
    let (owner, now, of_kind) = (tenant.as_str(), store.time.parameter(), kind.map(kind_number));
    let values: [Value<'_>; 6] = [
        (&owner, Type::TEXT),
        (&of_kind, Type::INT2),
        (&after.0, Type::INT2),
        (&after.1, Type::TEXT),
        (&limit, Type::INT8),
        (&now, Type::INT8),
    ];
    let connection = store.connections.take().await?;
    let rows = connection.query(&store.statements.scope_uses, &values, Effect::None).await?;
    let tick = store.uses.tick(&store.time);
    let one = |row: &Row| {
        let kind = kind_of(column(row, 0, "scope")?)?;
        let id = ScopeId::new(column::<String>(row, 1, "scope")?).map_err(|_| malformed("scope"))?;
        let scope = Scope::new(tenant.clone(), kind, id);
        let used = with_held(store, &scope, column(row, 3, "use")?, column(row, 4, "use")?, tick);
        Ok(ScopeUse::new(scope, unsigned(row, 2, "size")?, 0, used).with_slack(store.uses.slack()))
    };
    rows.iter().map(one).collect()
}

/// The last uses of a tenant's scopes that have a database.
pub(crate) async fn of_databases(
    store: &Store,
    tenant: &TenantId,
    databases: Vec<(Scope, u64)>,
) -> Result<Vec<ScopeUse>> {
    if databases.is_empty() {
        return Ok(Vec::new());
    }
    let kinds: Vec<i16> = databases.iter().map(|(scope, _)| kind_number(scope.kind)).collect();
    let names: Vec<&str> = databases.iter().map(|(scope, _)| scope.id.as_str()).collect();
    let rows = uses_of(store, tenant, &kinds, &names).await?;
    let tick = store.uses.tick(&store.time);
    let one = |((scope, bytes), (used, now)): ((Scope, u64), (i64, i64))| {
        let used = with_held(store, &scope, used, now, tick);
        ScopeUse::new(scope, 0, bytes, used).with_slack(store.uses.slack())
    };
    Ok(databases.into_iter().zip(rows).map(one).collect())
}

/// The stored last uses of scopes with a database, each with the current time.
async fn uses_of(store: &Store, tenant: &TenantId, kinds: &[i16], names: &[&str]) -> Result<Vec<(i64, i64)>> {
    let (owner, now) = (tenant.as_str(), store.time.parameter());
    let values: [Value<'_>; 4] =
        [(&owner, Type::TEXT), (&kinds, Type::INT2_ARRAY), (&names, Type::TEXT_ARRAY), (&now, Type::INT8)];
    let connection = store.connections.take().await?;
    let rows = connection.query(&store.statements.uses_of, &values, Effect::None).await?;
    rows.iter().map(|row| Ok((column(row, 0, "use")?, column(row, 1, "use")?))).collect()
}

fn with_held(store: &Store, scope: &Scope, used: i64, now: i64, tick: i64) -> Timestamp {
    let held = store.uses.held_ago(&scope.digest(), tick).map(|ago| now.saturating_sub(ago));
    Timestamp::from_millis_clamped(held.map_or(used, |held| used.max(held)))
}
