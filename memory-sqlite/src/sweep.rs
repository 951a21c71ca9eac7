//! Reclaiming what expired or was dropped, and writing access counts: in small steps between which other writers get
//! their turn.

use memory_core::scope::TenantId;
use memory_core::{Result, Scope, ScopeId, ScopeKind, Timestamp};
use rusqlite::{Connection, params};

use crate::batch::{Batch, Fault, Target};
use crate::error::malformed;
use crate::row::{Unreadable, signed};
use crate::writer::{Cost, Writer};

/// Rows of one step.
const STEP: usize = 256;
/// Keys whose access counts one step writes.
const FLUSH: usize = 512;
/// Free pages given back to the file system in one step.
const VACUUM_PAGES: usize = 256;
/// Free pages that the background leaves.
pub(crate) const KEPT_PAGES: usize = 256;
/// Vectors of which one step asks whether they have an entry.
const LOOK: usize = 2_048;

/// Deletes the rows that have expired at `now`, scope by scope. Returns how many.
pub(crate) fn expired(writer: &Writer, targets: Vec<Target>, now: Timestamp) -> Result<u64> {
    let mut removed = 0;
    for target in targets {
        loop {
            let target = target.clone();
            let step = writer.submit_blocking(Cost::slow(0), move |batch| {
                let mut space = batch.space(&target.digest)?;
                let step = batch.reclaim(&target.digest, &mut space, now, STEP)?;
                batch.keep(&target.digest, space);
                Ok(step)
            })?;
            removed += step as u64;
            if step < STEP {
                break;
            }
        }
    }
    Ok(removed)
}

/// Scopes that hold rows that have expired.
pub(crate) fn targets(connection: &Connection, now: Timestamp) -> Result<Vec<Target>, Unreadable> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, kind, name FROM scope s WHERE expiring > 0 \
         AND EXISTS (SELECT 1 FROM entry e WHERE e.space = s.space AND e.expires_at <= ?1)",
    )?;
    let mut rows = statement.query(params![now.as_millis()])?;
    let mut targets = Vec::new();
    while let Some(row) = rows.next()? {
        let kind = match row.get::<_, i64>(1)? {
            0 => ScopeKind::Agent,
            1 => ScopeKind::User,
            2 => ScopeKind::Run,
            _ => return Err(malformed("scope").into()),
        };
        let tenant = TenantId::new(row.get::<_, String>(0)?).map_err(|_| malformed("scope"))?;
        let id = ScopeId::new(row.get::<_, String>(2)?).map_err(|_| malformed("scope"))?;
        targets.push(Target::of(&Scope::new(tenant, kind, id)));
    }
    Ok(targets)
}

/// Deletes the rows of dropped scopes.
pub(crate) fn garbage(writer: &Writer) -> Result<()> {
    while writer.submit_blocking(Cost::slow(0), garbage_step)? {}
    Ok(())
}

/// Returns whether there may be more.
fn garbage_step(batch: &mut Batch<'_>) -> Result<bool, Fault> {
    let space: i64 = {
        let mut statement = batch.statement("SELECT space FROM garbage LIMIT 1")?;
        let mut rows = statement.query([])?;
        match rows.next()? {
            Some(row) => row.get(0)?,
            None => return Ok(false),
        }
    };
    let vectors = batch
        .statement("DELETE FROM vector WHERE id IN (SELECT id FROM vector WHERE space = ?1 LIMIT ?2)")?
        .execute(params![space, signed(STEP as u64)])?;
    if vectors > 0 {
        batch.wrote(vectors);
        return Ok(true);
    }
    batch
        .statement(
            "DELETE FROM body WHERE id IN \
             (SELECT body FROM entry WHERE space = ?1 AND body IS NOT NULL AND key IN \
             (SELECT key FROM entry WHERE space = ?1 ORDER BY key LIMIT ?2))",
        )?
        .execute(params![space, signed(STEP as u64)])?;
    let removed = batch
        .statement(
            "DELETE FROM entry WHERE space = ?1 AND key IN \
             (SELECT key FROM entry WHERE space = ?1 ORDER BY key LIMIT ?2)",
        )?
        .execute(params![space, signed(STEP as u64)])?;
    batch.wrote(removed);
    if removed < STEP {
        batch.statement("DELETE FROM garbage WHERE space = ?1")?.execute([space])?;
    }
    Ok(true)
}

/// Removes vectors that no entry has: another program deleted it. Returns how many.
pub(crate) fn dead_vectors(writer: &Writer) -> Result<u64> {
    let (mut from, mut dead) = (0_i64, 0_u64);
    loop {
        let step = writer.submit_blocking(Cost::alone(), move |batch| dead_vectors_after(batch, from))?;
        let Some((last, removed)) = step else { return Ok(dead) };
        (from, dead) = (last, dead + removed);
    }
}

/// Looks at some vectors behind one; the last of them, and how many were removed.
fn dead_vectors_after(batch: &mut Batch<'_>, from: i64) -> Result<Option<(i64, u64)>, Fault> {
    let (mut last, mut dead) = (None, Vec::new());
    {
        let mut statement = batch.statement(
            "SELECT v.id, v.space, EXISTS (SELECT 1 FROM entry e WHERE e.space = v.space AND e.key = v.key) \
             OR EXISTS (SELECT 1 FROM garbage g WHERE g.space = v.space) FROM vector v WHERE v.id > ?1 ORDER BY v.id LIMIT ?2",
        )?;
        let mut rows = statement.query(params![from, signed(LOOK as u64)])?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            last = Some(id);
            if !row.get::<_, bool>(2)? {
                dead.push((id, row.get::<_, i64>(1)?));
            }
        }
    }
    for (id, space) in &dead {
        batch.statement("DELETE FROM vector WHERE id = ?1")?.execute([id])?;
        // Its counters are counted anew by whoever writes to the scope next.
        batch.statement("UPDATE scope SET recount = 1 WHERE space = ?1")?.execute([space])?;
    }
    batch.wrote(dead.len() * 2);
    Ok(last.map(|last| (last, dead.len() as u64)))
}

/// Gives free pages back to the file system, but for so many, which are soon used again.
pub(crate) fn vacuum(writer: &Writer, kept: usize) -> Result<()> {
    loop {
        let left: i64 = writer.submit_blocking(Cost::slow(0), move |batch| {
            let connection = batch.connection();
            let free = |connection: &Connection| {
                connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0))
            };
            let wanted = free(connection)? - signed(kept as u64);
            if wanted > 0 {
                let pages = wanted.min(signed(VACUUM_PAGES as u64));
                let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                batch.wrote(VACUUM_PAGES);
            }
            Ok(wanted - signed(VACUUM_PAGES as u64))
        })?;
        if left <= 0 {
            return Ok(());
        }
    }
}

/// Gives every free page back.
pub(crate) fn free_pages(writer: &Writer) -> Result<()> {
    loop {
        let left: i64 = writer.submit_blocking(Cost::slow(0), |batch| {
            let connection = batch.connection();
            let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            batch.wrote(VACUUM_PAGES);
            Ok(connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))?)
        })?;
        if left <= 0 {
            return Ok(());
        }
    }
}

/// Writes access counts; one caller at a time.
pub(crate) fn accesses(writer: &Writer, counts: &memory_core::access::AccessCounts) -> Result<()> {
    // Those counted meanwhile are left for the next time.
    let mut keys = counts.keys();
    while keys > 0 {
        let shares = counts.take(FLUSH);
        if shares.is_empty() {
            return Ok(());
        }
        keys = keys.saturating_sub(shares.len());
        let written = writer.submit_blocking(Cost::slow(0), move |batch| {
            let mut reached = Vec::with_capacity(shares.len());
            for share in &shares {
                let mut statement = batch.statement(
                    "UPDATE entry SET accesses = accesses + ?4 WHERE space = ?1 AND key = ?2 AND born = ?3 \
                     RETURNING accesses",
                )?;
                let mut rows =
                    statement.query(params![share.space, share.key, share.born, signed(share.count)])?;
                let mut row_reached = None;
                while let Some(row) = rows.next()? {
                    row_reached = u64::try_from(row.get::<_, i64>(0)?).ok();
                }
                reached.push(row_reached);
            }
            batch.wrote(shares.len());
            batch.context().accesses.wrote(reached);
            batch.settles_accesses();
            Ok(())
        });
        if let Err(error) = written {
            counts.failed();
            return Err(error);
        }
    }
    Ok(())
}
