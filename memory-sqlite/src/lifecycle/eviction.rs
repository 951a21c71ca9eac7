//! Removing whole scopes, and the records that outlive them: the intent to remove a SQL database, and the end of a
//! run.
//!
//! Each intent has a number, so that finishing an old one late does not clear a newer one. While a scope has an
//! intent, no new database is created for it: the intent is cleared first, once no file is left.

use memory_core::{Error, EvictOutcome, Kept, Result, Scope, ScopeId, ScopeKind, TenantId, Timestamp};
use rusqlite::{Connection, params};

use crate::commit::batch::Batch;
use crate::commit::scope::Target;
use crate::error::{Fault, Unreadable, malformed};
use crate::file::column::{kind, kind_number, scope, signed, unsigned};
use crate::file::counts::{counted, expired};
use crate::kv::write;

/// Most intents finished at once.
const MOST: usize = 1_000;
/// Rows of one step.
const STEP: u64 = 1_000;

/// The conditions of an eviction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judging {
    pub(crate) unused_since: Timestamp,
    /// The last use held in memory.
    pub(crate) held: i64,
    pub(crate) slack: i64,
    /// Scopes without a recorded use count as used at this time.
    pub(crate) tracked_since: i64,
    /// Bytes of its SQL database; `None` if it has none. The caller holds the database's write lock.
    pub(crate) sql: Option<u64>,
}

/// The outcome, and the number of the intent to remove the database.
pub(crate) type Judged = (EvictOutcome, Option<i64>);

/// Evicts a scope's entries unless it was used recently (GC-5 to GC-10).
pub(crate) fn evict(batch: &mut Batch<'_>, target: &Target, asked: Judging) -> Result<Judged, Fault> {
    let now = batch.now();
    let mut space = batch.space(&target.digest)?;
    let (entries, _) = batch.live(&space, now)?;
    // A database with an intent counts as removed.
    let sql = asked.sql.filter(|_| space.intent == 0);
    if entries == 0 && sql.is_none() {
        return Ok((EvictOutcome::Kept(Kept::Absent), None));
    }
    let used_at = space.used_at.max(asked.held).max(asked.tracked_since);
    let since = asked.unused_since.as_millis().min(now.as_millis());
    if used_at.saturating_add(asked.slack) > since {
        let last_used_at = Timestamp::from_millis_clamped(used_at);
        return Ok((EvictOutcome::Kept(Kept::Used { last_used_at }), None));
    }
    let bytes = space.bytes.saturating_add(sql.unwrap_or_default());
    let mut intent = None;
    if sql.is_some() {
        if space.id == 0 {
            batch.insert_row(target, &mut space)?;
        }
        let number = batch.fresh_space()?;
        space.intent = number;
        batch.keep(&target.digest, space);
        batch
            .statement("UPDATE scope SET leaving = ?2 WHERE digest = ?1")?
            .execute(params![target.digest.as_bytes(), number])?;
        intent = Some(number);
    }
    write::drop_scope(batch, target)?;
    Ok((EvictOutcome::Evicted { bytes }, intent))
}

/// Drops a run's entries and records that it has ended (SCO-5, RUN-1). Returns the number of the intent to remove
/// its SQL database, if it has one.
pub(crate) fn end_run(batch: &mut Batch<'_>, target: &Target, database: bool) -> Result<Option<i64>, Fault> {
    let space = batch.space(&target.digest)?;
    let intent = if database { Some(batch.fresh_space()?) } else { None };
    if space.intent != 0 {
        clear(batch, target, None)?;
    }
    write::drop_scope(batch, target)?;
    // The names are stored only as long as they are needed.
    let names = intent.map(|_| (target.scope.tenant.as_str(), target.scope.id.as_str())).unzip();
    let (tenant, name): (Option<&str>, Option<&str>) = names;
    batch
        .statement(
            "INSERT INTO ended (digest, tenant, name, at, leaving) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (digest) DO UPDATE SET at = max(at, excluded.at), tenant = coalesce(excluded.tenant, tenant), \
             name = coalesce(excluded.name, name), \
             leaving = CASE excluded.leaving WHEN 0 THEN leaving ELSE excluded.leaving END",
        )?
        .execute(params![
            target.digest.as_bytes(),
            tenant,
            name,
            batch.now().as_millis(),
            intent.unwrap_or_default()
        ])?;
    batch.wrote(1);
    Ok(intent)
}

/// Clears the intent with this number, or, without a number, any intent, since no file is left.
pub(crate) fn clear(batch: &mut Batch<'_>, target: &Target, number: Option<i64>) -> Result<(), Fault> {
    let mut space = batch.space(&target.digest)?;
    if space.intent != 0 && number.is_none_or(|number| number == space.intent) {
        batch
            .statement("UPDATE scope SET leaving = 0 WHERE digest = ?1")?
            .execute([target.digest.as_bytes()])?;
        space.intent = 0;
        batch.keep(&target.digest, space);
        if !target.scope.kind.is_durable() && space.entries == 0 {
            write::drop_scope(batch, target)?;
        }
        batch.wrote(1);
    }
    if target.scope.kind == ScopeKind::Run {
        batch
            .statement("UPDATE ended SET leaving = 0, tenant = NULL, name = NULL WHERE digest = ?1 AND leaving <> 0 AND leaving = coalesce(?2, leaving)")?
            .execute(params![target.digest.as_bytes(), number])?;
    }
    Ok(())
}

/// Called before a scope's database is created: counts as a use, clears earlier intents, and refuses if the run has
/// ended.
pub(crate) fn before_database(batch: &mut Batch<'_>, target: &Target) -> Result<(), Fault> {
    let run = target.scope.kind == ScopeKind::Run;
    if run && batch.has_ended(&target.digest)? {
        return Err(Fault::Refused(Error::run_ended()));
    }
    clear(batch, target, None)?;
    record_use(batch, target).map(drop)
}

/// Records a use of a scope, creating its row if necessary. Returns false if its database has an intent.
pub(crate) fn record_use(batch: &mut Batch<'_>, target: &Target) -> Result<bool, Fault> {
    let mut space = batch.space(&target.digest)?;
    batch.ensure_row(target, &mut space)?;
    space.used_at = space.used_at.max(batch.now().as_millis());
    space.touch();
    batch.keep(&target.digest, space);
    Ok(space.intent == 0)
}

/// Deletes expired records of ended runs, at most one step. Returns how many.
pub(crate) fn fences(batch: &mut Batch<'_>) -> Result<u64, Fault> {
    let over = batch.now().as_millis().saturating_sub(batch.fence());
    let gone = batch
        .statement(
            "DELETE FROM ended WHERE digest IN \
             (SELECT digest FROM ended WHERE at <= ?1 AND leaving = 0 ORDER BY at LIMIT ?2)",
        )?
        .execute(params![over, signed(STEP)])?;
    batch.wrote(gone);
    Ok(gone as u64)
}

/// The scopes with an intent to remove their database.
pub(crate) fn intents(connection: &Connection) -> Result<Vec<Scope>, Unreadable> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, kind, name FROM scope WHERE leaving <> 0 \
         UNION SELECT tenant, 2, name FROM ended WHERE leaving <> 0 LIMIT ?1",
    )?;
    let mut rows = statement.query([signed(MOST as u64)])?;
    let mut scopes = Vec::new();
    while let Some(row) = rows.next()? {
        scopes.push(scope(row.get(0)?, row.get(1)?, row.get(2)?)?);
    }
    Ok(scopes)
}

/// A scope with live entries, and its last use.
#[derive(Clone, Debug)]
pub(crate) struct UsedRow {
    pub(crate) kind: ScopeKind,
    pub(crate) id: ScopeId,
    pub(crate) bytes: u64,
    pub(crate) used_at: i64,
}

/// A tenant's scopes with live entries, after a position in their order.
pub(crate) fn used_rows(
    connection: &Connection,
    of: &TenantId,
    after: Option<&(ScopeKind, ScopeId)>,
    only: Option<ScopeKind>,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<UsedRow>, Unreadable> {
    let (after_kind, after_id) = after.map_or((i64::MIN, ""), |(kind, id)| (kind_number(*kind), id.as_str()));
    let (low, high) = only.map_or((i64::MIN, i64::MAX), |kind| (kind_number(kind), kind_number(kind)));
    let mut statement = connection.prepare_cached(
        "SELECT s.kind, s.name, s.space, s.bytes, s.expiring, s.entries, s.recount, s.used_at FROM scope s \
         WHERE s.tenant = ?1 AND (s.kind, s.name) > (?2, ?3) AND s.kind BETWEEN ?4 AND ?5 \
         AND (s.entries > 0 OR s.recount <> 0) ORDER BY s.kind, s.name",
    )?;
    let mut rows = statement.query(params![of.as_str(), after_kind, after_id, low, high])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let space: i64 = row.get(2)?;
        let (mut bytes, mut expiring, mut entries): (i64, i64, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
        if row.get::<_, i64>(6)? != 0 {
            (entries, bytes, expiring) = counted(connection, space)?;
        }
        let (expired, expired_bytes) = expired(connection, space, expiring, now)?;
        if entries <= expired {
            continue;
        }
        found.push(UsedRow {
            kind: kind(row.get(0)?)?,
            id: ScopeId::new(row.get::<_, String>(1)?).map_err(|_| malformed("scope"))?,
            bytes: unsigned(bytes - expired_bytes, "counter")?,
            used_at: row.get(7)?,
        });
        if found.len() >= limit {
            break;
        }
    }
    Ok(found)
}
