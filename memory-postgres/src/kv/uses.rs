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
use tokio_postgres::types::Type;

use super::sweep;
use crate::error::{Effect, malformed};
use crate::kv::row::{column, signed, unsigned};
use crate::kv::target::{Target, Value, kind_number};
use crate::store::{Store, Time};

/// Milliseconds by which what is stored may lie behind before a use is written in the background, and the slack.
const GRANULARITY: i64 = 60_000;
const SLACK: i64 = 10 * GRANULARITY;
/// How long writes to the scope of an ended run are refused, in milliseconds.
const FENCE: i64 = 86_400_000;
/// Scopes whose use is known, and whose use is held.
const MOST: usize = 50_000;

/// Uses that are held, and what is known to be stored; times by a clock of this process.
#[derive(Debug)]
pub(crate) struct Uses {
    known: Mutex<Known>,
    began: Instant,
}

#[derive(Debug, Default)]
struct Known {
    stored: HashMap<ScopeDigest, i64>,
    held: HashMap<ScopeDigest, (Scope, i64)>,
}

impl Default for Uses {
    fn default() -> Self {
        Self { known: Mutex::default(), began: Instant::now() }
    }
}

impl Uses {
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
        if now < stored.saturating_add(GRANULARITY) {
            return true;
        }
        let fits = known.held.len() < MOST || known.held.contains_key(&target.digest);
        if now >= stored.saturating_add(SLACK) || !fits {
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

/// Counts a use of a scope, before what it is about: what was read shows that the scope is kept, and what was written is
/// never older than what is stored.
pub(crate) async fn used(store: &Store, target: &Target, writes: bool) -> Result<()> {
    let now = store.uses.tick(&store.time);
    if store.uses.noted(target, now) {
        return Ok(());
    }
    let (texts, time) = (target.texts(), store.time.parameter());
    let mut values = Vec::with_capacity(4);
    values.extend(target.values(&texts));
    values.push((&time, Type::INT8));
    let connection = store.connections.take().await?;
    let row = connection.query_one(&store.statements.use_of, &values, Effect::None).await?;
    drop(connection);
    match column::<Option<i64>>(&row, 0, "use")? {
        Some(age) => {
            store.uses.learn(&target.digest, now.saturating_sub(age.max(0)));
            if store.uses.noted(target, now) {
                return Ok(());
            }
        }
        None if !writes => return Ok(()),
        None => {}
    }
    match write(store, target, 0, writes).await {
        Ok(true) => store.uses.learn(&target.digest, now),
        Ok(false) => {}
        // A read is answered all the same.
        Err(error) if !writes => {
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
    Ok(())
}

async fn write(store: &Store, target: &Target, ago: i64, made: bool) -> Result<bool> {
    let (texts, time) = (target.texts(), store.time.parameter());
    let mut values = Vec::with_capacity(6);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 3] = [(&time, Type::INT8), (&ago, Type::INT8), (&made, Type::BOOL)];
    values.extend(own);
    column(&store.write(&store.statements.use_scope, &values).await?, 0, "use")
}

/// Writes the uses that are held.
pub(crate) async fn flush(store: &Store) -> Result<()> {
    let held: Vec<(ScopeDigest, (Scope, i64))> = store.uses.lock().held.drain().collect();
    let mut held = held.into_iter();
    while let Some((digest, (scope, at))) = held.next() {
        let ago = store.uses.tick(&store.time).saturating_sub(at).max(0);
        match write(store, &Target::of(&scope), ago, false).await {
            Ok(true) => store.uses.learn(&digest, at),
            Ok(false) => {}
            Err(error) => {
                store.uses.hold(&scope, &digest, at);
                held.for_each(|(digest, (scope, at))| store.uses.hold(&scope, &digest, at));
                return Err(error);
            }
        }
    }
    Ok(())
}

/// GC-1 to GC-3.
pub(crate) async fn list(store: &Store, tenant: &TenantId, query: &ScopeUsesQuery) -> Result<ScopeUsesPage> {
    let after = query.cursor.as_ref().map(|cursor| cursor.scope(tenant)).transpose()?;
    let of_kind = query.kind.map(kind_number);
    let (after_kind, after_id) = match &after {
        Some((kind, id)) => (kind_number(*kind), id.as_str()),
        None => (-1, ""),
    };
    let limit = signed(u64::try_from(query.limit).unwrap_or(u64::MAX).saturating_add(1));
    let (owner, now) = (tenant.as_str(), store.time.parameter());
    let values: [Value<'_>; 6] = [
        (&owner, Type::TEXT),
        (&of_kind, Type::INT2),
        (&after_kind, Type::INT2),
        (&after_id, Type::TEXT),
        (&limit, Type::INT8),
        (&now, Type::INT8),
    ];
    let connection = store.connections.take().await?;
    let rows = connection.query(&store.statements.scope_uses, &values, Effect::None).await?;
    let tick = store.uses.tick(&store.time);
    let mut scopes: Vec<ScopeUse> = Vec::new();
    for row in &rows {
        if scopes.len() >= query.limit {
            let next = scopes.last().map(|last| Cursor::after_scope(tenant, last.scope.kind, &last.scope.id));
            return Ok(ScopeUsesPage::new(scopes, next));
        }
        let kind = match column::<i16>(row, 0, "scope")? {
            0 => ScopeKind::Agent,
            1 => ScopeKind::User,
            2 => ScopeKind::Run,
            _ => return Err(malformed("scope")),
        };
        let id = ScopeId::new(column::<String>(row, 1, "scope")?).map_err(|_| malformed("scope"))?;
        let scope = Scope::new(tenant.clone(), kind, id);
        let (mut used, now): (i64, i64) = (column(row, 3, "use")?, column(row, 4, "use")?);
        if let Some(ago) = store.uses.held_ago(&scope.digest(), tick) {
            used = used.max(now.saturating_sub(ago));
        }
        let at = Timestamp::from_millis_clamped(used);
        scopes.push(ScopeUse::new(scope, unsigned(row, 2, "size")?, 0, at).with_slack(SLACK));
    }
    Ok(ScopeUsesPage::new(scopes, None))
}

/// GC-5 to GC-11.
pub(crate) async fn evict(store: &Store, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
    let target = Target::of(scope);
    let (texts, now) = (target.texts(), store.time.parameter());
    let since = unused_since.as_millis();
    let held = store.uses.held_ago(&target.digest, store.uses.tick(&store.time));
    let mut values = Vec::with_capacity(7);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 4] =
        [(&now, Type::INT8), (&since, Type::INT8), (&held, Type::INT8), (&SLACK, Type::INT8)];
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

/// SCO-5, RUN-1.
pub(crate) async fn end_run(store: &Store, scope: &Scope, fence: bool) -> Result<()> {
    let target = Target::of(scope);
    let (texts, now) = (target.texts(), store.time.parameter());
    let mut values = Vec::with_capacity(5);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 2] = [(&now, Type::INT8), (&fence, Type::BOOL)];
    values.extend(own);
    store.write(&store.statements.run_end, &values).await.map(drop)
}

/// GC-12.
pub(crate) async fn reclaim(store: &Store) -> Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    reclaimed.expired = sweep::sweep(store).await?;
    reclaimed.fences = sweep_uses(store, true).await?;
    Ok(reclaimed)
}

/// Forgets fences that are over; how many. With `all` it looks at every scope, and forgets uses of those that are gone.
pub(crate) async fn sweep_uses(store: &Store, all: bool) -> Result<u64> {
    let now = store.time.parameter();
    let row = store
        .write(&store.statements.sweep_uses, &[(&now, Type::INT8), (&FENCE, Type::INT8), (&all, Type::BOOL)])
        .await?;
    unsigned(&row, 0, "count")
}

/// Whether some process serves agents' SQL beside these entries; one that does says so first.
pub(crate) async fn note_sql(store: &Store, serves: bool) -> Result<bool> {
    let connection = store.connections.take().await?;
    let row = connection.query_one(&store.statements.with_sql, &[], Effect::None).await?;
    let noted: bool = column(&row, 0, "state")?;
    if serves && !noted {
        connection.query(&store.statements.note_sql, &[], Effect::None).await?;
    }
    Ok(serves || noted)
}
