//! When scopes were used, eviction, and the end of runs. What is stored of a use is never the slack behind: one within the
//! granularity of what is stored is not noted, one within the slack is held in memory, one beyond it is written before
//! the operation.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use memory_core::{
    Cursor, Error, ErrorKind, EvictOutcome, Kept, Reclaimed, Result, Retry, Scope, ScopeDigest, ScopeId,
    ScopeKind, ScopeUse, ScopeUsesPage, ScopeUsesQuery, TenantId, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::sweep;
use crate::error::{Effect, malformed};
use crate::kv::row::{column, signed, unsigned};
use crate::kv::target::{Target, Value, kind_number};
use crate::sql::Hex;
use crate::store::{Store, Time};

/// What the slack is, in granularities.
const SLACK: i64 = 10;
/// Scopes whose use is known, and whose use is held.
const MOST: usize = 50_000;

/// Uses that are held, and what is known to be stored; times by a clock of this process.
#[derive(Debug)]
pub(crate) struct Uses {
    known: Mutex<Known>,
    began: Instant,
    /// Milliseconds by which what is stored may lie behind before a use is written in the background.
    granularity: i64,
}

#[derive(Debug, Default)]
struct Known {
    stored: HashMap<ScopeDigest, i64>,
    held: HashMap<ScopeDigest, (Scope, i64)>,
}

impl Uses {
    pub(crate) fn new(granularity_ms: u64) -> Self {
        let granularity = i64::try_from(granularity_ms).unwrap_or(i64::MAX / SLACK);
        Self { known: Mutex::default(), began: Instant::now(), granularity }
    }

    fn slack(&self) -> i64 {
        self.granularity.saturating_mul(SLACK)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self, time: &Time) -> i64 {
        match time {
            Time::Server => i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX),
            Time::Given(clock) => clock.now().as_millis(),
        }
    }

    /// Notes a use where that needs nothing of the server now.
    fn noted(&self, target: &Target, now: i64) -> bool {
        let mut known = self.lock();
        let Some(stored) = known.stored.get(&target.digest).copied() else { return false };
        if now < stored.saturating_add(self.granularity) {
            return true;
        }
        let fits = known.held.len() < MOST || known.held.contains_key(&target.digest);
        if now >= stored.saturating_add(self.slack()) || !fits {
            return false;
        }
        known.held.insert(target.digest, (target.scope.clone(), now));
        true
    }

    fn learn(&self, digest: &ScopeDigest, stored: i64) {
        let mut known = self.lock();
        if known.stored.len() >= MOST {
            known.stored.clear();
        }
        known.stored.insert(*digest, stored);
        if known.held.get(digest).is_some_and(|(_, held)| *held <= stored) {
            known.held.remove(digest);
        }
    }

    fn hold(&self, scope: &Scope, digest: &ScopeDigest, at: i64) {
        let mut known = self.lock();
        if known.held.len() < MOST {
            known.held.insert(*digest, (scope.clone(), at));
        }
    }

    /// How long ago the use that is held was.
    fn held_ago(&self, digest: &ScopeDigest, now: i64) -> Option<i64> {
        self.lock().held.get(digest).map(|(_, at)| now.saturating_sub(*at).max(0))
    }

    /// Whether uses wait to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().held.is_empty()
    }
}

/// Counts a use of a scope's entries, before what it is about: what was read shows that the scope is kept, and what was
/// written is never older than what is stored.
pub(crate) async fn used(store: &Store, target: &Target, writes: bool) -> Result<()> {
    note(store, target, writes, writes).await.map(drop)
}

/// Counts a use of a scope's database, which nobody knows of by its entries. Whether what is left of an earlier one is to be
/// removed first; then the use is to be counted again.
pub(crate) async fn used_by_sql(store: &Store, target: &Target, writes: bool) -> Result<bool> {
    note(store, target, writes, true).await
}

async fn note(store: &Store, target: &Target, writes: bool, made: bool) -> Result<bool> {
    let now = store.uses.tick(&store.time);
    if store.uses.noted(target, now) {
        return Ok(false);
    }
    let (texts, time) = (target.texts(), store.time.parameter());
    let (hex, mut values) = (Hex::of_digest(&target.digest), Vec::with_capacity(5));
    let hex = hex.as_str();
    values.extend(target.values(&texts));
    let own: [Value<'_>; 2] = [(&time, Type::INT8), (&hex, Type::TEXT)];
    values.extend(own);
    let connection = store.connections.take().await?;
    let row = connection.query_one(&store.statements.use_of, &values, Effect::None).await?;
    drop(connection);
    let is_left: bool = column(&row, 1, "use")?;
    let stored = column::<Option<i64>>(&row, 0, "use")?.map(|age| now.saturating_sub(age.max(0)));
    // What is known as fresh is not evicted, so that nothing can be left of it.
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
        Ok(Written::Stored) => store.uses.learn(&target.digest, now),
        Ok(Written::Nothing) => {}
        Ok(Written::Leaving) => return Ok(true),
        // A read is answered all the same, but not from a database that went.
        Err(error) if !(writes || made && is_left) => {
            tracing::debug!(%error, "the use of a scope is held, since it cannot be written");
            store.uses.hold(&target.scope, &target.digest, now);
        }
        // Of the write itself nothing was sent.
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the connection was lost before anything was written; try again",
            )
            .with_retry(Retry::Now)
            .with_source(error));
        }
        Err(error) => return Err(error),
    }
    Ok(false)
}

/// What became of a use.
enum Written {
    Nothing,
    Stored,
    /// It is stored, and a database of the scope's that goes is still there.
    Leaving,
}

async fn write(store: &Store, target: &Target, ago: i64, made: bool) -> Result<Written> {
    let (texts, time) = (target.texts(), store.time.parameter());
    let (hex, mut values) = (Hex::of_digest(&target.digest), Vec::with_capacity(7));
    let hex = hex.as_str();
    values.extend(target.values(&texts));
    let own: [Value<'_>; 4] =
        [(&time, Type::INT8), (&ago, Type::INT8), (&made, Type::BOOL), (&hex, Type::TEXT)];
    values.extend(own);
    let row = store.write(&store.statements.use_scope, &values).await?;
    Ok(match column::<i32>(&row, 0, "use")? {
        0 => Written::Nothing,
        1 => Written::Stored,
        _ => Written::Leaving,
    })
}

/// Writes the uses that are held.
pub(crate) async fn flush(store: &Store) -> Result<()> {
    let held: Vec<(ScopeDigest, (Scope, i64))> = store.uses.lock().held.drain().collect();
    let mut held = held.into_iter();
    while let Some((digest, (scope, at))) = held.next() {
        let ago = store.uses.tick(&store.time).saturating_sub(at).max(0);
        match write(store, &Target::of(&scope), ago, false).await {
            Ok(Written::Stored) => store.uses.learn(&digest, at),
            Ok(Written::Nothing | Written::Leaving) => {}
            Err(error) => {
                store.uses.hold(&scope, &digest, at);
                held.for_each(|(digest, (scope, at))| store.uses.hold(&scope, &digest, at));
                return Err(error);
            }
        }
    }
    Ok(())
}

/// After which kind and id a page begins.
pub(crate) fn after(tenant: &TenantId, query: &ScopeUsesQuery) -> Result<(i16, String)> {
    let after = query.cursor.as_ref().map(|cursor| cursor.scope(tenant)).transpose()?;
    Ok(after.map_or((-1, String::new()), |(kind, id)| (kind_number(kind), id.as_str().to_owned())))
}

/// As many as are asked for and one more, which tells that there are more.
pub(crate) fn one_more(limit: usize) -> i64 {
    signed(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1))
}

/// The last use of a scope that has a database, where an eviction would find that it was used since.
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

/// A page of scopes of which one more than asked for may be there.
pub(crate) fn page(tenant: &TenantId, mut scopes: Vec<ScopeUse>, limit: usize) -> ScopeUsesPage {
    let more = scopes.len() > limit;
    scopes.truncate(limit);
    let last = scopes.last().filter(|_| more);
    let next = last.map(|last| Cursor::after_scope(tenant, last.scope.kind, &last.scope.id));
    ScopeUsesPage::new(scopes, next)
}

/// GC-1 to GC-3, where no agents' SQL is served.
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

/// The last use of scopes of a tenant that have a database.
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

/// What is stored of the last use of scopes that have a database, each with the time it is now.
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

pub(crate) fn kind_of(number: i16) -> Result<ScopeKind> {
    match number {
        0 => Ok(ScopeKind::Agent),
        1 => Ok(ScopeKind::User),
        2 => Ok(ScopeKind::Run),
        _ => Err(malformed("scope")),
    }
}

/// GC-5 to GC-11: judges a scope and drops its entries. `database`: what it is called for SQL, where this process serves that,
/// and the number under which its database waits.
pub(crate) async fn evict(
    store: &Store,
    scope: &Scope,
    unused_since: Timestamp,
    database: Option<(&Hex, Option<i64>)>,
) -> Result<EvictOutcome> {
    let target = Target::of(scope);
    let (texts, now) = (target.texts(), store.time.parameter());
    let (since, slack) = (unused_since.as_millis(), store.uses.slack());
    let held = store.uses.held_ago(&target.digest, store.uses.tick(&store.time));
    let (hex, token) = (database.map(|(hex, _)| hex.as_str()), database.and_then(|(_, token)| token));
    let mut values = Vec::with_capacity(9);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 6] = [
        (&now, Type::INT8),
        (&since, Type::INT8),
        (&held, Type::INT8),
        (&slack, Type::INT8),
        (&hex, Type::TEXT),
        (&token, Type::INT8),
    ];
    values.extend(own);
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

/// SCO-5, RUN-1. `token`: the number under which the scope's database waits.
pub(crate) async fn end_run(store: &Store, scope: &Scope, fence: bool, token: Option<i64>) -> Result<()> {
    let target = Target::of(scope);
    let (texts, now) = (target.texts(), store.time.parameter());
    let hex = Hex::of_digest(&target.digest);
    let (hex, fence) = (hex.as_str(), fence && store.config.run_fence_ms > 0);
    let mut values = Vec::with_capacity(7);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 4] =
        [(&now, Type::INT8), (&fence, Type::BOOL), (&hex, Type::TEXT), (&token, Type::INT8)];
    values.extend(own);
    store.write(&store.statements.run_end, &values).await.map(drop)
}

/// Whether a run has ended.
pub(crate) async fn is_ended(store: &Store, tenant: &TenantId, run: &ScopeId) -> Result<bool> {
    let (tenant, run) = (tenant.as_str(), run.as_str());
    let connection = store.connections.read().await?;
    let values: [Value<'_>; 2] = [(&tenant, Type::TEXT), (&run, Type::TEXT)];
    column(&connection.query_one(&store.statements.is_ended, &values, Effect::None).await?, 0, "state")
}

/// Has a database that waits stay, where nobody has answered; whether it goes.
pub(crate) async fn goes(store: &Store, hex: &Hex, token: i64) -> Result<bool> {
    let (hex, now) = (hex.as_str(), store.time.parameter());
    let values: [Value<'_>; 4] =
        [(&hex, Type::TEXT), (&token, Type::INT8), (&false, Type::BOOL), (&now, Type::INT8)];
    column(&store.write(&store.statements.settle_leaving, &values).await?, 0, "state")
}

/// Those of the databases that go, as is known by now.
pub(crate) async fn going(store: &Store, hexes: &[String]) -> Result<Vec<String>> {
    let connection = store.connections.read().await?;
    let rows = connection.query(&store.statements.goes, &[(&hexes, Type::TEXT_ARRAY)], Effect::None).await?;
    rows.iter().map(|row| column(row, 0, "state")).collect()
}

/// The numbers under which databases of a scope went that may still be there.
pub(crate) async fn gone_of(store: &Store, hex: &Hex) -> Result<Vec<i64>> {
    let hex = hex.as_str();
    let connection = store.connections.read().await?;
    let rows = connection.query(&store.statements.gone_of, &[(&hex, Type::TEXT)], Effect::None).await?;
    rows.iter().map(|row| column(row, 0, "state")).collect()
}

/// A database that went is gone.
pub(crate) async fn forget_leaving(store: &Store, hex: &Hex, token: i64) -> Result<()> {
    let hex = hex.as_str();
    let values: [Value<'_>; 2] = [(&hex, Type::TEXT), (&token, Type::INT8)];
    let connection = store.connections.take().await?;
    connection.query(&store.statements.forget_leaving, &values, Effect::Commits).await.map(drop)
}

/// GC-12, of the entries.
pub(crate) async fn reclaim(store: &Store) -> Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    reclaimed.expired = sweep::sweep(store).await?;
    reclaimed.fences = sweep_uses(store).await?;
    Ok(reclaimed)
}

/// Forgets fences that are over; how many.
pub(crate) async fn sweep_uses(store: &Store) -> Result<u64> {
    let (now, fence) = (store.time.parameter(), signed(store.config.run_fence_ms));
    let row = store.write(&store.statements.sweep_uses, &[(&now, Type::INT8), (&fence, Type::INT8)]).await?;
    unsigned(&row, 0, "count")
}

/// Scopes without entries that nobody has used for long: a page after a mark, with what they are called for SQL.
pub(crate) async fn unused(store: &Store, after: &[u8], limit: i64) -> Result<Vec<(Vec<u8>, String)>> {
    let now = store.time.parameter();
    let values: [Value<'_>; 3] = [(&now, Type::INT8), (&after, Type::BYTEA), (&limit, Type::INT8)];
    let connection = store.connections.take().await?;
    let rows = connection.query(&store.statements.unused, &values, Effect::None).await?;
    rows.iter().map(|row| Ok((column(row, 0, "use")?, column(row, 1, "use")?))).collect()
}

/// Forgets when such scopes were used.
pub(crate) async fn forget_uses(store: &Store, marks: &[Vec<u8>]) -> Result<()> {
    let now = store.time.parameter();
    let values: [Value<'_>; 2] = [(&now, Type::INT8), (&marks, Type::BYTEA_ARRAY)];
    store.write(&store.statements.forget_uses, &values).await.map(drop)
}

/// Whether some process serves agents' SQL beside these entries; one that does says so first.
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
